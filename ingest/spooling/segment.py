"""One spool segment: a file of acknowledged batches that checks itself and that `zstdcat` prints as JSON lines.

A batch is two zstd frames, one after the other:

    data frame       the events, one JSON object a line, every line ended by a newline
    skippable frame  JSON {cluster, digest, received_ts, n, bytes, crc}; decompressors skip it

The header comes last for two reasons: some readers reject a file that begins with a skippable frame, and a header proves that its
batch was written whole. `crc` covers the compressed data frame and the header itself, so a segment is checked without decompressing
anything. Frame and block layout: RFC 8878, sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import zstandard

from ..durable import write_durably

_DATA_MAGIC = 0xFD2FB528
_DATA_MAGIC_BYTES = struct.pack("<I", _DATA_MAGIC)
# RFC 8878 leaves sixteen skippable magic numbers to applications. A number of our own makes the search for the next batch more
# reliable.
_HEADER_MAGIC = 0x184D2A5D
_HEADER_MAGIC_BYTES = struct.pack("<I", _HEADER_MAGIC)
_HEADER_BYTES_MAX = 4096  # a header is about 200 bytes; a longer one is damage, not a header
_CRC_FIELD = b'"crc":"%08x"}'
_CRC_FIELD_BYTES = len(_CRC_FIELD % 0)
_ZSTD_LEVEL = 1  # level 3 takes twice the time and saves a tenth


class BatchHeader(msgspec.Struct, frozen=True):
    """The header of one batch. `received_ts` is seconds since the epoch; `bytes` counts the uncompressed lines."""

    cluster: str
    digest: str
    received_ts: float
    n: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Extent:
    """Where one intact batch lies in a segment. Offsets are bytes from the start of the file."""

    start: int
    header_start: int
    end: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a segment, `start` to `end`, without an intact batch, and the reason."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """One acknowledged batch as it was received: `lines` are the raw JSON events without their newlines."""

    cluster: str
    received_ts: float
    digest: str
    lines: list[bytes]


class _Compressors(threading.local):
    """One compressor for each thread: threads cannot share one, and a new one for each batch would cost as much as the
    compression."""

    def mine(self) -> zstandard.ZstdCompressor:
        if not hasattr(self, "_compressor"):
            # The frame header holds the content size, so that a reader allocates once.
            self._compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=True)
        return self._compressor


_compressors = _Compressors()
_header_decoder = msgspec.json.Decoder(BatchHeader)
_header_encoder = msgspec.json.Encoder()


def encode_batch(cluster: str, digest: str, received_ts: float, lines: list[bytes]) -> bytes:
    """The bytes of one batch, ready to be appended to a segment. No line may contain a newline."""
    payload = b"\n".join(lines) + b"\n" if lines else b""
    frame = _compressors.mine().compress(payload)
    header = BatchHeader(cluster=cluster, digest=digest, received_ts=received_ts, n=len(lines), bytes=len(payload))
    text = _header_encoder.encode(header)[:-1] + b","
    text += _CRC_FIELD % zlib.crc32(text, zlib.crc32(frame))
    return frame + _HEADER_MAGIC_BYTES + struct.pack("<I", len(text)) + text


def walk_segment(data: bytes) -> Iterator[Extent | Damage]:
    """Every batch of a segment in order, checked but not decompressed, and every damaged stretch between them.

    One damaged batch does not hide the batches after it: the walk goes on at the next data frame that begins an intact batch.
    """
    offset = 0
    while offset < len(data):
        found = _extent_at(data, offset)
        if isinstance(found, Extent):
            yield found
            offset = found.end
            continue
        resumed = _next_intact(data, offset + 1)
        end = len(data) if resumed is None else resumed
        yield Damage(start=offset, end=end, reason=found)
        offset = end


def read_segment(path: Path) -> Iterator[Batch | Damage]:
    """The batches of a sealed segment in the order in which they were acknowledged; a damaged stretch is yielded, never skipped.

    Memory: the compressed file and one decompressed batch. Raises OSError when the file cannot be read.
    """
    data = path.read_bytes()
    for found in walk_segment(data):
        yield found if isinstance(found, Damage) else _decompress(data, found)


def read_headers(path: Path) -> Iterator[BatchHeader]:
    """The headers of the intact batches of a segment, without decompressing any of them."""
    for found in walk_segment(path.read_bytes()):
        if isinstance(found, Extent):
            yield found.header


def intact_bytes(data: bytes) -> int:
    """The end of the last intact batch of a segment, in bytes; 0 without an intact batch."""
    return max((found.end for found in walk_segment(data) if isinstance(found, Extent)), default=0)


def announced(data: bytes) -> list[BatchHeader]:
    """The batch headers that can be read in a damaged stretch. No checksum matches there, so they are a hint, not evidence."""
    found = []
    offset = 0
    while (offset := data.find(_HEADER_MAGIC_BYTES, offset)) >= 0:
        text = data[offset + 8 : offset + 8 + int.from_bytes(data[offset + 4 : offset + 8], "little")][:_HEADER_BYTES_MAX]
        with suppress(ValueError):
            found.append(_header_decoder.decode(text))
        offset += 1
    return found


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def repair_segment(path: Path) -> tuple[int, int]:
    """Cut a segment after its last intact batch and return (bytes kept, bytes cut); the kept part is then durable.

    The caller must first save the bytes behind that batch. Damage before an intact batch stays, for the reader to report.
    """
    data = path.read_bytes()
    kept = intact_bytes(data)
    if kept < len(data) and path.stat().st_nlink > 1:
        write_durably(path, partial(_write, data[:kept]))  # the other names of the file keep its content
        return kept, len(data) - kept
    handle = os.open(path, os.O_RDWR)
    try:
        if kept < len(data):
            os.ftruncate(handle, kept)
        os.fsync(handle)
    finally:
        os.close(handle)
    return kept, len(data) - kept


def _decompress(data: bytes, extent: Extent) -> Batch | Damage:
    header = extent.header
    try:
        payload = zstandard.ZstdDecompressor().decompress(data[extent.start : extent.header_start], max_output_size=header.bytes)
    except zstandard.ZstdError as error:
        return Damage(extent.start, extent.end, f"the checksum agrees but the frame does not decompress: {error}")
    lines = payload.split(b"\n")
    lines.pop()
    if len(payload) != header.bytes or len(lines) != header.n:
        return Damage(extent.start, extent.end, f"the header announces {header.n} lines, the frame holds {len(lines)}")
    return Batch(cluster=header.cluster, received_ts=header.received_ts, digest=header.digest, lines=lines)


def _extent_at(data: bytes, start: int) -> Extent | str:
    """The intact batch that begins at `start`, or the reason why no intact batch begins there."""
    header_start = _data_frame_end(data, start)
    if isinstance(header_start, str):
        return header_start
    text_start = header_start + 8
    if text_start > len(data):
        return "the file ends before the batch header"
    magic, size = struct.unpack_from("<II", data, header_start)
    if magic != _HEADER_MAGIC or not _CRC_FIELD_BYTES < size <= _HEADER_BYTES_MAX:
        return "no batch header behind the data frame"
    end = text_start + size
    if end > len(data):
        return "the file ends inside the batch header"
    checked = data[text_start : end - _CRC_FIELD_BYTES]
    crc = zlib.crc32(checked, zlib.crc32(memoryview(data)[start:header_start]))
    if data[end - _CRC_FIELD_BYTES : end] != _CRC_FIELD % crc:
        return "the checksum of the batch does not agree"
    try:
        header = _header_decoder.decode(data[text_start:end])
    except ValueError as error:
        return f"the batch header is not one of ours: {error}"
    return Extent(start=start, header_start=header_start, end=end, header=header)


def _data_frame_end(data: bytes, start: int) -> int | str:
    """Where the zstd data frame that begins at `start` ends, found by stepping over its blocks."""
    if data[start : start + 4] != _DATA_MAGIC_BYTES:
        return "no zstd frame begins here"
    try:
        offset = start + zstandard.frame_header_size(data[start : start + 18])
    except zstandard.ZstdError:
        return "the file ends inside a frame header"
    has_checksum = data[start + 4] & 0b100
    last = False
    while not last:
        if offset + 3 > len(data):
            return "the file ends inside a data frame"
        block = int.from_bytes(data[offset : offset + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 0b11, block >> 3
        if kind == 3:
            return "a data frame has a block of a reserved type"
        # An RLE block stores one byte, at any size that it expands to.
        offset += 3 + (1 if kind == 1 else size)
    offset += 4 if has_checksum else 0
    return offset if offset <= len(data) else "the file ends inside a data frame"


def _next_intact(data: bytes, offset: int) -> int | None:
    """The first position from `offset` on at which an intact batch begins."""
    while (offset := data.find(_DATA_MAGIC_BYTES, offset)) >= 0:
        if isinstance(_extent_at(data, offset), Extent):
            return offset
        offset += 1
    return None
