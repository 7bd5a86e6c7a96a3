"""The decompressed content of one audit log file: read once, from the front, up to its end or its damage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import xxhash

from .compressed import DamagedError, blocks
from .envelopes import RECORD_BYTES_MAX
from .errors import InputError

STDIN = Path("-")
_HEAD_BYTES = 1 << 20


class Content:
    """A forward reader. `damage` says, once the end was reached, why the rest could not be read; empty if there was no reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self._handle = _open(path)
        self._blocks = blocks(self._handle)
        self._pending = b""

    def __enter__(self) -> Content:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; standard input stays open."""
        if self.path != STDIN:
            self._handle.close()

    @property
    def position_bytes(self) -> int:
        """Bytes of the file itself that were read; 0 for standard input."""
        return 0 if self.path == STDIN else self._handle.tell()

    def head(self) -> bytes:
        """What comes next, without consuming it: a mebibyte or so, and at least the first line; less where the content ends."""
        parts = [self._pending]
        size, has_line = len(self._pending), b"\n" in self._pending
        while (size < _HEAD_BYTES or not has_line) and size < RECORD_BYTES_MAX and (block := self._next()):
            parts.append(block)
            size, has_line = size + len(block), has_line or b"\n" in block
        self._pending = b"".join(parts)
        return self._pending

    def skip(self, size: int) -> xxhash.xxh3_128:
        """Consume `size` bytes and return their running digest; of fewer bytes where the content ends before."""
        digest = xxhash.xxh3_128()
        while size:
            block = self._pending or self._next()
            if not block:
                break
            digest.update(block[:size])
            self._pending = block[size:]
            size -= min(size, len(block))
        return digest

    def __iter__(self) -> Iterator[bytes]:
        while block := self._pending or self._next():
            self._pending = b""
            yield block

    def _next(self) -> bytes:
        """The next block that is not empty; empty at the end."""
        try:
            for block in self._blocks:
                if block:
                    return block
        except DamagedError as error:
            self.damage = str(error)
        except OSError as error:
            self.damage = f"reading stopped: {error.strerror}"
        return b""


def _open(path: Path) -> BinaryIO:
    if path == STDIN:
        return sys.stdin.buffer
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
