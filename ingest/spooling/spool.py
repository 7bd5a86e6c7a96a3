"""The spool: where a batch of events is safe before its sender hears of it.

    spool/NAME.open        the one segment that is being written
    spool/NAME.jsonl.zst   sealed segments, oldest name first; they never change again

Many senders share one fdatasync: the first sender at the disk writes the queued batches of all. A segment is sealed by fsync,
rename and fsync of the directory, so a sealed name is always a whole file. A name is never used twice, not even after the drain has
removed its segment. So a name identifies a segment in the manifest for good.

A batch is acknowledged only while the segment's name still leads to the file that was written. A lake that was deleted, moved,
replaced or mounted over would take events that no reader ever sees.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..durable import sync_folder, write_durably
from ..errors import LakeError
from ..sources.place import Place
from .lag import Lag, Waiting
from .mark import Mark
from .open_segment import NotHereError, OpenSegment
from .repair import RepairedSegment, repair_and_seal, repair_folder
from .segment import Batch, BatchHeader, Damage, encode_batch, read_headers, read_segment
from .segment_files import is_segment_there, lock_folder, sealed_segments, segment_name, segments_bytes

__all__ = ["Batch", "Damage", "DisplacedError", "RepairedSegment", "Spool", "SpoolWriteError", "read_segment", "sealed_segments"]

SEGMENT_BYTES_MAX = 64 * 1024 * 1024
SEGMENT_SECONDS_MAX = 30.0


class SpoolWriteError(LakeError):
    """The batch could not be made durable; nothing was acknowledged and the sender still has it."""


class DisplacedError(SpoolWriteError):
    """The folder of the lake is not the one that was opened: no reader would see a batch written there."""


@dataclass(slots=True)
class _Ticket:
    """One batch on its way to disk. The sender that writes it sets `done`, and sets `stored` only after the sync."""

    data: bytes
    events: int
    received_ts: float
    done: bool = False
    stored: bool = False
    error: OSError | None = None


class Spool:
    """The writing end of a spool directory. One process at a time may hold it; its threads may append at the same time.

    `clock` is a monotonic clock in seconds; it decides only when a segment is old enough to be sealed. `quarantine` is the folder
    for acknowledged bytes that cannot be read at the start; by default the folder next to the spool. Raises LakeError when another
    process holds the directory or it cannot be written.
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
        self._open: OpenSegment | None = None
        self._backlog_bytes = 0
        self._waiting = Waiting()
        self._is_displaced = False  # the result of the last check
        self._quarantine = quarantine or directory.with_name("quarantine")
        self.seal_error: OSError | None = None  # why the last attempt to seal a segment failed, until one succeeds
        self._lock_handle = lock_folder(directory)
        try:
            self._place = Place((directory.parent, directory))
            self.repaired = repair_folder(directory, self._lock_handle, self._quarantine)
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
        """Compressed bytes that wait for the drain: the last `measure_backlog` plus the bytes appended since."""
        return self._backlog_bytes

    def measure_backlog(self) -> int:
        """Measure the directory again, because the drain removes segments; returns compressed bytes."""
        self._backlog_bytes = segments_bytes(self.directory)
        return self._backlog_bytes

    def measure_lag(self, done: Mapping[str, int]) -> Lag:
        """The acknowledged events that are not stored, given how many batches of each segment are; call it from one thread.

        The first call reads the headers of all segments that earlier processes left. Raises OSError.
        """
        while self._inherited:
            path = self._inherited.pop()
            with suppress(FileNotFoundError):  # stored in the meantime
                for header in read_headers(path):
                    self._waiting.add(segment_name(path), header.n, header.received_ts)
        self._waiting.forget_stored(lambda name: is_segment_there(self.directory, name))
        return self._waiting.lag(done)

    def append(self, cluster: str, digest: str, received_ts: float, lines: list[bytes]) -> None:
        """Make one batch durable: when this returns, it survives a crash of the process and of the machine.

        `received_ts` is seconds since the epoch. No line may contain a newline. Raises SpoolWriteError when the disk refuses.
        """
        ticket = _Ticket(encode_batch(cluster, digest, received_ts, lines), len(lines), received_ts)
        with self._queue_lock:
            self._queue.append(ticket)
        with self._disk_lock:
            # The sender that had the disk before may have written this batch, too: that is group commit.
            if not ticket.done:
                with self._queue_lock:
                    group, self._queue = self._queue, []
                self._commit(group)
        if not ticket.stored:
            if isinstance(ticket.error, NotHereError):
                raise _displaced(str(ticket.error)) from ticket.error
            why = ticket.error.strerror or ticket.error if ticket.error is not None else "its write was broken off"
            raise SpoolWriteError(
                f"{self.directory}: the batch could not be stored: {why}",
                "free space on the disk of the lake; senders try again by themselves",
            ) from ticket.error

    def why_displaced(self) -> str:
        """A sentence why no reader would see a batch written now; empty when every folder is in its place."""
        return self._place.why_displaced()

    def check_place(self) -> None:
        """Raise DisplacedError when the folders are not the ones that were opened."""
        if why := self.why_displaced():
            raise _displaced(why)

    def probe(self) -> None:
        """Make a small file durable next to the segments and remove it: this checks that the disk can be written.

        Raises OSError, and DisplacedError when another folder is in its place: the old one must not be made again here.
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
            except NotHereError as error:
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
        """Seal the open segment and close the directory. Raises SpoolWriteError; the directory is closed all the same."""
        try:
            self.seal()
        finally:
            os.close(self._lock_handle)

    def _commit(self, group: list[_Ticket]) -> None:
        """Write a group of batches behind one fdatasync and mark every ticket, also when the disk refuses."""
        for ticket in group:
            ticket.done = True
        try:
            # The check at the end covers the place of a segment that was open before; a check before the write would cost as much
            # again.
            segment = self._open if self._open and not self._is_displaced else self._writable_segment()
            segment.write(ticket.data for ticket in group)
            started = time.perf_counter()
            os.fdatasync(segment.handle)
            sync_seconds = time.perf_counter() - started
            size_bytes = sum(len(ticket.data) for ticket in group)
            segment.mark(segment.size_bytes + size_bytes)
            # This check comes last, so that only a change between it and the answer can hide the batch.
            segment.check()
        except NotHereError as error:
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
            self._waiting.add(segment.name, ticket.events, ticket.received_ts)
        segment.size_bytes += size_bytes
        self._backlog_bytes += size_bytes
        if self._on_sync is not None:
            self._on_sync(sync_seconds)
        self._roll_if_full()

    def _writable_segment(self) -> OpenSegment:
        """The open segment, in its place. Raises NotHereError if readers could not find the bytes of a write."""
        segment = self._open
        if segment is None:
            if why := self.why_displaced():
                raise NotHereError(why)
            segment = self._start()
        try:
            segment.check()
        except NotHereError:
            if self.why_displaced():
                raise
            segment = self._rescue(segment)
        self._is_displaced = False
        return segment

    def _take_back(self, group: list[_Ticket], error: OSError) -> None:
        """Refuse a group that was written where no reader looks. The batches acknowledged before stay in the open file."""
        for ticket in group:
            ticket.error = error
        if self._open is not None:
            self._open.take_back()

    def _rescue(self, removed: OpenSegment) -> OpenSegment:
        """Write the acknowledged batches of a segment that another process deleted into a new one; the open handle still has them.

        Raises OSError; then the handle is kept, and the next batch tries again.
        """
        if removed.size_bytes == 0:
            self._open = None
            os.close(removed.handle)
            return self._start()
        try:
            fresh = self._start()
            removed.copy_to(fresh)
        except OSError as error:
            failed, self._open = self._open, removed
            if failed is not None and failed is not removed:
                failed.close()
                with suppress(OSError):
                    failed.path.unlink()
            raise NotHereError(f"{removed.path} was deleted, and cannot be written again: {error.strerror or error}") from error
        fresh.size_bytes = removed.size_bytes
        self._waiting.move(removed.name, fresh.name)
        removed.close()
        return fresh

    def _roll_if_full(self) -> None:
        segment = self._open
        if segment is None:
            return
        age_seconds = self._clock() - segment.opened_at
        if segment.size_bytes >= self._segment_bytes_max or age_seconds >= self._segment_seconds_max:
            # If sealing fails, all of its batches are on disk and acknowledged. The segment stays open, and the next attempt or the
            # next start seals it.
            with suppress(OSError):
                self._seal()

    def _start(self) -> OpenSegment:
        self._open = OpenSegment.create(self.directory, self._lock_handle, self._clock())
        self._open.announce()
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
            self.seal_error = error
            raise
        self.seal_error = None
        sync_folder(self.directory)
        return sealed

    def _rename_open(self) -> Path:
        segment = self._writable_segment()
        sealed = segment.rename_sealed()
        # Whatever fails from here on, the segment must not be written any more, and its handle's number may soon belong to another
        # file.
        self._open = None
        segment.close()
        return sealed

    def _abandon(self) -> None:
        """Leave the open segment after a failed write: after a failed fdatasync, its data in the page cache cannot be trusted.

        The batches that were acknowledged were synced before and are kept; the next segment starts in a new file.
        """
        segment, self._open = self._open, None
        if segment is None:
            return
        segment.close()
        # If that fails, too, the segment keeps its open name, and the next start repairs it.
        with suppress(OSError):
            os.truncate(segment.path, segment.size_bytes)
            mark = Mark(segment.path.name, segment.size_bytes, is_exact=True)
            repair_and_seal(segment.path, mark, self._lock_handle, self._quarantine)


def _displaced(why: str) -> DisplacedError:
    return DisplacedError(f"the lake is not where it was opened: {why}", "put the folder back, or start the server again")


def _write_probe(path: Path) -> None:
    path.write_bytes(b"probe")
