"""The decompressed content of one source: read once, from the front, up to its end or its damage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Any, Protocol

import xxhash

from ..errors import InputError
from .compressed import DamagedError, blocks
from .encodings import utf8, without_nuls
from .envelopes import RECORD_BYTES_MAX
from .forms import LINE_BYTES_MIN, Form, form_of

STDIN = "-"


class Handle(Protocol):
    """The reading end of a source. A short read is not the end; an empty read is."""

    def read(self, size: int, /) -> bytes: ...

    def tell(self) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Source:
    """One file, object or stream. `size_bytes` is the stored size, None where it is unknown; `name` is for messages.

    `version` asks the storage for an ETag, which distinguishes two contents of one name. A `live` source can be opened once. An
    `optional` source was found next to others and need not be an audit log.
    """

    name: str
    open: Callable[[], Handle]
    size_bytes: int | None = None
    version: Callable[[], str] | None = None
    live: bool = False
    optional: bool = False


def file_source(path: Path) -> Source:
    """A file or a pipe on this machine; `-` is standard input. Raises InputError when it does not exist or is a folder."""
    if str(path) == STDIN:
        return Source(STDIN, lambda: _Live(sys.stdin.buffer), live=True)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error
    if S_ISREG(found.st_mode) or S_ISDIR(found.st_mode):
        return Source(str(path), lambda: _open(path), found.st_size)
    return Source(str(path), lambda: _Live(_open(path)), live=True)


class _Live:
    """A pipe as its bytes arrive, without waiting for a full block. Standard input stays open."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._read: Callable[[int], bytes] = getattr(handle, "read1", handle.read)

    def read(self, size: int, /) -> bytes:
        return self._read(size)

    def tell(self) -> int:
        return 0

    def close(self) -> None:
        if self._handle is not sys.stdin.buffer:
            self._handle.close()


def _open(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


class Content:
    """A forward reader. `damage` says, at the end, why the rest could not be read; empty if all was read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.damage = ""
        self._handle = source.open()
        self._blocks = utf8(without_nuls(blocks(self._handle)))
        self._pending = b""

    def __enter__(self) -> Content:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the source."""
        self._handle.close()

    @property
    def position_bytes(self) -> int:
        """Bytes of the source itself that were read; 0 for a stream."""
        return self._handle.tell()

    def head(self) -> bytes:
        """The next bytes, without consuming them: about a mebibyte, and at least the first line; less where the content ends.

        For a live source, only enough bytes to show that it holds events.
        """
        parts = [self._pending]
        size, has_line = len(self._pending), b"\n" in self._pending
        while (size < LINE_BYTES_MIN or not has_line) and size < RECORD_BYTES_MAX:
            if (self.source.live and has_line) or size >= LINE_BYTES_MIN:
                parts = [b"".join(parts)]
                if form_of(parts[0]) is not None:
                    break
            if not (block := self._next()):
                break
            parts.append(block)
            size, has_line = size + len(block), has_line or b"\n" in block
        self._pending = b"".join(parts)
        return self._pending

    def translate(self, form: Form) -> None:
        """From here on, give the lines of JSON that a form's records are."""
        if form.translate is not None:
            probe = self.head()
            rest = self._blocks
            self._blocks = form.translate(probe)(self.source.name, chain([probe], rest))
            self._pending = b""

    def skip(self, size: int) -> xxhash.xxh3_128:
        """Consume `size` bytes and return their running digest; of fewer bytes if the content ends earlier."""
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
            self.damage = f"reading stopped: {error.strerror or error}"
        return b""
