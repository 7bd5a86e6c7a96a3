"""Reads one audit log: the part that the lake has, the next part, and the marks that say how far it was read.

A log is known by its first line, not by its name. Rotation renames `audit.log` and may compress it, and a growing file keeps its
beginning. One transaction commits the events, how far the log was read, and a digest of all bytes up to there. So an interrupted
ingest goes on where it stopped, and a second ingest skips the known part. A log that only begins alike is read in full.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from pathlib import PurePosixPath

import msgspec
import xxhash

from ..notes import sealed
from ..redaction.redact import Redactor
from ..sink import is_cluster_name
from ..store import Counts, EventStore, Lines
from .content import Content, Source
from .envelopes import LineReader, expand, is_whole, looks_complete, not_an_audit_log
from .exports import Found
from .finder import may_hold_event
from .forms import NAMES, PLAIN, Form, form_of
from .pool import Pool
from .rows import in_zone

_EMPTY = "an empty file"
UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20
# Slow input, through a pipe, is stored at least this often.
UNIT_SECONDS_MAX = 5.0


class _Mark(msgspec.Struct):
    """How far a log was read: bytes and lines as its form gives them, and the digest of those bytes."""

    offset: int = 0
    number: int = 0
    digest: str = ""


@dataclass(slots=True)
class FileSummary:
    """The result of one file. `bytes` are decompressed bytes read now, `known_lines` are lines that an earlier ingest had read.
    `passed_over` are entries of an export that belong to other logs; `note` describes the defect of the file. `form` is that of
    the file, and `forms` counts the events of each kind of record."""

    path: str
    counts: Counts = field(default_factory=Counts)
    bytes: int = 0
    known_lines: int = 0
    passed_over: int = 0
    note: str = ""
    form: str = ""
    forms: Counter[str] = field(default_factory=Counter)

    def described(self) -> str:
        """Its form, and the records that its events were in, the commonest first."""
        names = [name for name, _ in self.forms.most_common() if name]
        return ", ".join([*names] if names and self.form == PLAIN else filter(None, (self.form, *names)))

    def add_note(self, text: str) -> None:
        """Add a sentence to the note on the file."""
        self.note = "; ".join(filter(None, (self.note, text)))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a user says of the files: the cluster of their events, the form if it is not to be found out, and the zone of times
    that name none. Without a cluster the envelope names it, or it is DEFAULT_CLUSTER."""

    cluster: str = ""
    form: str = ""
    zone: tzinfo | None = None


DEFAULT_CLUSTER = "default"


class LogFile:
    """One log. `received_ts` is seconds since the epoch; for a followed log it advances."""

    def __init__(self, entry: FileSummary, reading: Reading, received_ts: float, redactor: Redactor | None) -> None:
        self.entry = entry
        self.received_ts = received_ts
        self.cluster = reading.cluster or DEFAULT_CLUSTER
        self._reading = reading
        self._form: Form | None = NAMES.get(reading.form)
        self._redactor = redactor
        self._source = f"file:{PurePosixPath(entry.path).name}"
        self._key = ""
        self._digest = xxhash.xxh3_128()
        self._known = _Mark()
        # Of a container log that rotation cut: the part of an event at its end, and the rest of one at its beginning. Whoever reads
        # several files puts both together, and asks for them: see rotated.py.
        self.is_one_of_several = False
        # Where the last events of the file wait for those of others; without a pool they are stored at once.
        self.pool: Pool | None = None
        self.unfinished = b""
        self.beginning = b""

    @property
    def offset_bytes(self) -> int:
        """The bytes of the decompressed content that the lake has."""
        return self._known.offset

    @property
    def lines(self) -> int:
        """How many of its lines the lake has."""
        return self._known.number

    @property
    def is_untranslated(self) -> bool:
        """Whether its bytes are those of its lines, so that the rest can be read from an offset."""
        return self._form is not None and self._form.translate is None

    def open(self, mark_of: Callable[[str], str | None], source: Source) -> Content:
        """The content after the part that an earlier ingest read, if that part has the same bytes.

        `mark_of` gives the marks that were stored with events.
        """
        content = self._opened(source)
        first_line = content.head().split(b"\n", 1)[0]
        self._key = f"file:{self.cluster}:{xxhash.xxh3_128_hexdigest(first_line)}"
        stored = mark_of(self._key)
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
        return self._opened(source)

    def _opened(self, source: Source) -> Content:
        content = Content(source)
        self._form = NAMES.get(self._reading.form) or form_of(content.head())
        if self._form is not None:
            self.entry.form = self._form.title
            content.translate(self._form)
        return content

    def read(self, store: EventStore, content: Content, progress: Callable[[], None]) -> None:
        """Store the rest of the content, and describe its defect. Raises InputError where it holds no event."""
        head = content.head()
        if self._known.offset or self._form is not None:
            self.read_lines(store, content, progress)
        elif head:
            raise not_an_audit_log(self.entry.path, head, content.damage)
        else:
            self.entry.form = _EMPTY
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
            self._commit_lines(store, unit, is_last=ends)
        number = self._known.number + 1
        if reader.is_overlong:
            self.entry.add_note(f"{self._unit} {number} is longer than any event; reading stopped before it")
        elif ends and looks_complete(reader.rest):
            self._commit_lines(store, [reader.rest], newline=b"", is_last=True)
        elif ends and reader.rest:
            self.unfinished = reader.rest if self._is_cut_by_rotation else b""
            self.entry.add_note(self._unfinished_note(number))

    def take_finished(self, store: EventStore, event: bytes) -> None:
        """Store the event whose rest is in another file."""
        number = self._known.number + 1
        self.entry.note = self.entry.note.replace(self._unfinished_note(number), "").removesuffix("; ")
        units: dict[str, _Unit] = {}
        self._take(event, number, units)
        self._commit(store, units, number, {})

    def set_beginning_aside(self, store: EventStore, why: str) -> None:
        """Put the rest of an event whose first part is not there into quarantine."""
        self.entry.passed_over -= 1
        event = sealed(self.beginning)
        event = event if self._redactor is None else self._redactor.apply(event)
        where = partial(_place, self.entry.path, self._unit, [1])
        name = f"file-{xxhash.xxh3_128_hexdigest(self._key.encode())}-beginning"
        self.entry.counts.add(store.set_aside([Lines(self.cluster, self._source, self.received_ts, [event], where)], {}, name, why))

    def _unfinished_note(self, number: int) -> str:
        return f"{self._unit} {number} is not finished; it is taken by the next ingest once it is"

    @property
    def _is_cut_by_rotation(self) -> bool:
        return self.is_one_of_several and self._form is not None and self._form.grows and self._form.others

    def _commit_lines(self, store: EventStore, lines: Sequence[bytes], newline: bytes = b"\n", *, is_last: bool = False) -> None:
        """Store some lines together with the mark that they were read."""
        first = self._known.number + 1
        offset = self._known.offset
        units: dict[str, _Unit] = {}
        for number, line in enumerate(lines, first):
            self._digest.update(line)
            self._digest.update(newline)
            offset += len(line) + len(newline)
            self._take(line, number, units)
        mark = _Mark(offset, first + len(lines) - 1, self._digest.hexdigest())
        self.entry.bytes += offset - self._known.offset
        self._commit(store, units, first, {self._key: msgspec.json.encode(mark).decode()}, is_last=is_last)
        self._known = mark

    def _take(self, line: bytes, number: int, units: dict[str, _Unit]) -> None:
        """Add the events of a line to those of their clusters."""
        found = expand(line)
        if self._form is not None and self._form.others and found.events == [line] and not may_hold_event(line):
            found = Found([], 1)
        if number == 1 and self._is_cut_by_rotation and found.events in ([], [line]) and not is_whole(line):
            self.beginning = line
            found = Found([], 1)
        self.entry.passed_over += found.passed_over
        self.entry.forms[found.form] += len(found.events)
        named = self._reading.cluster == "" and found.clusters
        for index, event in enumerate(found.events):
            cluster = (named and is_cluster_name(found.clusters[index]) and found.clusters[index]) or self.cluster
            unit = units.setdefault(cluster, _Unit())
            unit.events.append(sealed(event))
            unit.numbers.append(number)

    @property
    def _unit(self) -> str:
        return self._form.unit if self._form is not None else "line"

    def _commit(
        self, store: EventStore, units: dict[str, _Unit], first: int, marks: dict[str, str], *, is_last: bool = False
    ) -> None:
        parts = []
        for cluster, unit in units.items():
            events = unit.events
            if (zone := self._reading.zone) is not None:
                events = [in_zone(event, zone) for event in events]
            if self._redactor is not None:
                events = [self._redactor.apply(event) for event in events]
            where = partial(_place, self.entry.path, self._unit, unit.numbers)
            parts.append(Lines(cluster, self._source, self.received_ts, events, where))
        # A repetition of the same work after a crash gives its quarantine file the same name, and so replaces it.
        name = f"file-{xxhash.xxh3_128_hexdigest(self._key.encode())}-{first}"
        if self.pool is not None and is_last:
            self.pool.add(parts, marks, name, self.entry.counts)
            return
        if self.pool is not None:
            self.pool.settle()
        self.entry.counts.add(store.store(parts, marks, name))


@dataclass(slots=True)
class _Unit:
    """The events of one cluster, and the line of each."""

    events: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def _place(path: str, unit: str, numbers: Sequence[int], index: int) -> str:
    return f"{path}:{numbers[index]}" if unit == "line" else f"{path}, {unit} {numbers[index]}"
