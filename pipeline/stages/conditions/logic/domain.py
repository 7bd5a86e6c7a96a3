"""The values of one key that a formula can tell apart, and the value that stands for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain, count, pairwise
from typing import Any

from ....matching.label_text import is_label_value
from ..selection import NO_BOUNDS, Range
from .formula import Key, Kind


class Domain:
    """The values of a key that a formula can tell apart: no value, each of its constants, and any other value.

    Of an integer that is compared with bounds, there are other values below, between and above these.
    """

    def __init__(self, key: Key, constants: Iterable[str], always: bool | None, bounds: Iterable[int] = ()) -> None:
        self.key = key
        self.constants = tuple(text for text in sorted(constants) if _may_have(key, text))
        ends = [NO_BOUNDS[0] + 1, *sorted(bounds), NO_BOUNDS[1]]
        self._others = [Range(low=low - 1, high=high) for low, high in pairwise(ends)]
        # The places: other values, none, and the constants.
        self.absent = len(self._others)
        self.size = self.absent + 1 + len(self.constants)
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
        for place in range(self.absent):
            if self._other(place, Range()) is None:
                solver.add(z3.Not(found[place]))
        if self._always is not None:
            solver.add(z3.Not(found[self.absent]) if self._always else found[self.absent])

    def literal(self, place: int) -> Any:
        """The literal of a value."""
        return self._literals[place]

    def places(self, taken: Range) -> tuple[int, ...]:
        """The places of the values in a range."""
        found = [place for place in range(self.absent) if self._other(place, taken) is not None]
        if taken.holds(None):
            found.append(self.absent)
        return (*found, *(place for place, text in enumerate(self.constants, self.absent + 1) if taken.holds(text)))

    def value(self, place: int, taken: Range) -> str | None:
        """The value at a place that a range takes; None for no value."""
        if place == self.absent:
            return None
        return self._other(place, taken) if place < self.absent else self.constants[place - self.absent - 1]

    def _other(self, place: int, taken: Range) -> str | None:
        """A value in a range that is no constant of the formula; None without any."""
        between = self._others[place]
        within = taken._replace(low=max(taken.low, between.low), high=min(taken.high, between.high))
        return _other(self.key, within, frozenset(self.constants))


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
    if key.kind is Kind.INTEGER:
        return _integer(taken, known)
    if taken.is_numeric:
        return _number(taken, known)
    return next((text for text in _fresh(key) if text not in known and taken.values.holds(text)), None)


def _fresh(key: Key) -> Iterator[str]:
    """Values of the type of a key, without an end but for booleans."""
    if key.kind is Kind.BOOLEAN:
        return iter(("false", "true"))
    return (f"other-{number}" if key.kind is Kind.TEXT else str(number) for number in count())


def _integer(taken: Range, known: frozenset[str]) -> str | None:
    """An integer between the bounds: the one nearest to zero that is no constant."""
    most = len(known) + len(taken.values.texts) + 1
    first, last = taken.low + 1, taken.high - 1
    start = min(max(0, first), last)
    numbers = chain(range(start, min(last, start + most) + 1), range(start, max(first, start - most) - 1, -1))
    return next((text for text in map(str, numbers) if text not in known and taken.holds(text)), None) if first <= last else None


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
