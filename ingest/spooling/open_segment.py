"""The one segment of a spool that is being written: its file, its acknowledged part, and whether its name still leads to that file.

Each step here makes one promise about the disk; the spool decides the order of the steps and handles failures.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..durable import sync_folder
from ..sources.place import Identity, identity_of
from .mark import write_mark
from .segment_files import OPEN_SUFFIX, sealed_path, segment_name

_COPIED_BYTES = 1 << 20


class NotHereError(OSError):
    """Bytes written now would not be part of the lake. The error's text says why."""


@dataclass(slots=True)
class OpenSegment:
    """An open file of the spool. `opened_at` is in seconds of the spool's clock; `mark_handle` is the file of the mark
    (mark.py)."""

    path: Path
    handle: int
    opened_at: float
    identity: Identity
    mark_handle: int
    size_bytes: int = 0  # of the acknowledged part

    @classmethod
    def create(cls, directory: Path, mark_handle: int, opened_at: float) -> OpenSegment:
        """A new file, whose name is used for the first time. Raises OSError."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = directory / f"{stamp}-{secrets.token_hex(4)}{OPEN_SUFFIX}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        return cls(path, handle, opened_at, identity_of(handle), mark_handle)

    @property
    def name(self) -> str:
        """The identity of the segment, open or sealed."""
        return segment_name(self.path)

    def announce(self) -> None:
        """Enter a new file in the mark and in the folder. Raises OSError."""
        self.mark(0)
        # Without this the file's name may be missing after a power loss although its content was synced.
        sync_folder(self.path.parent)

    def check(self) -> None:
        """Raise NotHereError where the name leads to another file.

        One look at the name covers the folders above it, too: a replacement of one of them has no such file.
        """
        try:
            found = identity_of(self.path)
        except OSError as error:
            raise NotHereError(f"{self.path} is not there any more: {error.strerror or error}") from error
        if found != self.identity:
            raise NotHereError(f"{self.path} is another file than the one that was opened")

    def write(self, blocks: Iterable[bytes]) -> None:
        """Append to the file; the bytes are not durable yet. Raises OSError."""
        for block in blocks:
            _write_all(self.handle, block)

    def mark(self, acknowledged_bytes: int, *, sealing: bool = False) -> None:
        """Write the number of acknowledged bytes to the mark. Raises OSError."""
        write_mark(self.mark_handle, self.path.name, acknowledged_bytes, sealing=sealing)

    def take_back(self) -> None:
        """Cut the bytes that were never acknowledged."""
        with suppress(OSError):  # then a sender's repetition is recognised as one
            os.ftruncate(self.handle, self.size_bytes)
            self.mark(self.size_bytes)

    def copy_to(self, fresh: OpenSegment) -> None:
        """Make the acknowledged batches durable in another file, even if this file has lost its name. Raises OSError."""
        offset = 0
        while offset < self.size_bytes:
            block = os.pread(self.handle, min(_COPIED_BYTES, self.size_bytes - offset), offset)
            if not block:
                raise OSError(errno.EIO, "the deleted segment cannot be read")
            _write_all(fresh.handle, block)
            offset += len(block)
        os.fdatasync(fresh.handle)
        fresh.mark(self.size_bytes)

    def rename_sealed(self) -> Path:
        """Make the whole file durable and give it the name of a sealed segment; returns its path. Raises OSError."""
        os.fsync(self.handle)
        # Before the name changes: from then on the drain may store and remove it.
        self.mark(self.size_bytes, sealing=True)
        sealed = sealed_path(self.path)
        self.path.rename(sealed)
        return sealed

    def close(self) -> None:
        """Close the file. The acknowledged bytes were synced before, so a failing close loses nothing."""
        with suppress(OSError):
            os.close(self.handle)


def _write_all(handle: int, data: bytes) -> None:
    """os.write may stop short when the disk fills up; the rest then raises ENOSPC."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
