"""Reads one audit log: the part that the lake has, the next part, and the marks that say how far it was read.

A log is known by its first line, not by its name. Rotation renames `audit.log` and may compress it, and a growing file keeps its
beginning. One transaction commits the events, how far the log was read, and a digest of all bytes up to there. So an interrupted
ingest goes on where it stopped, and a second ingest skips the known part. A log that only begins alike is read in full.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

import msgspec
import xxhash

from ..manifest import Manifest
from ..redaction.redact import Redactor
from ..store import Counts, EventStore, Lines
from .content import Content, Source
from .envelopes import LineReader, documents, expand, layout, looks_complete, not_an_audit_log

UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20
# Slow input, through a pipe, is stored at least this often.
UNIT_SECONDS_MAX = 5.0


class _Mark(msgspec.Struct):
    """How far a log was read: decompressed bytes, lines, and the digest of those bytes."""

    offset: int = 0
    number: int = 0
    digest: str = ""


@dataclass(slots=True)
class FileSummary:
    """The result of one file. `bytes` are decompressed bytes read now, `known_lines` are lines that an earlier ingest had read.
    `passed_over` are entries of an export that belong to other logs; `note` describes the defect of the file."""

    path: str
    counts: Counts = field(default_factory=Counts)
    bytes: int = 0
    known_lines: int = 0
    passed_over: int = 0
    note: str = ""

    def add_note(self, text: str) -> None:
        """Add a sentence to the note on the file."""
        self.note = "; ".join(filter(None, (self.note, text)))


class LogFile:
    """One log of one cluster. `received_ts` is seconds since the epoch; for a followed log it advances."""

    def __init__(self, entry: FileSummary, cluster: str, received_ts: float, redactor: Redactor | None) -> None:
        self.entry = entry
        self.received_ts = received_ts
        self.cluster = cluster
        self._redactor = redactor
        self._source = f"file:{PurePosixPath(entry.path).name}"
        self._key = ""
        self._digest = xxhash.xxh3_128()
        self._known = _Mark()

    @property
    def offset_bytes(self) -> int:
        """The bytes of the decompressed content that the lake has."""
        return self._known.offset

    @property
    def lines(self) -> int:
        """How many of its lines the lake has."""
        return self._known.number

    def open(self, manifest: Manifest, source: Source) -> Content:
        """The content after the part that an earlier ingest read, if that part has the same bytes."""
        content = Content(source)
        first_line = content.head().split(b"\n", 1)[0]
        self._key = f"file:{self.cluster}:{xxhash.xxh3_128_hexdigest(first_line)}"
        stored = manifest.prop(self._key)
        mark = msgspec.json.decode(stored, type=_Mark) if stored and not source.live else _Mark()
        if not mark.offset:
            return content
        digest = content.skip(mark.offset)
        if digest.hexdigest() == mark.digest:
            self._known, self._digest = mark, digest
            self.entry.known_lines = mark.number
            return content
        # Another file with the same first line: it is read in full, and the lake drops every event that it already holds.
        content.close()
        return Content(source)

    def read(self, store: EventStore, content: Content, progress: Callable[[], None]) -> None:
        """Store the rest of the content, and describe its defect. Raises InputError where it holds no event."""
        head = content.head()
        if self._known.offset or (found := layout(head)) == "lines":
            self.read_lines(store, content, progress)
        elif found == "documents":
            self._read_documents(store, content, progress)
        elif head:
            raise not_an_audit_log(self.entry.path, head, content.damage)
        self.entry.add_note(content.damage)

    def read_lines(self, store: EventStore, blocks: Iterable[bytes], progress: Callable[[], None], *, ends: bool = True) -> None:
        """Store the lines that begin at `offset_bytes`. Where the content `ends`, a last line without a newline is stored if it
        is whole."""
        reader = LineReader(blocks)
        unit: list[bytes] = []
        size_bytes = 0
        committed = time.monotonic()
        for lines in reader:
            unit += lines
            size_bytes += sum(map(len, lines))
            waited_seconds = time.monotonic() - committed
            if len(unit) >= UNIT_EVENTS_MAX or size_bytes >= UNIT_BYTES_MAX or waited_seconds >= UNIT_SECONDS_MAX:
                self._commit_lines(store, unit)
                progress()
                unit, size_bytes, committed = [], 0, time.monotonic()
        if unit:
            self._commit_lines(store, unit)
        number = self._known.number + 1
        if reader.is_overlong:
            self.entry.add_note(f"line {number} is longer than any event; reading stopped before it")
        elif ends and looks_complete(reader.rest):
            self._commit_lines(store, [reader.rest], newline=b"")
        elif ends and reader.rest:
            self.entry.add_note(f"line {number} is not finished; it is taken by the next ingest once it is")

    def _commit_lines(self, store: EventStore, lines: Sequence[bytes], newline: bytes = b"\n") -> None:
        """Store some lines together with the mark that they were read."""
        first = self._known.number + 1
        offset = self._known.offset
        events: list[bytes] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            self._digest.update(line)
            self._digest.update(newline)
            offset += len(line) + len(newline)
            found = expand(line)
            events += found.events
            numbers += [number] * len(found.events)
            self.entry.passed_over += found.passed_over
        mark = _Mark(offset, first + len(lines) - 1, self._digest.hexdigest())
        self.entry.bytes += offset - self._known.offset
        where = partial(_line_of, self.entry.path, numbers)
        self._commit(store, events, where, first, {self._key: msgspec.json.encode(mark).decode()})
        self._known = mark

    def _read_documents(self, store: EventStore, content: Content, progress: Callable[[], None]) -> None:
        """Such files are made by hand and not by a server, so they are not resumed; a second ingest finds all of their events
        stored."""
        first = 1
        for value in documents(self.entry.path, content):
            self.entry.bytes += len(value)
            events, passed_over = expand(value)
            self.entry.passed_over += passed_over
            for start in range(0, len(events), UNIT_EVENTS_MAX):
                part = events[start : start + UNIT_EVENTS_MAX]
                self._commit(store, part, partial(_event_of, self.entry.path, first), first, {})
                first += len(part)
                progress()

    def _commit(
        self, store: EventStore, events: list[bytes], where: Callable[[int], str], first: int, marks: dict[str, str]
    ) -> None:
        if self._redactor is not None:
            events = [self._redactor.apply(event) for event in events]
        part = Lines(self.cluster, self._source, self.received_ts, events, where)
        # A repetition of the same work after a crash gives its quarantine file the same name, and so replaces it.
        name = f"file-{xxhash.xxh3_128_hexdigest(self._key.encode())}-{first}"
        self.entry.counts.add(store.store([part], marks, name))


def _line_of(path: str, numbers: Sequence[int], index: int) -> str:
    return f"{path}:{numbers[index]}"


def _event_of(path: str, first: int, index: int) -> str:
    return f"{path}, event {first + index}"
