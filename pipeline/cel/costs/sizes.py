"""Limits on the size of values: a bound on one value, tested before it is built, and a bound on all values of an evaluation.

On an API server the cost limit ends an expression that builds too much. But some steps build much and cost little: `replace` and
`format` cost as much as their input, and lists are concatenated without being copied. A value that is too large here makes the
result unknown, unless the cost exceeds the limit: then the result is the server's error.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Final

from ..values import CelMap, LazyMap, Optional, SparseMap, Value

TEXT_MAX: Final = 16 * 1024 * 1024  # code points of a string, or bytes
# Reading each element of a longer list costs more than an expression may spend.
LIST_MAX: Final = 1_000_000
BUILT_BYTES_MAX: Final = 128 * 1024 * 1024
TOO_LARGE: Final = "a value larger than is built here"
# Each element of a list of numbers takes a pointer and a number.
_ELEMENT_BYTES = 40
_SIZED = frozenset((str, bytes, list, dict, CelMap))
_HOLDERS = frozenset((list, dict, SparseMap, LazyMap, CelMap, Optional))


class TooLargeError(Exception):
    """A value is not built because it would be too large. Cost functions take `size` for its size."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def check_text(length: int) -> None:
    """Raises TooLargeError for a string or bytes of this length."""
    if length > TEXT_MAX:
        raise TooLargeError(length)


def check_list(length: int) -> None:
    """Raises TooLargeError for a list or map of this length."""
    if length > LIST_MAX:
        raise TooLargeError(length)


class Room:
    """The bytes that a group of evaluations may still build. A shared value counts once per time that it is made."""

    __slots__ = ("left",)

    def __init__(self, left: int = BUILT_BYTES_MAX) -> None:
        self.left = left

    def take(self, value: Value) -> None:
        """Count a new value, without the values it refers to. Raises TooLargeError if there is no room."""
        kind = value.__class__
        if kind is str or kind is bytes:
            self.left -= getsizeof(value)
        elif kind in _SIZED:
            self.left -= _ELEMENT_BYTES * len(value)
        if self.left < 0:
            raise TooLargeError(1)


def check_printable(values: Iterable[Value]) -> None:
    """Raises TooLargeError for values whose text would be too long. A shared value counts each time that it is printed."""
    lengths: dict[int, tuple[int, Value]] = {}  # each value is kept, so that no other gets its identity
    pending = list(values)
    total = len(pending)
    for value in pending:
        check_text(total := total + (len(value) if isinstance(value, str | bytes) else 0))
    printed_at = [id(value) for value in pending]
    while pending:
        value = pending[-1]
        if id(value) in lengths:
            pending.pop()
            continue
        parts = _parts(value)
        check_text(len(parts))
        open_parts = [part for part in parts if part.__class__ in _HOLDERS and id(part) not in lengths]
        if open_parts:
            pending += open_parts
            continue
        pending.pop()
        length = 2 + 2 * len(parts)
        for part in parts:
            if isinstance(part, str | bytes):
                length += len(part)
            elif id(part) in lengths:
                length += lengths[id(part)][0]
        check_text(length)
        lengths[id(value)] = length, value
    check_text(total + sum(lengths[each][0] for each in printed_at))


def _parts(value: Value) -> list[Value]:
    """The printed parts of a list, map or optional."""
    kind = value.__class__
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if kind is list:
        return value  # type: ignore[no-any-return]
    if kind is CelMap:
        return [part for entry in value.entries.values() for part in entry]
    return [value.value] if kind is Optional else []


def printed(value: Value) -> str:
    """A value as error messages show it. Raises TooLargeError if the text would be too long."""
    check_printable((value,))
    return str(value)
