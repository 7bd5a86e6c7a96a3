"""The values of one key that a formula can tell apart, and the value that stands for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import count
from typing import Any

from ....matching.label_text import is_label_value
from ..selection import Range
from .formula import Key, Kind

OTHER = 0  # the place of "any other value" in a domain; absent is next
ABSENT = 1


class Domain:
    """The values of a key that a formula can tell apart: any other value, no value, and each of its constants."""

    def __init__(self, key: Key, constants: Iterable[str], always: bool | None) -> None:
        self.key = key
        self.constants = tuple(text for text in sorted(constants) if _may_have(key, text))
        self.size = len(self.constants) + 2
        self._always = always
        self._literals: list[Any] = []

    def declare(self, solver: Any) -> None:
        """Make one literal per value, and exactly one of them holds."""
        z3 = import_module("z3")
        found = self._literals = [z3.Bool(f"d:{self.key.path}:{place}") for place in range(self.size)]
        solver.add(z3.Or(*found))
        # A chain of helpers says "one of the literals so far", because pairs would be too many for large domains.
        before = None
        for place, literal in enumerate(found):
            so_far = z3.Bool(f"s:{self.key.path}:{place}")
            solver.add(z3.Implies(literal, so_far))
            if before is not None:
                solver.add(z3.Implies(before, so_far), z3.Or(z3.Not(before), z3.Not(literal)))
            before = so_far
        if self._always is not None:
            solver.add(z3.Not(found[ABSENT]) if self._always else found[ABSENT])

    def literal(self, place: int) -> Any:
        """The literal of a value."""
        return self._literals[place]

    def places(self, taken: Range) -> tuple[int, ...]:
        """The places of the values in a range."""
        found = [place for place, text in enumerate(self.constants, 2) if taken.holds(text)]
        if taken.holds(None):
            found.append(ABSENT)
        if self.other(taken) is not None:
            found.append(OTHER)
        return tuple(sorted(found))

    def other(self, taken: Range) -> str | None:
        """A value in a range that is no constant of the formula; None without any."""
        return _other(self.key, taken, frozenset(self.constants))


NOTHING = object()


def simplest(key: Key, taken: Range, known: frozenset[str]) -> str | object | None:
    """The value that a person would give a key: none, else the first of the range. `NOTHING` if the range is empty."""
    if taken.holds(None):
        return None
    texts = sorted(text for text in (known if taken.values.negated else taken.values.texts) if text and taken.holds(text))
    found = next((text for text in texts if _may_have(key, text)), None)
    if found is not None:
        return found
    other = _other(key, taken, frozenset())
    return NOTHING if other is None else other


def _other(key: Key, taken: Range, known: frozenset[str]) -> str | None:
    if not taken.values.negated:
        texts = (text for text in sorted(taken.values.texts) if text not in known and taken.holds(text) and _may_have(key, text))
        return next(texts, None)
    if taken.is_numeric:
        return _number(taken, known)
    return next((text for text in _fresh(key) if text not in known and taken.values.holds(text)), None)


def _fresh(key: Key) -> Iterator[str]:
    """Values of the type of a key, without an end but for booleans."""
    if key.kind is Kind.BOOLEAN:
        return iter(("false", "true"))
    return (f"other-{number}" if key.kind is Kind.TEXT else str(number) for number in count())


def _number(taken: Range, known: frozenset[str]) -> str | None:
    """An integer between the bounds, with leading zeros where all plain numbers are constants."""
    most = len(known) + len(taken.values.texts) + 1
    numbers = (
        range(taken.low + 1, min(taken.high, taken.low + 1 + most)) if taken.low >= 0 else range(max(0, taken.low + 1), taken.high)
    )
    for zeros in range(most + 1):
        for number in numbers[:most]:
            text = "0" * zeros + str(number)
            if text not in known and taken.holds(text):
                return text
    return None


def _may_have(key: Key, text: str) -> bool:
    return is_label_value(text) if key.is_label else key.may_be(text)
