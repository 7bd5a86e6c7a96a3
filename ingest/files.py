"""`hindcast ingest`: audit log files as kube-apiserver writes and rotates them, whole, in part, and again.

A file is known by its first line, not by its name: rotation renames `audit.log` and may compress it, and a growing file keeps its
beginning. How far it was read, and a digest of all bytes up to there, are committed together with the events, so an interrupted
ingest goes on where it stopped, a second one passes over what it knows, and a file that only begins alike is read in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import xxhash

from .content import STDIN, Content
from .envelopes import DOCUMENT_BYTES_MAX, Record, document, expand, is_audit_log, lines, looks_complete, not_an_audit_log
from .errors import InputError
from .lake import Lake
from .redact import Redactor
from .store import Counts, EventStore, Lines

UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20
_PROBE_BYTES = 1 << 20

Progress = Callable[[int, int], None]


class _Mark(msgspec.Struct):
    """How far a file was read: decompressed bytes, lines, and the digest of those bytes."""

    offset: int = 0
    number: int = 0
    digest: str = ""


@dataclass(slots=True)
class FileSummary:
    """What became of one file. `known_lines` were read by an earlier ingest; `note` says what is wrong with the file."""

    path: str
    counts: Counts = field(default_factory=Counts)
    known_lines: int = 0
    note: str = ""


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
    ingest between two units. Raises InputError before anything is stored when a path is missing or holds no audit event, LakeError
    when the lake cannot be written; what was committed before stays.
    """
    files = audit_log_files(paths)
    for file in files:
        _check(file)
    total = sum(file.stat().st_size for file in files if file != STDIN)
    summary = IngestSummary()
    before = 0
    with lake.writer() as writer:
        store = EventStore(writer)
        try:
            for file in files:
                entry = FileSummary(str(file))
                summary.files.append(entry)
                job = _Job(lake, store, entry, cluster, received_ts, redactor)
                job.run(file, partial(_ahead, progress, before, total))
                before += 0 if file == STDIN else file.stat().st_size
                progress(before, total)
        finally:
            store.close()
    return summary


def audit_log_files(paths: Sequence[Path]) -> list[Path]:
    """The files to read, a folder's in the order in which they were written: `audit-TIME.log*` by time, then `audit.log`.

    Raises InputError when a path does not exist or a folder has no audit log.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            logs = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".") and _is_log_name(file.name)]
            if not logs:
                raise InputError(
                    f"{path}: the folder has no audit log", "names end in .log, .json or .jsonl, also with .gz or .zst"
                )
            # A rotated file has the time of its rotation in its name; the one without a time is the newest.
            found += sorted(logs, key=lambda file: ("-" not in file.name, file.name))
        elif path == STDIN or path.is_file():
            found.append(path)
        else:
            raise InputError(f"{path}: no such file or folder")
    return list(dict.fromkeys(found))


def _is_log_name(name: str) -> bool:
    for suffix in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(suffix)
    return name.endswith((".log", ".json", ".jsonl", ".ndjson"))


def _check(path: Path) -> None:
    """Refuse what is no audit log before anything of it, or of its neighbours, is stored."""
    if path == STDIN:
        return
    with Content(path) as content:
        probe = content.probe(_PROBE_BYTES)
        if not probe and not content.damage:
            return  # empty: kube-apiserver has just rotated
        if not is_audit_log(probe.split(b"\n")) and b'"EventList"' not in probe[:2000]:
            raise not_an_audit_log(str(path), probe, content.damage)


def _ahead(progress: Progress, before: int, total: int, read: int) -> None:
    progress(before + read, total)


class _Job:
    """The reading of one file."""

    def __init__(
        self, lake: Lake, store: EventStore, entry: FileSummary, cluster: str, received_ts: float, redactor: Redactor | None
    ) -> None:
        self._lake, self._store, self._entry = lake, store, entry
        self._cluster, self._received_ts, self._redactor = cluster, received_ts, redactor
        self._source = f"file:{Path(entry.path).name}"
        self._key = ""
        self._digest = xxhash.xxh3_128()
        self._known = _Mark()

    def run(self, path: Path, progress: Callable[[int], None]) -> None:
        content = self._at_unread(path)
        with content:
            probe = content.probe(_PROBE_BYTES)
            if not self._known.offset and not is_audit_log(probe.split(b"\n")):
                self._commit(_document(content), marked=False)
            else:
                self._read_lines(content, progress)
            self._entry.note = "; ".join(filter(None, (self._entry.note, content.damage)))

    def _at_unread(self, path: Path) -> Content:
        """The content behind what an earlier ingest read, once it is sure that it was the same bytes."""
        content = Content(path)
        self._key = f"file:{self._cluster}:{xxhash.xxh3_128_hexdigest(content.first_line())}"
        stored = self._lake.manifest.prop(self._key)
        mark = msgspec.json.decode(stored, type=_Mark) if stored and path != STDIN else _Mark()
        if not mark.offset:
            return content
        digest = content.skip(mark.offset)
        if digest.hexdigest() == mark.digest:
            self._known, self._digest = mark, digest
            self._entry.known_lines = mark.number
            return content
        # Another file with the same first line: the lake drops what it holds of it already, event by event.
        content.__exit__(None, None, None)
        return Content(path)

    def _read_lines(self, content: Content, progress: Callable[[int], None]) -> None:
        unit: list[Record] = []
        size = 0
        for record in lines(content, self._known.offset, self._known.number):
            if not record.whole and not looks_complete(record.raw):
                self._entry.note = f"line {record.number} is not finished; it is taken by the next ingest once it is"
                break
            unit.append(record)
            size += len(record.raw)
            if len(unit) >= UNIT_EVENTS_MAX or size >= UNIT_BYTES_MAX:
                self._commit(unit)
                progress(content.position_bytes)
                unit, size = [], 0
        if unit:
            self._commit(unit)

    def _commit(self, unit: Sequence[Record], marked: bool = True) -> None:
        raw: list[bytes] = []
        where: list[str] = []
        for record in unit:
            self._digest.update(record.raw + b"\n" if record.whole else record.raw)
            events = expand(record.raw)
            raw += events
            where += [f"{self._entry.path}:{record.number}"] * len(events)
        if self._redactor is not None:
            raw = [self._redactor.apply(line) for line in raw]
        last = unit[-1]
        mark = msgspec.json.encode(_Mark(last.end, last.number, self._digest.hexdigest())).decode()
        part = Lines(self._cluster, self._source, self._received_ts, raw, where)
        name = f"{self._key.replace(':', '-')}-{unit[0].number}"
        self._entry.counts.add(self._store.store([part], {self._key: mark} if marked else {}, name))


def _document(content: Content) -> list[Record]:
    """The events of a file that is one JSON document over many lines."""
    data = b""
    for block in content:
        data += block
        if len(data) > DOCUMENT_BYTES_MAX:
            limit = DOCUMENT_BYTES_MAX >> 20
            raise InputError(f"{content.path}: an EventList of more than {limit} MiB cannot be read as one", "split it")
    return [Record(event, number, 0) for number, event in enumerate(document(str(content.path), data), 1)]
