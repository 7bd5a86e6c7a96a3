"""Events as base64, compressed or not, or as lists of bytes, inside the records of services, brokers and journals.

CloudWatch, Kinesis, Firehose, Pub/Sub and Kafka send such texts; journald prints a field that is not text as a list of its bytes.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zlib
from collections.abc import Callable

import msgspec

from .compressed import DamagedError, blocks

# Of both alphabets (RFC 4648, sections 4 and 5). A line end may be inside, as MIME has it.
_RUN = re.compile(rb"(?<![\w+/=-])[\w+/-]{40,}")
_WHOLE = re.compile(rb"[\s\w+/-]+={0,2}\s*")
_BYTES = re.compile(rb"\[\s*(?:\d{1,3}\s*,\s*){40}")
_HEAD_BYTES = 24
_BEGINNING_BYTES = 8192
_INFLATED_BYTES_MAX = 256 << 20
# gzip, zlib, zstd.
_MAGIC = (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
_SPACE = re.compile(rb"\s+")
_TEXT = re.compile(rb"[\t\n\r\x1e -~]+")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")

_numbers = msgspec.json.Decoder(list[int])


def holds_packed(value: bytes, is_wanted: Callable[[bytes], bool]) -> bool:
    """Whether base64 or a list of bytes in a value begins with something that is wanted."""
    if any(is_wanted(_unpacked(match[0][:_BEGINNING_BYTES])) for match in _RUN.finditer(value) if _is_likely(match[0])):
        return True
    return (match := _BYTES.search(value)) is not None and is_wanted(_begun(value[match.start() :]))


def unpacked_text(text: bytes) -> bytes:
    """The bytes of a text that is base64 as a whole, without compression around them; empty where it is another text."""
    if not _is_likely(text.lstrip()) or not _WHOLE.fullmatch(text):
        return b""
    return _unpacked(_SPACE.sub(b"", text))


def unpacked_list(value: bytes) -> bytes:
    """The bytes of a list of numbers; empty for another list."""
    if not _BYTES.match(value):
        return b""
    try:
        return bytes(_numbers.decode(value))
    except ValueError:
        return b""


def _is_likely(run: bytes) -> bool:
    head = _decoded(run[:_HEAD_BYTES])
    return head.startswith(_MAGIC) or _TEXT.fullmatch(head) is not None


def _decoded(text: bytes) -> bytes:
    text = text.rstrip(b"=").translate(_URL_SAFE)
    try:
        return base64.b64decode(text[: len(text) - (len(text) % 4 == 1)] + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _unpacked(text: bytes) -> bytes:
    data = _decoded(text)
    if not data.startswith(_MAGIC):
        return data
    found = bytearray()
    try:
        if data.startswith(b"\x78"):
            return zlib.decompressobj().decompress(data, _INFLATED_BYTES_MAX)
        for block in blocks(io.BytesIO(data)):
            found += block
            if len(found) > _INFLATED_BYTES_MAX:
                return b""
    except (DamagedError, zlib.error):
        return bytes(found)  # the beginning of a text is cut on purpose; a damaged one gives a damaged event
    return bytes(found)


def _begun(value: bytes) -> bytes:
    """The bytes of the beginning of a list of numbers, up to its end or the last whole one of them."""
    part = value[: 4 * _BEGINNING_BYTES].split(b"]", 1)[0].rpartition(b",")[0] + b"]"
    return unpacked_list(part)
