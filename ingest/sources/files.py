"""`hindcast ingest`: audit log files, folders of them, objects in a store and standard input, each read to its end."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from pathlib import Path, PurePosixPath

from ..errors import InputError
from ..lake import MANIFEST, Lake
from ..redaction.redact import Redactor
from ..store import Counts, EventStore
from .archives import expanded
from .content import STDIN, Content, Source, file_source
from .envelopes import not_an_audit_log
from .forms import form_of
from .logfile import FileSummary, LogFile, Reading
from .object_store import is_url, object_sources
from .pool import Pool
from .rotated import put_together

# audit.log, audit-2026-07-24T10-11-12.345.log.gz, audit.log.1.gz, export.jsonl.zst; of an archive also audit.log#2
_LOG_NAME = re.compile(r"[^.].*\.(log|json|jsonl|ndjson)([.-]\d+)*(\.gz|\.zst|\.zstd|\.bz2|\.xz)?(#\d+)?")

_LEVELS_MAX = 3  # of archives in archives

Progress = Callable[[int, int], None]
_ARTICLES = {"folder": "a folder", "archive": "an archive"}
_Passed = tuple[str, InputError]  # a file that is not read, and why


@dataclass(slots=True)
class IngestSummary:
    """The results of all files."""

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
    paths: Sequence[Path | str],
    cluster: str,
    received_ts: float,
    redactor: Redactor | None = None,
    progress: Progress = lambda done, total: None,
    endpoint: str = "",
    form: str = "",
    zone: tzinfo | None = None,
) -> IngestSummary:
    """Take audit log files, folders of them with all subfolders, objects (`s3://BUCKET/PREFIX`) or standard input (`-`) into the
    lake. Without a `cluster` the envelope of an event names it; `form` and `zone` are those of Reading.

    `received_ts` is seconds since the epoch. After each committed unit, `progress` gets the bytes of input read and the bytes of
    input in all; raising in it stops the ingest between two units. `endpoint` is the URL of an object store other than AWS. Raises
    InputError before anything is stored when a path is missing or holds no audit event. In a folder, such a file is skipped, with a
    note if it is named like a log. An object is checked when its turn comes. Raises LakeError when the lake cannot be written;
    units that were committed before stay.
    """
    with ExitStack() as archives:
        sources, summary = _choose(paths, endpoint, archives, form)
        reading = Reading(cluster, form, zone)
        total = sum(source.size_bytes or 0 for source in sources)
        before = 0
        with lake.writer() as writer, closing(EventStore(writer)) as store:
            logs: list[LogFile] = []
            pool = Pool(store, lake.manifest)
            for source in sources:
                entry = FileSummary(source.name)
                summary.files.append(entry)
                log = LogFile(entry, reading, received_ts, redactor)
                log.is_one_of_several, log.pool = True, pool
                logs.append(log)
                try:
                    _ingest(store, pool, source, log, partial(_advance, progress, before, total))
                except InputError:
                    pool.settle()
                    raise
                before += source.size_bytes or 0
                progress(before, total)
            pool.settle()
            put_together(logs, store)
    return summary


def _ingest(store: EventStore, pool: Pool, source: Source, log: LogFile, advance: Callable[[Content], None]) -> None:
    """Read one source, unless an earlier ingest read this version of it to its end."""
    key = f"object:{log.cluster}:{source.name}"
    version = source.version() if source.version else ""
    known, _, lines = (pool.mark(key) or "").rpartition(" ")
    if version and known == version:
        log.entry.known_lines = int(lines)
        return
    try:
        with log.open(pool.mark, source) as content:
            log.read(store, content, partial(advance, content))
    except InputError as error:
        if not source.optional:
            raise
        if is_log_name(PurePosixPath(source.name).name):
            log.entry.add_note(f"passed over: {error.message}")
    if version and not log.entry.note:
        pool.add((), {key: f"{version} {log.lines}"}, "", log.entry.counts)


def is_log_name(name: str) -> bool:
    """Whether a file is named as API servers, log rotation and exports name audit logs."""
    return _LOG_NAME.fullmatch(name) is not None


def files_below(folder: Path, unreadable: Callable[[OSError], None] = lambda error: None) -> list[Path]:
    """The files of a folder and of its subfolders, except hidden folders and lakes; within a folder in the order of writing.

    A rotated file has the time of its rotation after a dash, which sorts before the dot of the newest, `audit.log`. `unreadable` is
    called with folders that cannot be listed.
    """
    return list(_walk(folder, unreadable))


def _walk(folder: Path, unreadable: Callable[[OSError], None]) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=unreadable):
        if MANIFEST in names:
            folders.clear()  # the spool and the quarantine of a lake are not logs
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (path for name in sorted(names) if not name.startswith(".") and (path := Path(place, name)).is_file())


def _choose(paths: Sequence[Path | str], endpoint: str, archives: ExitStack, form: str) -> tuple[list[Source], IngestSummary]:
    """The sources to read, and a summary that names the skipped files of folders. Nothing is stored yet."""
    chosen: dict[str, Source] = {}
    summary = IngestSummary()
    for path in map(str, paths):
        if is_url(path):
            chosen |= {source.name: source for source in object_sources(path, endpoint)}
        elif path != STDIN and Path(path).is_dir():
            _take_all(path, "folder", *_logs_below(Path(path), archives), chosen, summary)
        else:
            source = file_source(Path(path))
            inner = expanded(source, archives)
            if inner is not None:
                _take_all(path, "archive", *_logs_among(inner, archives), chosen, summary)
            elif not form and (fault := _fault(source)) is not None:
                raise fault
            else:
                chosen[path] = source
    return list(chosen.values()), summary


def _take_all(
    path: str, kind: str, found: list[Source], faults: list[_Passed], chosen: dict[str, Source], summary: IngestSummary
) -> None:
    """Choose the logs of a folder or archive, and note the files that are only named like logs. Raises InputError without a log."""
    if not found:
        raise next((fault for _, fault in faults), None) or InputError(
            f"{path}: the {kind} has no audit log", f"give {_ARTICLES[kind]} with audit logs, plain or compressed"
        )
    chosen |= {source.name: source for source in found}
    summary.files += [FileSummary(name, note=f"passed over: {fault.message}") for name, fault in faults]


def _logs_below(folder: Path, archives: ExitStack) -> tuple[list[Source], list[_Passed]]:
    """The logs below a folder and in its archives, and the files that are only named like a log, with the reason."""
    sources: list[Source] = []
    unread: list[_Passed] = []

    def unreadable(error: OSError) -> None:
        unread.append((error.filename, InputError(f"{error.filename}: cannot be read: {error.strerror}")))

    for path in files_below(folder, unreadable):
        source = file_source(path)
        try:
            inner = expanded(source, archives)
            sources += [source] if inner is None else inner
        except InputError as error:
            unread.append((str(path), error))
    found, faults = _logs_among(sources, archives)
    return found, [*unread, *faults]


def _logs_among(sources: Sequence[Source], archives: ExitStack, levels: int = _LEVELS_MAX) -> tuple[list[Source], list[_Passed]]:
    """The audit logs among files that were found together, and in archives among them.

    A file with another content counts only if it has the name of a log.
    """
    found: list[Source] = []
    faults: list[_Passed] = []
    for source in sources:
        is_named = is_log_name(PurePosixPath(source.name).name)
        try:
            fault = _fault(source)
            inner = expanded(source, archives) if fault is not None and levels else None
        except InputError as error:
            fault, inner = error, None
        if inner is not None:
            deeper, unread = _logs_among(inner, archives, levels - 1)
            found += deeper
            faults += unread
        elif fault is None and (source.size_bytes or is_named):
            found.append(source)
        elif fault is not None and is_named:
            faults.append((source.name, fault))
    return found, faults


def _fault(source: Source) -> InputError | None:
    """Why a source is not an audit log. A live one can be read only once, so it is checked when its turn comes."""
    if source.live:
        return None
    with Content(source) as content:
        head = content.head()
        # Rotation leaves an empty file behind for a moment.
        return not_an_audit_log(source.name, head, content.damage) if (head or content.damage) and form_of(head) is None else None


def _advance(progress: Progress, before: int, total: int, content: Content) -> None:
    progress(before + content.position_bytes, total)
