"""`hindcast ingest --follow`: audit logs taken in while API servers write and rotate them.

The follower keeps a log open while it grows. So a log that is rotated, compressed or unlinked is still read to its end. The marks
of the logs alone say how much is stored. So a follower that was killed goes on where it stopped, also in files that were rotated in
the meantime.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

from ..errors import InputError, LakeError
from ..lake import Lake
from ..maintain import compact, remove_retired
from ..redaction.redact import Redactor
from ..store import EventStore
from .compressed import is_compressed
from .content import STDIN, Source
from .files import IngestSummary, files_below, is_log_name
from .forms import form_of
from .logfile import FileSummary, LogFile, Reading
from .object_store import is_url

LOOK_SECONDS = 1.0
# Each store makes a file, and many small files make a lake slow.
STORE_SECONDS = 5.0
# How long to wait at the end for another process that writes to the lake.
PATIENCE_SECONDS = 20.0
MAINTAIN_SECONDS = 900.0
# A log without changes for so long need not stay open.
_OPEN_SECONDS = 600.0
_HEAD_BYTES = 4096
_PROBE_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20

# The key of a file is (device, inode); its state is (size in bytes, time of the last change in nanoseconds).
_Identity = tuple[int, int]
_Version = tuple[int, int]
Report = Callable[[IngestSummary, str], None]


def follow_files(
    lake: Lake,
    paths: Sequence[Path | str],
    cluster: str,
    now: Callable[[], float],
    stop: threading.Event,
    redactor: Redactor | None = None,
    report: Report = lambda summary, problem: None,
    form: str = "",
    zone: tzinfo | None = None,
) -> IngestSummary:
    """Store logs and their rotated files as they grow, until `stop` is set; then store all complete lines.

    A path is a folder, or a log that need not exist yet. `now` gives seconds since the epoch. `report` gets the sum so far after
    each store, and the error if there was one; then the follower tries again. Small files are merged from time to time. Raises
    InputError for a path that cannot be followed, LakeError when the lake cannot be written in the end.
    """
    follower = Follower(lake, [_checked(path) for path in paths], Reading(cluster, form, zone), redactor)
    stored, maintained = -STORE_SECONDS, time.monotonic()

    def attempt(unit_done: Callable[[], None], *, is_last: bool = False) -> LakeError | None:
        try:
            follower.store(now(), unit_done, is_last=is_last)
        except LakeError as error:
            report(follower.summary, str(error))
            return error
        except _EnoughError:
            pass
        report(follower.summary, "")
        return None

    def until_stopped() -> None:
        report(follower.summary, "")
        if stop.is_set():
            raise _EnoughError

    def until_overdue() -> None:
        if time.monotonic() > deadline:
            raise _EnoughError

    try:
        while not stop.is_set():
            if follower.look() and time.monotonic() - stored >= STORE_SECONDS:
                attempt(until_stopped)
                stored = time.monotonic()
            if time.monotonic() - maintained >= MAINTAIN_SECONDS:
                report(follower.summary, _maintain(lake, now()))
                maintained = time.monotonic()
            stop.wait(LOOK_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        follower.look()
        while (problem := attempt(until_overdue, is_last=True)) is not None:
            if time.monotonic() > deadline:
                raise problem
            time.sleep(LOOK_SECONDS)
            follower.look()
        return follower.summary
    finally:
        follower.close()


class _EnoughError(Exception):
    """Stops the work between two units; the next ingest stores the rest."""


def _checked(path: Path | str) -> Path:
    if str(path) == STDIN:
        raise InputError("--follow: standard input is read until it ends anyway", "leave --follow out")
    if is_url(str(path)):
        raise InputError(
            f"--follow: {path} holds objects, which do not grow", "run it again without --follow: it stores the new lines"
        )
    found = Path(path)
    if not found.exists() and not found.parent.is_dir():
        raise InputError(f"{path}: no such file or folder", "--follow waits for a file, but not for the folder that it is in")
    if found.exists() and not (found.is_dir() or found.is_file()):
        raise InputError(f"{path}: is neither a file nor a folder", "a pipe is read until it ends anyway: leave --follow out")
    return found


def _maintain(lake: Lake, now_ts: float) -> str:
    """Merge small files; returns the error, or an empty text."""
    try:
        with lake.writer() as writer:
            compact(writer, now_ts)
            remove_retired(writer, now_ts)
    except LakeError as error:
        return str(error)
    return ""


def rotated(path: Path) -> re.Pattern[str]:
    """The names of a log and of its rotated files, compressed or not.

    kube-apiserver makes `audit-TIME.log` (lumberjack.v2 lumberjack.go, backupName), logrotate `audit.log.1` or `audit.log-DAY`.
    """
    stem, suffix = re.escape(path.stem), re.escape(path.suffix)
    return re.compile(rf"{stem}(-\d[\d.T-]*)?{suffix}([.-]\d+)*(\.gz|\.zst|\.zstd)?")


@dataclass(slots=True)
class _Tail:
    """A log that is open. `head` holds its first bytes, which show whether another log replaced it."""

    handle: FileIO
    log: LogFile
    head: bytes = b""
    version: _Version = (-1, -1)

    @property
    def has_news(self) -> bool:
        return _status(self.handle)[1] != self.version

    @property
    def is_replaced(self) -> bool:
        """Whether it was truncated and started again (logrotate's copytruncate)."""
        size, _ = _status(self.handle)[1]
        return size < self.log.offset_bytes or os.pread(self.handle.fileno(), len(self.head), 0) != self.head

    def read_on(self, store: EventStore, now_ts: float, unit_done: Callable[[], None], *, ends: bool) -> None:
        """Store the lines written since the last store."""
        _, version = _status(self.handle)
        self.log.received_ts = now_ts
        self.handle.seek(self.log.offset_bytes)
        self.log.read_lines(store, iter(partial(self.handle.read, _BLOCK_BYTES), b""), unit_done, ends=ends)
        head = os.pread(self.handle.fileno(), min(self.log.offset_bytes, _HEAD_BYTES), 0)
        if head.startswith(self.head):
            self.head = head
        self.version = version


class Follower:
    """The followed paths. `look` finds lines and files to store, `store` stores them."""

    def __init__(self, lake: Lake, paths: Sequence[Path], reading: Reading, redactor: Redactor | None) -> None:
        self.summary = IngestSummary()
        self._lake, self._paths, self._reading, self._redactor = lake, paths, reading, redactor
        self._tails: dict[_Identity, _Tail] = {}
        # Files that were read, or that are not logs; a change makes the follower check them again.
        self._settled: dict[_Identity, _Version] = {}
        self._listed: dict[_Identity, _Version] = {}
        self._fresh: list[Path] = []

    def look(self) -> bool:
        """Return whether there is anything to store."""
        for identity in [identity for identity, tail in self._tails.items() if tail.is_replaced]:
            self._drop(identity)
        before, self._listed, self._fresh = self._listed, {}, []
        for path in self._candidates():
            try:
                identity, version = _status(path)
            except OSError:
                continue  # rotated meanwhile: the next look finds it under another name
            self._listed[identity] = version
            is_new = identity not in self._tails and self._settled.get(identity) != version
            # A file that does not grow by lines is read once it is whole, that is, once it stops changing.
            if is_new and (before.get(identity) == version or _grows_by_lines(path)):
                self._fresh.append(path)
        self._settled = {identity: version for identity, version in self._settled.items() if identity in self._listed}
        return bool(self._fresh) or any(tail.has_news for tail in self._tails.values())

    def store(self, now_ts: float, unit_done: Callable[[], None], *, is_last: bool) -> None:
        """Store every complete line and file. Raises LakeError and the errors that `unit_done` raises; the next call then goes
        on from the marks."""
        try:
            with self._lake.writer() as writer:
                store = EventStore(writer)
                try:
                    for tail in self._tails.values():
                        if is_last or tail.has_news:
                            tail.read_on(store, now_ts, unit_done, ends=is_last)
                    for path in self._fresh:
                        self._begin(store, path, now_ts, unit_done, is_last)
                finally:
                    store.close()
        except BaseException:
            # Lines that were read but not stored must be read again.
            self.close()
            raise
        for identity, tail in list(self._tails.items()):
            is_old = now_ts - tail.version[1] / 1e9 > _OPEN_SECONDS or identity not in self._listed
            if is_old and not tail.has_news:
                self._settled[identity] = tail.version
                self._drop(identity)

    def close(self) -> None:
        """Close every file."""
        for identity in list(self._tails):
            self._drop(identity)

    def _drop(self, identity: _Identity) -> None:
        self._tails.pop(identity).handle.close()

    def _candidates(self) -> Iterator[Path]:
        for path in self._paths:
            if path.is_dir():
                yield from files_below(path, self._unreadable)
            elif path.parent.is_dir():
                pattern = rotated(path)
                yield from sorted(file for file in path.parent.iterdir() if pattern.fullmatch(file.name) and file.is_file())

    def _unreadable(self, error: OSError) -> None:
        self._entry(Path(error.filename)).note = f"passed over: {error.filename}: cannot be read: {error.strerror}"

    def _begin(self, store: EventStore, path: Path, now_ts: float, unit_done: Callable[[], None], is_last: bool) -> None:
        """Read a file for the first time, from where an earlier ingest ended, and keep it open if it may grow."""
        entry = self._entry(path)
        entry.note = ""
        log = LogFile(entry, self._reading, now_ts, self._redactor)
        try:
            handle = FileIO(path)
        except FileNotFoundError:
            return
        except OSError as error:
            entry.note = f"passed over: {path}: cannot be read: {error.strerror}"
            self._settled.update({identity: version for identity, version in self._listed.items() if identity == _status(path)[0]})
            return
        identity, version = _status(handle)
        with log.open(self._lake.manifest.prop, Source(str(path), partial(_from_start, handle))) as content:
            head = os.pread(handle.fileno(), _HEAD_BYTES, 0)
            # Where NULs come first, the lines do not begin at offsets of the file.
            if not is_compressed(head) and log.is_untranslated and head[:1] != b"\0":
                tail = self._tails[identity] = _Tail(handle, log)
                tail.read_on(store, now_ts, unit_done, ends=is_last)
                return
            try:
                log.read(store, content, unit_done)
            except InputError as error:
                entry.note = f"passed over: {error.message}" if is_log_name(path.name) else ""
        handle.close()
        self._settled[identity] = version

    def _entry(self, path: Path) -> FileSummary:
        for entry in self.summary.files:
            if entry.path == str(path):
                return entry
        self.summary.files.append(FileSummary(str(path)))
        return self.summary.files[-1]


def _status(file: FileIO | Path) -> tuple[_Identity, _Version]:
    found = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    return (found.st_dev, found.st_ino), (found.st_size, found.st_mtime_ns)


def _grows_by_lines(path: Path) -> bool:
    try:
        with path.open("rb") as handle:
            head = handle.read(_PROBE_BYTES)
    except OSError:
        return True  # the ingest that reads it reports the reason
    if is_compressed(head):
        return False
    form = form_of(head)
    return form is not None and form.grows


def _from_start(handle: FileIO) -> Any:
    handle.seek(0)
    return os.fdopen(os.dup(handle.fileno()), "rb")
