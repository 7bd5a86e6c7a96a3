"""The spool: where a batch of events is safe before its sender hears of it.

    spool/NAME.open        the one segment that is being written
    spool/NAME.jsonl.zst   sealed segments, oldest name first; they never change again

Many senders share one fdatasync: whoever gets to the disk first writes what all of them have queued. A segment is sealed by fsync,
rename and fsync of the directory, so a sealed name is always a whole file. Names are never used twice, also not after the drain has
removed what it stored, so a name identifies a segment in the manifest for good.

A batch is acknowledged only while the segment's name still leads to the file that was written: a lake that was deleted, moved,
replaced or mounted over would take events that no reader ever sees.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from .durable import make_folder, sync_folder, write_durably
from .errors import LakeError
from .lag import Lag, Waiting
from .mark import Mark, read_mark, write_mark
from .place import Identity, Place, identity_of
from .repair import RepairedSegment, missing_segment, repair_open_segment
from .segment import Batch, BatchHeader, Damage, encode_batch, read_headers, read_segment

__all__ = ["Batch", "Damage", "DisplacedError", "RepairedSegment", "Spool", "SpoolWriteError", "read_segment", "sealed_segments"]

SEALED_SUFFIX = ".jsonl.zst"
OPEN_SUFFIX = ".open"
SEGMENT_BYTES_MAX = 64 * 1024 * 1024
SEGMENT_SECONDS_MAX = 30.0
_COPIED_BYTES = 1 << 20


class SpoolWriteError(LakeError):
    """The batch could not be made durable; nothing was acknowledged and the sender still has it."""


class DisplacedError(SpoolWriteError):
    """The folder of the lake is not the one that was opened: no reader of it would see what is written."""


@dataclass(slots=True)
class _Ticket:
    """One batch on its way to disk. Whichever sender takes it along sets `done`, and `stored` only after the sync."""

    data: bytes
    events: int
    received_ts: float
    done: bool = False
    stored: bool = False
    error: OSError | None = None


@dataclass(slots=True)
class _OpenSegment:
    path: Path
    handle: int
    opened_at: float
    identity: Identity
    size_bytes: int = 0  # of what is acknowledged


def segment_name(path: Path) -> str:
    """The name of a segment, open or sealed; it is never used for another one."""
    return path.name.removesuffix(SEALED_SUFFIX).removesuffix(OPEN_SUFFIX)


def sealed_segments(directory: Path) -> list[Path]:
    """The sealed segments of a spool, oldest first. Read one with `read_segment`; unlink it once its rows are committed."""
    return sorted(path for path in directory.iterdir() if path.name.endswith(SEALED_SUFFIX)) if directory.is_dir() else []


def segment_files(directory: Path) -> list[Path]:
    """All segments of a spool, oldest first, with the one that is being written."""
    names = (SEALED_SUFFIX, OPEN_SUFFIX)
    return sorted(path for path in directory.iterdir() if path.name.endswith(names)) if directory.is_dir() else []


class Spool:
    """The writing end of a spool directory. One process at a time may hold it; its threads may append at the same time.

    `clock` is a monotonic clock in seconds; it decides only when a segment is old enough to be sealed.
    `quarantine` is where acknowledged bytes go that cannot be read at the start; by default the folder beside the spool.
    Raises LakeError when another process holds the directory or it cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        quarantine: Path | None = None,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        segment_seconds_max: float = SEGMENT_SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
        on_sync: Callable[[float], None] | None = None,
    ) -> None:
        self.directory = directory
        self._segment_bytes_max = segment_bytes_max
        self._segment_seconds_max = segment_seconds_max
        self._clock = clock
        self._on_sync = on_sync
        self._queue_lock = threading.Lock()
        self._disk_lock = threading.Lock()
        self._queue: list[_Ticket] = []
        self._open: _OpenSegment | None = None
        self._backlog_bytes = 0
        self._waiting = Waiting()
        self._is_displaced = False  # as the last group of batches found
        self._quarantine = quarantine or directory.with_name("quarantine")
        self.seal_trouble = ""  # why the last attempt to seal a segment failed, until one succeeds
        self._lock_handle = _take_directory(directory)
        try:
            self._place = Place((directory.parent, directory))
            self.repaired = self._repair_all()
            self._inherited = sealed_segments(directory)
            self.measure_backlog()
        except OSError as error:
            os.close(self._lock_handle)
            raise LakeError(f"{directory}: the spool cannot be repaired: {error}", "check the disk, then start again") from error

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def backlog_bytes(self) -> int:
        """Compressed bytes that wait for the drain, as of the last `measure_backlog` plus what was appended since."""
        return self._backlog_bytes

    def measure_backlog(self) -> int:
        """Look at the directory again, because the drain removes segments; returns compressed bytes."""
        self._backlog_bytes = sum(_sizes_bytes(self.directory))
        return self._backlog_bytes

    def measure_lag(self, done: Mapping[str, int]) -> Lag:
        """What was acknowledged and is not stored, given how many batches of each segment are; call it from one thread.

        The first call reads the headers of all that earlier lives left. Raises OSError.
        """
        while self._inherited:
            path = self._inherited.pop()
            with suppress(FileNotFoundError):  # stored in the meantime
                for header in read_headers(path):
                    self._waiting.add(segment_name(path), header.n, header.received_ts)
        self._waiting.forget_stored(self._is_there)
        return self._waiting.lag(done)

    def append(self, cluster: str, digest: str, received_ts: float, lines: list[bytes]) -> None:
        """Make one batch durable: when this returns, it survives a crash of the process and of the machine.

        `received_ts` is seconds since the epoch. No line may contain a newline. Raises SpoolWriteError when the disk refuses.
        """
        ticket = _Ticket(encode_batch(cluster, digest, received_ts, lines), len(lines), received_ts)
        with self._queue_lock:
            self._queue.append(ticket)
        with self._disk_lock:
            # Whoever held the disk before may have taken this batch along: that is the whole of group commit.
            if not ticket.done:
                with self._queue_lock:
                    group, self._queue = self._queue, []
                self._commit(group)
        if not ticket.stored:
            if isinstance(ticket.error, _NotHereError):
                raise _displaced(str(ticket.error)) from ticket.error
            why = ticket.error.strerror or ticket.error if ticket.error is not None else "its write was broken off"
            raise SpoolWriteError(
                f"{self.directory}: the batch could not be stored: {why}",
                "free space on the disk of the lake; senders try again by themselves",
            ) from ticket.error

    def why_displaced(self) -> str:
        """Why no reader of the lake would see what is written now, as a sentence; empty when all is in its place."""
        return self._place.why_displaced()

    def check_place(self) -> None:
        """Raise DisplacedError when the folders are not the ones that were opened."""
        if why := self.why_displaced():
            raise _displaced(why)

    def probe(self) -> None:
        """Make a small file durable beside the segments and remove it: whether the disk takes anything at all.

        Raises OSError, and DisplacedError when the folder is another one: it must not be made again here.
        """
        self.check_place()
        path = self.directory / ".probe"
        write_durably(path, _write_probe)
        path.unlink(missing_ok=True)

    def seal(self) -> Path | None:
        """Hand the open segment to the drain now; returns its sealed path, or None when nothing is open. Raises SpoolWriteError."""
        with self._disk_lock:
            try:
                return self._seal()
            except _NotHereError as error:
                raise _displaced(str(error)) from error
            except OSError as error:
                raise SpoolWriteError(f"{self.directory}: the segment could not be sealed: {error}", "check the disk") from error

    def seal_if_old(self) -> Path | None:
        """Seal the open segment if it has been open for longer than allowed. Raises SpoolWriteError."""
        opened = self._open
        if opened is not None and self._clock() - opened.opened_at >= self._segment_seconds_max:
            return self.seal()
        return None

    def headers(self) -> Iterator[BatchHeader]:
        """The headers of all batches that still wait for the drain, oldest segment first."""
        for path in sealed_segments(self.directory):
            try:
                yield from read_headers(path)
            except FileNotFoundError:
                continue  # The drain stored and removed it in the meantime.

    def close(self) -> None:
        """Seal what is open and let go of the directory. Raises SpoolWriteError; the directory is let go of all the same."""
        try:
            self.seal()
        finally:
            os.close(self._lock_handle)

    def _commit(self, group: list[_Ticket]) -> None:
        """Write a group of batches behind one fdatasync and mark every ticket, also when the disk refuses."""
        for ticket in group:
            ticket.done = True
        try:
            # The look at the end sees to the place of a segment that is open; before the write it costs as much once more.
            segment = self._open if self._open and not self._is_displaced else self._writable_segment()
            for ticket in group:
                _write_all(segment.handle, ticket.data)
            started = time.perf_counter()
            os.fdatasync(segment.handle)
            sync_seconds = time.perf_counter() - started
            size_bytes = sum(len(ticket.data) for ticket in group)
            self._mark(segment, segment.size_bytes + size_bytes)
            # Last of all, so that only what happens from here to the answer can hide the batch.
            self._check_segment(segment)
        except _NotHereError as error:
            self._is_displaced = True
            self._take_back(group, error)
            return
        except OSError as error:
            for ticket in group:
                ticket.error = error
            self._abandon()
            return
        for ticket in group:
            ticket.stored = True
            self._waiting.add(segment_name(segment.path), ticket.events, ticket.received_ts)
        segment.size_bytes += size_bytes
        self._backlog_bytes += size_bytes
        if self._on_sync is not None:
            self._on_sync(sync_seconds)
        self._roll_if_full()

    def _writable_segment(self) -> _OpenSegment:
        """The open segment, in its place. Raises _NotHereError when what would be written now could not be found again."""
        segment = self._open
        if segment is None:
            if why := self.why_displaced():
                raise _NotHereError(why)
            segment = self._start()
        try:
            self._check_segment(segment)
        except _NotHereError:
            if self.why_displaced():
                raise
            segment = self._rescue(segment)
        self._is_displaced = False
        return segment

    def _check_segment(self, segment: _OpenSegment) -> None:
        """One look at the name covers the folders above it, too: whatever replaced one of them has no such file."""
        try:
            found = identity_of(segment.path)
        except OSError as error:
            raise _NotHereError(f"{segment.path} is not there any more: {error.strerror or error}") from error
        if found != segment.identity:
            raise _NotHereError(f"{segment.path} is another file than the one that was opened")

    def _take_back(self, group: list[_Ticket], error: OSError) -> None:
        """Refuse a group that was written where no reader looks. What was acknowledged before stays in the open file."""
        for ticket in group:
            ticket.error = error
        segment = self._open
        if segment is not None:
            with suppress(OSError):  # then the sender's repetition is found to be one
                os.ftruncate(segment.handle, segment.size_bytes)
                self._mark(segment, segment.size_bytes)

    def _rescue(self, removed: _OpenSegment) -> _OpenSegment:
        """Write the acknowledged batches of a segment that was deleted under us into a new one; its handle still has them.

        Raises OSError; then the handle is kept, and the next batch tries again.
        """
        if removed.size_bytes == 0:
            self._open = None
            os.close(removed.handle)
            return self._start()
        try:
            fresh = self._start()
            offset = 0
            while offset < removed.size_bytes:
                block = os.pread(removed.handle, min(_COPIED_BYTES, removed.size_bytes - offset), offset)
                if not block:
                    raise OSError(errno.EIO, "the deleted segment cannot be read")
                _write_all(fresh.handle, block)
                offset += len(block)
            os.fdatasync(fresh.handle)
            self._mark(fresh, removed.size_bytes)
        except OSError as error:
            failed, self._open = self._open, removed
            if failed is not None and failed is not removed:
                with suppress(OSError):
                    os.close(failed.handle)
                with suppress(OSError):
                    failed.path.unlink()
            raise _NotHereError(f"{removed.path} was deleted, and cannot be written again: {error.strerror or error}") from error
        fresh.size_bytes = removed.size_bytes
        self._waiting.move(segment_name(removed.path), segment_name(fresh.path))
        with suppress(OSError):
            os.close(removed.handle)
        return fresh

    def _mark(self, segment: _OpenSegment, acknowledged_bytes: int, *, sealing: bool = False) -> None:
        write_mark(self._lock_handle, segment.path.name, acknowledged_bytes, sealing=sealing)

    def _roll_if_full(self) -> None:
        segment = self._open
        if segment is None:
            return
        age_seconds = self._clock() - segment.opened_at
        if segment.size_bytes >= self._segment_bytes_max or age_seconds >= self._segment_seconds_max:
            # When it fails: all of it is on disk and acknowledged. It stays open, and the next attempt or the next start seals it.
            with suppress(OSError):
                self._seal()

    def _is_there(self, name: str) -> bool:
        # In this order: between the two looks it may be sealed, and never the other way round.
        return any((self.directory / f"{name}{suffix}").exists() for suffix in (OPEN_SUFFIX, SEALED_SUFFIX))

    def _start(self) -> _OpenSegment:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self.directory / f"{stamp}-{secrets.token_hex(4)}{OPEN_SUFFIX}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._open = _OpenSegment(path, handle, self._clock(), identity_of(handle))
        self._mark(self._open, 0)
        # Without this the file's name may be missing after a power loss although its content was synced.
        sync_folder(self.directory)
        return self._open

    def _seal(self) -> Path | None:
        if self._open is None:
            return None
        if self._open.size_bytes == 0:
            self._abandon()
            return None
        try:
            sealed = self._rename_open()
        except OSError as error:
            self.seal_trouble = f"the open segment could not be sealed: {error.strerror or error}"
            raise
        self.seal_trouble = ""
        sync_folder(self.directory)
        return sealed

    def _rename_open(self) -> Path:
        segment = self._writable_segment()
        os.fsync(segment.handle)
        # Before the name changes: from then on the drain may store and remove it.
        self._mark(segment, segment.size_bytes, sealing=True)
        sealed = _sealed_name(segment.path)
        segment.path.rename(sealed)
        # Whatever fails from here on: nothing may be written to it any more, and its handle may soon be another file's.
        self._open = None
        with suppress(OSError):  # everything was synced; closing can add no trouble
            os.close(segment.handle)
        return sealed

    def _abandon(self) -> None:
        """Leave the open segment after a failed write: what a failed fdatasync left in the page cache cannot be trusted.

        The batches that were acknowledged were synced before and are kept; the next segment starts in a new file.
        """
        segment, self._open = self._open, None
        if segment is None:
            return
        with suppress(OSError):
            os.close(segment.handle)
        # If that fails, too, it is still there under its open name, and the next start repairs it.
        with suppress(OSError):
            os.truncate(segment.path, segment.size_bytes)
            self._repair(segment.path, Mark(segment.path.name, segment.size_bytes, is_exact=True))

    def _repair_all(self) -> list[RepairedSegment]:
        """What an earlier life left open, and what it acknowledged that is not there any more. Raises OSError."""
        mark = read_mark(self._lock_handle)
        names = {segment_name(path) + OPEN_SUFFIX for path in segment_files(self.directory)}
        repaired = [self._repair(path, mark) for path in sorted(self.directory.glob(f"*{OPEN_SUFFIX}"))]
        if (missing := missing_segment(mark, names, self._quarantine)) is not None:
            repaired.append(missing)
            write_mark(self._lock_handle, missing.name, 0, sealing=True)
        return repaired

    def _repair(self, path: Path, mark: Mark | None) -> RepairedSegment:
        repaired = repair_open_segment(path, mark, self._quarantine)
        write_mark(self._lock_handle, path.name, repaired.bytes_kept, sealing=True)
        if repaired.bytes_kept:
            path.rename(_sealed_name(path))
        else:
            path.unlink()
        sync_folder(self.directory)
        return repaired


class _NotHereError(OSError):
    """What is written now would not be part of the lake. Its text says why."""


def _displaced(why: str) -> DisplacedError:
    return DisplacedError(f"the lake is not where it was opened: {why}", "put the folder back, or start the server again")


def _take_directory(directory: Path) -> int:
    """Create the directory if needed and lock it, so that two servers never repair each other's open segment."""
    try:
        make_folder(directory, 0o700)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LakeError(
            f"{directory}: the spool cannot be written: {error.strerror}", "choose another --lake or fix its owner"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise LakeError(
            f"{directory}: another process is writing this spool", "stop the other server or choose another --lake"
        ) from error
    return handle


def _sizes_bytes(directory: Path) -> Iterator[int]:
    for path in directory.iterdir():
        if path.name.endswith((SEALED_SUFFIX, OPEN_SUFFIX)):
            # The drain may remove a segment, or another sender seal it, between the listing and this look.
            with suppress(FileNotFoundError):
                yield path.stat().st_size


def _write_probe(path: Path) -> None:
    path.write_bytes(b"probe")


def _sealed_name(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX)


def _write_all(handle: int, data: bytes) -> None:
    """os.write may stop short when the disk fills up; the rest then raises ENOSPC."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
