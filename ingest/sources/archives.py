"""Tar archives, plain or compressed: each file in one is a source of its own, named `ARCHIVE/FILE`.

An archive is read from the front, because a compressed one allows nothing else. Sources that are opened in the order of the archive
share one pass over it.
"""

from __future__ import annotations

import tarfile
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import IO, cast

from ..errors import InputError
from .compressed import BLOCK_BYTES, DamagedError, blocks
from .content import Source
from .envelopes import is_tar

_HEADER_BYTES = 512


def expanded(source: Source, opened: ExitStack) -> list[Source] | None:
    """The files of an archive in its order; None where the source is not an archive, or can be opened only once.

    Those files can be read until `opened` ends. Raises InputError for a damaged archive: it does not say which files are missing.
    """
    if source.live:
        return None
    with closing(_Stream(source)) as stream:
        with suppress(DamagedError):
            stream.peek(_HEADER_BYTES)
        if not is_tar(stream.begun):
            return None
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
                found = [(entry.name, entry.offset_data, entry.size) for entry in archive if entry.isfile()]
        except (DamagedError, tarfile.TarError, OSError) as error:
            raise InputError(
                f"{source.name}: the archive cannot be read to its end: {error}", "pack it again, or give its files"
            ) from error
    shared = _Pass(source)
    opened.callback(shared.end)
    return [_source_of(source, shared, *entry) for entry in found]


def _source_of(archive: Source, shared: _Pass, name: str, start: int, size: int) -> Source:
    return replace(archive, name=f"{archive.name}/{name}", open=lambda: _Entry(shared, start, size), size_bytes=size)


class _Stream:
    """The decompressed bytes of an archive, from the front. `offset` counts those that were read."""

    def __init__(self, source: Source) -> None:
        self._handle = source.open()
        self._blocks = blocks(self._handle)
        self._rest = b""
        self.offset = 0

    def peek(self, size: int) -> bytes:
        """The next bytes, without consuming them; fewer where the content ends."""
        while len(self._rest) < size and (block := next(self._blocks, None)) is not None:
            self._rest += block
        return self._rest[:size]

    def read(self, size: int) -> bytes:
        """At most `size` bytes; fewer only at the end of the content."""
        found = self.peek(size)
        self._rest = self._rest[len(found) :]
        self.offset += len(found)
        return found

    @property
    def begun(self) -> bytes:
        """The bytes that were peeked at, also those before damage."""
        return self._rest

    def close(self) -> None:
        self._handle.close()


class _Pass:
    """One pass over an archive. A file before the present place begins another one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._stream: _Stream | None = None

    def at(self, offset: int) -> _Stream:
        """The stream, with its next byte at `offset`."""
        if self._stream is None or self._stream.offset > offset:
            self.end()
            self._stream = _Stream(self._source)
        while self._stream.offset < offset and self._stream.read(min(BLOCK_BYTES, offset - self._stream.offset)):
            pass
        return self._stream

    def end(self) -> None:
        """Close the archive; the next file opens it again."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None


class _Entry:
    """The reading end of one file of an archive."""

    def __init__(self, shared: _Pass, start: int, size: int) -> None:
        self._shared, self._start, self._size = shared, start, size
        self._done = 0

    def read(self, size: int, /) -> bytes:
        wanted = min(size, self._size - self._done)
        if not wanted:
            return b""
        try:
            found = self._shared.at(self._start + self._done).read(wanted)
        except DamagedError as error:
            raise OSError(f"the archive: {error}") from error
        self._done += len(found)
        return found

    def tell(self) -> int:
        return self._done

    def close(self) -> None:
        """The archive stays open for its next file."""
