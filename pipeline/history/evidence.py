"""A known value that is computed when it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..request import Evidence, Grade, Known, T_co, Unknown
from ..withheld import REDACTED_IN_PART

_UNREAD: Any = object()


def noted(evidence: Evidence[T_co]) -> Evidence[T_co]:
    """The same evidence, with the note that redaction may have replaced values inside."""
    if isinstance(evidence, Unknown) or evidence.is_redacted:
        return evidence
    source = f"{evidence.source}; {REDACTED_IN_PART}"
    if evidence.__class__ is Known:
        return replace(evidence, source=source)
    return LazyKnown(lambda: evidence.value, source, evidence.grade)


class LazyKnown(Known[T_co]):
    """A Known whose value is computed at the first read: a replay never reads most bodies.

    Equality, matching and pickling behave as for Known; pickling reads the value.
    """

    __slots__ = ("_read", "_value")
    _read: Callable[[], T_co]
    _value: T_co

    def __init__(self, read: Callable[[], T_co], source: str, grade: Grade = Grade.EXACT) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_value", _UNREAD)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "grade", grade)

    @property
    def value(self) -> T_co:
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
