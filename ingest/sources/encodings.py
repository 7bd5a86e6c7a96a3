"""Text of other encodings as UTF-8. A byte order mark at the beginning tells the encoding; tools of Windows write one.

A mark in front of the first event would make it no JSON, and so cost that event.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from .compressed import DamagedError

# UTF-32 comes first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_BYTES = 8  # and two letters without a mark
_HOLE_BYTES_MIN = 8
_TEXT = re.compile(rb"[\t\n\r -~]")
# Without a mark, two letters of ASCII tell the order of bytes (RFC 4627, section 3).
_UNMARKED = (
    (re.compile(rb"(?:[\t\n\r -~]\0){2}"), "utf-16-le"),
    (re.compile(rb"(?:\0[\t\n\r -~]){2}"), "utf-16-be"),
    (re.compile(rb"(?:[\t\n\r -~]\0\0\0){2}"), "utf-32-le"),
    (re.compile(rb"(?:\0\0\0[\t\n\r -~]){2}"), "utf-32-be"),
)


def utf8(content: Iterator[bytes]) -> Iterator[bytes]:
    """The content without a byte order mark, in UTF-8. Bytes of UTF-8 stay as they are, valid or not; half a pair is replaced.

    Raises DamagedError where text of another encoding breaks off or is not text.
    """
    head = b""
    for block in content:
        head += block
        if len(head) >= _MARK_BYTES:
            break
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            yield from _decoded(head[len(mark) :], content, encoding)
            return
    for pattern, encoding in _UNMARKED:
        if pattern.match(head):
            yield from _decoded(head, content, encoding)
            return
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from content


def without_nuls(content: Iterator[bytes]) -> Iterator[bytes]:
    """The content without the NULs at its beginning.

    Where a log is truncated while its writer keeps its place, as by logrotate's copytruncate, up to gigabytes of NULs come first.
    Text of two or four bytes a letter begins with fewer, and after those of a database no text follows.
    """
    begins = True
    for block in content:
        if not begins:
            yield block
            continue
        rest = block.lstrip(b"\0")
        if not rest:
            continue
        begins = False
        is_hole = len(block) - len(rest) >= _HOLE_BYTES_MIN and _TEXT.match(rest) is not None
        yield rest if is_hole else block


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Half of a surrogate pair costs one letter, and not the file; text that breaks off, or is no text, is an error."""
    if isinstance(error, UnicodeDecodeError) and ("surrogate" in error.reason or error.reason == "illegal encoding"):
        return "\ufffd", error.start + (2 if error.encoding.replace("-", "").startswith("utf16") else 4)
    raise error


_HALVES = "hindcast.halves"
codecs.register_error(_HALVES, _replaced)


def _decoded(head: bytes, content: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_HALVES)
    try:
        yield decoder.decode(head).encode()
        for block in content:
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise DamagedError(f"the text is not {encoding}: {error}") from error
