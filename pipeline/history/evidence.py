"""A known value that is computed when somebody reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..request import Grade, Known

T = TypeVar("T")
_UNREAD: Any = object()


class LazyKnown(Known[T]):
    """A Known whose value is computed at the first read: most bodies of a replay are never looked into.

    Equality, matching and pickling behave as for Known; pickling reads the value.
    """

    __slots__ = ("_read", "_value")
    _read: Callable[[], T]
    _value: T

    def __init__(self, read: Callable[[], T], source: str, grade: Grade = Grade.EXACT) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_value", _UNREAD)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "grade", grade)

    @property
    def value(self) -> T:
        if self._value is _UNREAD:
            object.__setattr__(self, "_value", self._read())
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Known):
            return NotImplemented
        return (self.value, self.source, self.grade) == (other.value, other.source, other.grade)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Known, (self.value, self.source, self.grade))


def worst(*grades: Grade) -> Grade:
    """The weakest of some grades: a value made of several pieces is as good as its worst piece."""
    order = (Grade.PARTIAL, Grade.INFERRED, Grade.EXACT)
    return min(grades, key=order.index, default=Grade.EXACT)
