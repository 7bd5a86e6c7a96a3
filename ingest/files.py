"""`hindcast ingest`: audit log files as kube-apiserver writes and rotates them, whole, in part, and again.

A file is known by its first line, not by its name: rotation renames `audit.log` and may compress it, and a growing file keeps its
beginning. How far it was read, and a digest of all bytes up to there, are committed together with the events, so an interrupted
ingest goes on where it stopped, a second one passes over what it knows, and a file that only begins alike is read in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import xxhash

from .content import STDIN, Content
from .envelopes import LineReader, documents, expand, layout, looks_complete, not_an_audit_log
from .errors import InputError
from .lake import Lake
from .redact import Redactor
from .store import Counts, EventStore, Lines

UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20

# audit.log, audit-2026-07-24T10-11-12.345.log.gz, audit.log.1.gz, export.jsonl.zst
_LOG_NAME = re.compile(r"[^.].*\.(log|json|jsonl|ndjson)([.-]\d+)*(\.gz|\.zst|\.zstd)?")

Progress = Callable[[int, int], None]


class _Mark(msgspec.Struct):
    """How far a file was read: decompressed bytes, lines, and the digest of those bytes."""

    offset: int = 0
    number: int = 0
    digest: str = ""


@dataclass(slots=True)
class FileSummary:
    """What became of one file. `bytes` are decompressed bytes read now, `known_lines` those that an earlier ingest had read;
    `note` says what is wrong with the file."""

    path: str
    counts: Counts = field(default_factory=Counts)
    bytes: int = 0
    known_lines: int = 0
    note: str = ""

    def add_note(self, text: str) -> None:
        """Say one more thing about the file."""
        self.note = "; ".join(filter(None, (self.note, text)))


@dataclass(slots=True)
class IngestSummary:
    """What became of all files."""

    files: list[FileSummary] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        """The sum over all files."""
        total = Counts()
        for file in self.files:
            total.add(file.counts)
        return total


def ingest_files(
    lake: Lake,
    paths: Sequence[Path],
    cluster: str,
    received_ts: float,
    redactor: Redactor | None = None,
    progress: Progress = lambda done, total: None,
) -> IngestSummary:
    """Take audit log files, folders of them, or standard input (`-`) into the lake. `received_ts` is seconds since the epoch.

    `progress` is called with bytes of input read and bytes of input in all, after each committed unit; raising in it stops the
    ingest between two units. Raises InputError before anything is stored when a path is missing or holds no audit event (in a
    folder such a file is passed over with a note), LakeError when the lake cannot be written; what was committed before stays.
    """
    files, summary = _choose(paths)
    total = sum(file.stat().st_size for file in files if file != STDIN)
    before = 0
    with lake.writer() as writer:
        store = EventStore(writer)
        try:
            for file in files:
                entry = FileSummary(str(file))
                summary.files.append(entry)
                job = _Job(store, entry, cluster, received_ts, redactor)
                job.run(lake, file, partial(_advance, progress, before, total))
                before += 0 if file == STDIN else file.stat().st_size
                progress(before, total)
        finally:
            store.close()
    return summary


def audit_log_files(folder: Path) -> list[Path]:
    """The files of a folder that are named like audit logs, in the order in which they were written.

    A rotated file has the time of its rotation after a dash, which sorts before the dot of the newest, `audit.log`.
    """
    return sorted(file for file in folder.iterdir() if _LOG_NAME.fullmatch(file.name) and file.is_file())


def _choose(paths: Sequence[Path]) -> tuple[list[Path], IngestSummary]:
    """The files to read, and a summary that names those of a folder that are passed over. Nothing was stored so far."""
    chosen: dict[Path, None] = {}
    summary = IngestSummary()
    for path in paths:
        if path.is_dir():
            found = audit_log_files(path)
            faults = {file: fault for file in found if (fault := _fault(file)) is not None}
            if len(faults) == len(found):
                raise next(iter(faults.values()), None) or InputError(
                    f"{path}: the folder has no audit log", "names end in .log, .json or .jsonl, also with .gz or .zst"
                )
            summary.files += [FileSummary(str(file), note=f"passed over: {fault.message}") for file, fault in faults.items()]
            chosen |= dict.fromkeys(file for file in found if file not in faults)
        elif path == STDIN or path.is_file():
            if (fault := _fault(path)) is not None:
                raise fault
            chosen[path] = None
        else:
            raise InputError(f"{path}: no such file or folder")
    return list(chosen), summary


def _fault(path: Path) -> InputError | None:
    """Why a file is no audit log. Standard input can be read only once, so it is looked at when its turn comes."""
    if path == STDIN:
        return None
    with Content(path) as content:
        head = content.head()
        # An empty file is what rotation leaves behind for a moment.
        return not_an_audit_log(str(path), head, content.damage) if (head or content.damage) and layout(head) is None else None


def _advance(progress: Progress, before: int, total: int, read: int) -> None:
    progress(before + read, total)


class _Job:
    """The reading of one file."""

    def __init__(self, store: EventStore, entry: FileSummary, cluster: str, received_ts: float, redactor: Redactor | None) -> None:
        self._store, self._entry = store, entry
        self._cluster, self._received_ts, self._redactor = cluster, received_ts, redactor
        self._source = f"file:{Path(entry.path).name}"
        self._key = ""
        self._digest = xxhash.xxh3_128()
        self._known = _Mark()

    def run(self, lake: Lake, path: Path, progress: Callable[[int], None]) -> None:
        with self._at_unread(lake, path) as content:
            head = content.head()
            if self._known.offset or (found := layout(head)) == "lines":
                self._read_lines(content, progress)
            elif found == "documents":
                self._read_documents(content, progress)
            elif head:
                raise not_an_audit_log(str(path), head, content.damage)
            self._entry.add_note(content.damage)

    def _at_unread(self, lake: Lake, path: Path) -> Content:
        """The content behind what an earlier ingest read, once it is sure that it was the same bytes."""
        content = Content(path)
        first_line = content.head().split(b"\n", 1)[0]
        self._key = f"file:{self._cluster}:{xxhash.xxh3_128_hexdigest(first_line)}"
        stored = lake.manifest.prop(self._key)
        mark = msgspec.json.decode(stored, type=_Mark) if stored and path != STDIN else _Mark()
        if not mark.offset:
            return content
        digest = content.skip(mark.offset)
        if digest.hexdigest() == mark.digest:
            self._known, self._digest = mark, digest
            self._entry.known_lines = mark.number
            return content
        # Another file with the same first line: the lake drops what it holds of it already, event by event.
        content.close()
        return Content(path)

    def _read_lines(self, content: Content, progress: Callable[[int], None]) -> None:
        reader = LineReader(content)
        unit: list[bytes] = []
        size_bytes = 0
        for lines in reader:
            unit += lines
            size_bytes += sum(map(len, lines))
            if len(unit) >= UNIT_EVENTS_MAX or size_bytes >= UNIT_BYTES_MAX:
                self._commit_lines(unit)
                progress(content.position_bytes)
                unit, size_bytes = [], 0
        if unit:
            self._commit_lines(unit)
        number = self._known.number + 1
        if reader.is_overlong:
            self._entry.add_note(f"line {number} is longer than any event; reading stopped before it")
        elif looks_complete(reader.rest):
            self._commit_lines([reader.rest], newline=b"")
        elif reader.rest:
            self._entry.add_note(f"line {number} is not finished; it is taken by the next ingest once it is")

    def _commit_lines(self, lines: Sequence[bytes], newline: bytes = b"\n") -> None:
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
            events += found
            numbers += [number] * len(found)
        mark = _Mark(offset, first + len(lines) - 1, self._digest.hexdigest())
        self._entry.bytes += offset - self._known.offset
        where = partial(_line_of, self._entry.path, numbers)
        self._commit(events, where, first, {self._key: msgspec.json.encode(mark).decode()})
        self._known = mark

    def _read_documents(self, content: Content, progress: Callable[[int], None]) -> None:
        """Such files are made by hand and not by a server, so they are not resumed; a second ingest finds all of it stored."""
        first = 1
        for value in documents(self._entry.path, content):
            self._entry.bytes += len(value)
            events = expand(value)
            for start in range(0, len(events), UNIT_EVENTS_MAX):
                part = events[start : start + UNIT_EVENTS_MAX]
                self._commit(part, partial(_event_of, self._entry.path, first), first, {})
                first += len(part)
                progress(content.position_bytes)

    def _commit(self, events: list[bytes], where: Callable[[int], str], first: int, marks: dict[str, str]) -> None:
        if self._redactor is not None:
            events = [self._redactor.apply(event) for event in events]
        part = Lines(self._cluster, self._source, self._received_ts, events, where)
        # A repetition of the same work after a crash gives its quarantine file the same name, and so replaces it.
        name = f"file-{xxhash.xxh3_128_hexdigest(self._key.encode())}-{first}"
        self._entry.counts.add(self._store.store([part], marks, name))


def _line_of(path: str, numbers: Sequence[int], index: int) -> str:
    return f"{path}:{numbers[index]}"


def _event_of(path: str, first: int, index: int) -> str:
    return f"{path}, event {first + index}"
