"""JSON documents over many lines, or one document of any size: its events one by one, in constant memory.

The beginning of the file shows where events lie, for example in the array `hits.hits`. Then each item of that array is a value of
its own. After it, items of other arrays and fields that mention events are values too; the rest of the document is skipped. A
document without such an array is one value, as jq prints events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..errors import InputError
from .compressed import DamagedError
from .finder import may_hold_event

DOCUMENT_BYTES_MAX = 1 << 30  # one value, which has to be read whole
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?|[{}\[\]]|"', re.DOTALL)
_MARKS = (b'"auditID":', b'"protoPayload":', b'"protopayload_auditlog":', b'"AuditId":')
_LEVELS_MAX = 12
# The names of the arrays that lead to an item; empty for an array at the top.
Place = tuple[bytes, ...]


def place_of_events(probe: bytes) -> Place | None:
    """The names that lead to the outermost array around the first event; None where no array is around it, or no event is there."""
    names: list[bytes] = []
    kinds: list[bytes] = []
    key = b""
    for match in _TOKEN.finditer(probe):
        token = match[0]
        if token in (b"{", b"["):
            names.append(key)
            kinds.append(token)
            key = b""
        elif token in (b"}", b"]"):
            if not kinds:
                return None
            names.pop()
            kinds.pop()
        elif token != b'"' and (match[1] is None or b"".join(token.split()) in _MARKS):
            if (match[1] is not None or may_hold_event(token)) and b"[" in kinds and len(kinds) <= _LEVELS_MAX:
                depth = kinds.index(b"[")
                return tuple(names[1 : depth + 1])
            if match[1] is not None and b"[" not in kinds:
                return None
        elif match[1] is not None:
            key = token[: -len(match[1])]
    return None


def nested_values(name: str, blocks: Iterable[bytes], place: Place | None) -> Iterator[bytes]:
    """The items of the array at `place` in each document, or the whole document where it has none; each on one line.

    Raises InputError for a document without that array and larger than DOCUMENT_BYTES_MAX, and DamagedError for one that was cut.
    """
    splitter = _Splitter(place)
    for block in blocks:
        found = splitter.feed(block)
        if found:
            yield b"".join(value.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for value in found)
        if splitter.held_bytes > DOCUMENT_BYTES_MAX:
            limit = DOCUMENT_BYTES_MAX >> 20
            raise InputError(f"{name}: a JSON document of more than {limit} MiB cannot be read as one", "give one event a line")
    if rest := splitter.rest():
        yield rest.replace(b"\n", b" ")
    elif splitter.is_open:
        raise DamagedError("the JSON document breaks off: the file was cut, or is still being written")


class _Splitter:
    """Walks over brackets and strings; `_start` is where the value in hand begins, and None between values."""

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._data = b""
        self._at = 0  # the position of the first byte that _walk has not seen
        self._start: int | None = None
        self._names: list[bytes] = []
        self._kinds: list[bytes] = []
        self._key = b""
        self._inside = False  # in the array that holds the events, or after it in what is around it
        self._depth = 0  # brackets around the values that are given
        self._is_place = False  # in the array of events itself
        self._is_after = False  # in an object around that array: other arrays of its fields may hold events too

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    @property
    def is_open(self) -> bool:
        """Whether the last document lacks its end."""
        return bool(self._kinds)

    def feed(self, block: bytes) -> list[bytes]:
        """The values that end in this block."""
        self._data += block
        found: list[bytes] = []
        for match in _TOKEN.finditer(self._data, self._at):
            token = match[0]
            # A string may go on in the next block, and so may the space between a name and its colon.
            if token == b'"' or (match.end() == len(self._data) and token[:1] == b'"'):
                self._at = match.start()
                break
            self._at = match.end()
            self._walk(match, token, found)
        self._trim()
        return found

    def _walk(self, match: re.Match[bytes], token: bytes, found: list[bytes]) -> None:
        if token in (b"{", b"["):
            self._open(match, token)
        elif token in (b"}", b"]"):
            self._close(match, found)
        elif match[1] is not None:
            self._key = token[: -len(match[1])]
        elif self._inside and len(self._kinds) == self._depth and self._is_wanted(token):
            found.append(token)

    def _open(self, match: re.Match[bytes], token: bytes) -> None:
        if (not self._kinds) or (self._inside and len(self._kinds) == self._depth):
            self._start = match.start()
        self._names.append(self._key)
        self._kinds.append(token)
        self._key = b""
        is_place = not self._inside and self._place is not None and tuple(self._names[1:]) == self._place
        is_after = self._is_after and len(self._kinds) == self._depth + 1
        if token == b"[" and (is_place or is_after):
            self._inside, self._depth, self._start = True, len(self._kinds), None
            self._is_after = False
            self._is_place = is_place

    def _close(self, match: re.Match[bytes], found: list[bytes]) -> None:
        if not self._kinds:
            return
        self._names.pop()
        self._kinds.pop()
        if self._inside and len(self._kinds) < self._depth:
            self._inside, self._depth = bool(self._kinds), len(self._kinds)
            self._is_after, self._is_place = self._inside, False
        ends = not self._kinds or (self._inside and len(self._kinds) == self._depth)
        if ends and self._start is not None:
            value = self._data[self._start : match.end()]
            found += [value] if self._is_wanted(value) else []
            self._start = None

    def _is_wanted(self, value: bytes) -> bool:
        """Whether to give a value. Around and after the array of events, texts and objects are of other kinds mostly."""
        return not self._inside or self._is_place or (may_hold_event(value) and (value[:1] != b'"' or b"{" in value))

    def _trim(self) -> None:
        keep = self._at if self._start is None else self._start
        if keep:
            self._data = self._data[keep:]
            self._at -= keep
            self._start = None if self._start is None else 0

    def rest(self) -> bytes:
        """The beginning of a value that the content did not finish."""
        return self._data[self._start :] if self._start is not None else b""
