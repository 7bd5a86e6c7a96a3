"""Reads the bytes of a compressed or plain file. The first bytes tell the compression; the name does not.

A damaged file is expected input: the reader returns everything before the damage, and then raises DamagedError. python-zstandard's
own reader silently skips a frame that is cut off. zlib's object stops after the first member of a .gz. So this module walks the
formats itself. bzip2 and xz are in Python's own library.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import zstandard
from isal import igzip_lib, isal_zlib

BLOCK_BYTES = 1 << 20
# An audit log is ten to thirty times as large as its compressed file. So a block is about a megabyte, and stays in the processor's
# cache. Even a file made to explode (zstd packs 128 KiB into 4 bytes) gives no block of more than a gigabyte.
_COMPRESSED_BYTES = 1 << 15

_IsalError: Any = igzip_lib.IsalError

_LAYERS_MAX = 3
_MAGIC_BYTES = 8  # the magic number and the length of a skippable frame
_GZIP = b"\x1f\x8b"
_ZSTD = (b"\x28\xb5\x2f\xfd",)
_BZIP2 = b"BZh"
_XZ = b"\xfd7zXZ\0"
_ZSTD_SKIPPABLE = tuple(bytes((low, 0x2A, 0x4D, 0x18)) for low in range(0x50, 0x60))


class DamagedError(ValueError):
    """The compressed stream ends too early or contradicts its first bytes; everything before the damage was returned."""


class Readable(Protocol):
    """Anything with `read`. A read may return fewer bytes than asked; only an empty read is the end."""

    def read(self, size: int, /) -> bytes: ...


def is_compressed(head: bytes) -> bool:
    """Whether the first bytes of a file mark it as compressed."""
    return head.startswith((_GZIP, _BZIP2, _XZ, *_ZSTD, *_ZSTD_SKIPPABLE))


def blocks(handle: Readable, layers: int = _LAYERS_MAX) -> Iterator[bytes]:
    """The decompressed content in blocks, also of a file that was compressed twice.

    Raises DamagedError where it breaks off, and OSError.
    """
    first = _at_least(handle, b"", _MAGIC_BYTES)
    if first.startswith(_GZIP):
        content = _gunzip(first, handle)
    elif first.startswith(_ZSTD + _ZSTD_SKIPPABLE):
        content = _unzstd(first, handle)
    elif first.startswith(_BZIP2):
        content = _unpacked(first, handle, bz2.BZ2Decompressor, "bzip2")
    elif first.startswith(_XZ):
        content = _unpacked(first, handle, lzma.LZMADecompressor, "xz")
    else:
        while first:
            yield first
            first = handle.read(BLOCK_BYTES)
        return
    inner = _Inner(content)
    try:
        is_nested = layers > 1 and is_compressed(inner.peek(_MAGIC_BYTES))
    except DamagedError:
        yield from inner.begun
        raise
    yield from blocks(inner, layers - 1) if is_nested else inner.rest()


class _Inner:
    """Decompressed blocks as something to read."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content = content
        self.begun: list[bytes] = []

    def peek(self, size: int) -> bytes:
        """The first bytes, without consuming them; fewer where the content ends."""
        while sum(map(len, self.begun)) < size and (block := next(self._content, None)) is not None:
            self.begun.append(block)
        return b"".join(self.begun)[:size]

    def rest(self) -> Iterator[bytes]:
        yield from self.begun
        yield from self._content

    def read(self, size: int, /) -> bytes:
        for block in self.rest():
            self.begun = self.begun[1:]
            if len(block) > size:
                self.begun.insert(0, block[size:])
            if block:
                return block[:size]
        return b""


def _at_least(handle: Readable, data: bytes, size: int) -> bytes:
    """Read until `size` bytes are there, or the content ends."""
    while len(data) < size and (more := handle.read(_COMPRESSED_BYTES)):
        data += more
    return data


def _gunzip(data: bytes, handle: Readable) -> Iterator[bytes]:
    while data:
        member = isal_zlib.decompressobj(wbits=31)
        try:
            while True:
                yield member.decompress(data)
                if member.eof:
                    break
                data = handle.read(_COMPRESSED_BYTES)
                if not data:
                    raise DamagedError("the gzip stream breaks off: the file was cut, or is still being written")
        except _IsalError as error:
            raise DamagedError(f"the gzip stream is damaged: {error}") from error
        # Zero bytes may pad the end of a member (RFC 1952 leaves that to the reader; gzip ignores them).
        data = (member.unused_data or handle.read(_COMPRESSED_BYTES)).lstrip(b"\0")


def _unpacked(data: bytes, handle: Readable, make: Callable[[], Any], kind: str) -> Iterator[bytes]:
    """The streams of a bzip2 or xz file, one after the other, in blocks of bounded size."""
    while data:
        stream = make()
        try:
            while True:
                yield stream.decompress(data, BLOCK_BYTES)
                if stream.eof:
                    break
                data = handle.read(_COMPRESSED_BYTES) if stream.needs_input else b""
                if stream.needs_input and not data:
                    raise DamagedError(f"the {kind} stream breaks off: the file was cut, or is still being written")
        except (OSError, lzma.LZMAError, ValueError) as error:
            if isinstance(error, DamagedError):
                raise
            raise DamagedError(f"the {kind} stream is damaged: {error}") from error
        data = stream.unused_data.lstrip(b"\0") or handle.read(_COMPRESSED_BYTES).lstrip(b"\0")


def _unzstd(data: bytes, handle: Readable) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    while data:
        data = _at_least(handle, data, _MAGIC_BYTES)
        if data.startswith(_ZSTD_SKIPPABLE):
            data = _skip(data, handle)
            continue
        frame = decompressor.decompressobj()
        try:
            while True:
                yield frame.decompress(data)
                if frame.eof:
                    break
                data = handle.read(_COMPRESSED_BYTES)
                if not data:
                    raise DamagedError("the zstd stream breaks off: the file was cut, or is still being written")
        except zstandard.ZstdError as error:
            raise DamagedError(f"the zstd stream is damaged: {error}") from error
        data = frame.unused_data or handle.read(_COMPRESSED_BYTES)


def _skip(data: bytes, handle: Readable) -> bytes:
    """Skip a skippable frame (RFC 8878, section 3.1.2) and return the bytes after it; a spool segment has one after every batch."""
    left = 8 + int.from_bytes(data[4:8], "little")
    while len(data) < left:
        left -= len(data)
        data = handle.read(_COMPRESSED_BYTES)
        if not data:
            raise DamagedError("the zstd stream breaks off inside a skippable frame")
    return data[left:] or handle.read(_COMPRESSED_BYTES)
