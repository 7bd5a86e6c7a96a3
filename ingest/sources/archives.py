"""Archives, tar (plain or compressed) and zip: each file in one is a source of its own, named `ARCHIVE/FILE`.

A tar archive is read from the front, because a compressed one allows nothing else. Sources that are opened in the order of the
archive share one pass over it. A zip archive begins at its end, so one that is not a local file is copied first.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import IO, cast

from ..errors import InputError
from .compressed import BLOCK_BYTES, DamagedError, blocks
from .content import Source
from .envelopes import ZIP, is_tar
from .unique import unique_names
from .unreadable import WORKBOOK

_HEADER_BYTES = 512
# The file that makes a zip archive a workbook of Excel or LibreOffice.
_WORKBOOKS = ("xl/workbook.xml", "xl/workbook.bin", "META-INF/manifest.xml")


def expanded(source: Source, opened: ExitStack) -> list[Source] | None:
    """The files of an archive in its order; None where the source is not an archive, or can be opened only once. A workbook is
    refused by its name.

    Those files can be read until `opened` ends. Raises InputError for a damaged archive: it does not say which files are missing.
    """
    if source.live:
        return None
    with closing(_Stream(source)) as stream:
        with suppress(DamagedError):
            stream.peek(_HEADER_BYTES)
        if stream.begun.startswith(ZIP):
            return _zipped(source, stream, opened)
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
    # `tar -r` adds a file again under its name; both may have events.
    names = unique_names(name for name, _, _ in found)
    return [_source_of(source, shared, name, *place) for name, (_, *place) in zip(names, found, strict=True)]


def _zipped(source: Source, stream: _Stream, opened: ExitStack) -> list[Source]:
    """The files of a zip archive. Raises InputError for a damaged one, and for one with a password."""
    copy = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  (the stack closes it)
    try:
        while block := stream.read(BLOCK_BYTES):
            copy.write(block)
        archive = opened.enter_context(zipfile.ZipFile(copy))
    except (DamagedError, zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{source.name}: the archive cannot be read: {error}", "pack it again, or give its files") from error
    if workbook := next((entry.filename for entry in archive.infolist() if entry.filename in _WORKBOOKS), None):
        raise InputError(f"{source.name}: found a workbook ({workbook}), wanted audit events", WORKBOOK)
    found = [entry for entry in archive.infolist() if not entry.is_dir()]
    if locked := next((entry.filename for entry in found if entry.flag_bits & 1), None):
        raise InputError(f"{source.name}: {locked} has a password", "unpack the archive, and give its files")
    return [
        replace(source, name=f"{source.name}/{name}", open=partial(_ZipEntry, archive, entry), size_bytes=entry.file_size)
        for name, entry in zip(unique_names(entry.filename for entry in found), found, strict=True)
    ]


class _ZipEntry:
    """The reading end of one file of a zip archive."""

    def __init__(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        try:
            self._handle = archive.open(entry)
        except (NotImplementedError, zipfile.BadZipFile, RuntimeError) as error:
            raise InputError(f"{entry.filename}: cannot be unpacked: {error}", "unpack the archive, and give its files") from error

    def read(self, size: int, /) -> bytes:
        try:
            return self._handle.read(size)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
            raise DamagedError(f"the archive is damaged here: {error}") from error

    def tell(self) -> int:
        return self._handle.tell()

    def close(self) -> None:
        self._handle.close()


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
            raise DamagedError(f"the archive is damaged here: {error}") from error
        self._done += len(found)
        return found

    def tell(self) -> int:
        return self._done

    def close(self) -> None:
        """The archive stays open for its next file."""
