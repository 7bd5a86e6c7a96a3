"""A formula as alternatives, found with the solver: prime implicants. Each alternative is a set of values per key.

Multiplying a formula out may give thousands of alternatives. So each one grows from one allowed object: keys are dropped, and sets
of values widened, as long as the solver still proves that everything in it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..selection import Range
from .formula import ABSENT, ANYTHING, PRESENT, Formula, In, Key, Model, Values, every, exactly, is_true, negated, some
from .proof import Prover
from .solver import Counterexample, Solver

BOXES_MAX = 64

Box = tuple[tuple[Key, Values], ...]


class Alternatives(NamedTuple):
    """The allowed objects, as boxes. `is_complete`: the boxes cover all of them."""

    boxes: tuple[Box, ...]
    is_complete: bool


def alternatives(
    prover: Prover,
    allowed: Formula,
    within: Mapping[Key, Range] | None = None,
    is_namespaced: bool | None = None,
    known: Iterable[Model] = (),
) -> Alternatives:
    """The alternatives of a formula inside a selection. Known objects are where the first ones start."""
    models = tuple(known)
    search = _Search(prover, allowed, dict(within or {}), is_namespaced, models)
    for model in models:
        if search.is_open(model):
            search.grow(model)
    return search.finish()


class _Search:
    def __init__(
        self,
        prover: Prover,
        allowed: Formula,
        within: dict[Key, Range],
        is_namespaced: bool | None,
        known: Sequence[Model],
    ) -> None:
        self._prover = prover
        self._allowed = allowed
        self._within = within
        self._is_namespaced = is_namespaced
        self._solver = prover.solver(allowed, is_namespaced)
        # Values of texts come from people: from the chain, the request and known objects. The solver would invent them.
        self._texts = {key: self._texts_of(key, known) for key in self._solver.keys if self._solver.is_text(key)}
        self._boxes: dict[Box, None] = {}
        self._blocked: list[Formula] = []
        self._is_complete = True

    def _texts_of(self, key: Key, known: Iterable[Model]) -> frozenset[str]:
        taken = self._within.get(key, Range()).values
        seen = (model.values.get(key) for model in known)
        return self._solver.constants.get(key, frozenset()) | taken.texts | {text for text in seen if text is not None}

    def is_open(self, model: Model) -> bool:
        """Whether a selected object is allowed and in no box yet."""
        if len(self._blocked) >= BOXES_MAX or self._is_spent or not is_true(self._allowed, model):
            return False
        if not all(taken.holds(model.values.get(key)) for key, taken in self._within.items()):
            return False
        return not any(is_true(each, model) for each in self._blocked)

    def finish(self) -> Alternatives:
        """Look for allowed objects outside of all boxes, until none is left."""
        limited = dict(self._within)
        for key, texts in self._texts.items():
            taken = limited.get(key, Range())
            limited[key] = taken._replace(values=taken.values.both(Values(texts, absent=True)))
        while len(self._blocked) < BOXES_MAX and not self._is_spent:
            found = self._outside().refute(limited)
            if found is None:
                is_all = not self._texts or self._outside().refute(self._within) is None
                return Alternatives(tuple(self._boxes), self._is_complete and is_all)
            if not isinstance(found, Counterexample):
                break
            self.grow(found.model)
        return Alternatives(tuple(self._boxes), False)

    def _outside(self) -> Solver:
        return self._prover.solver(some([negated(self._allowed), *self._blocked]), self._is_namespaced)

    def grow(self, model: Model) -> None:
        """Add the largest box around an object."""
        point = {key: self._alike(key, model.values.get(key)) for key in self._solver.keys}
        if not self._is_allowed(point):
            # More than values decides, such as whether the object has labels at all: this object is left out.
            self._is_complete = False
            self._blocked.append(_formula(point))
            return
        box = dict(point)
        for key in self._solver.keys:
            if self._is_spent:
                break
            if self._is_allowed(less := {other: values for other, values in box.items() if other != key}):
                box = less
        for key in box:
            box[key] = self._widened(box, key)
        found = tuple(sorted(box.items(), key=lambda entry: entry[0]))
        self._boxes[found] = None
        self._blocked.append(_formula(box))

    def _alike(self, key: Key, value: str | None) -> Values:
        """The values that the formula cannot tell from a value."""
        if value is None:
            return ABSENT
        constants = self._constants(key)
        return exactly(value) if value in constants else Values(constants, True)

    def _widened(self, box: dict[Key, Values], key: Key) -> Values:
        """The most values of a key with which the box is still allowed."""
        constants = self._constants(key)
        values = box[key]
        for candidate in (PRESENT, *(exactly(text) for text in sorted(constants)), ABSENT):
            if self._is_spent:
                break
            if self._is_allowed({**box, key: (wider := _joined(values, candidate, constants))}):
                values = wider
        return values

    @property
    def _is_spent(self) -> bool:
        return self._prover.steps.left <= 0

    def _constants(self, key: Key) -> frozenset[str]:
        return self._texts[key] if key in self._texts else self._solver.constants.get(key, frozenset())

    def _is_allowed(self, box: Mapping[Key, Values]) -> bool:
        ranges = dict(self._within)
        for key, values in box.items():
            taken = ranges.get(key, Range())
            ranges[key] = taken._replace(values=taken.values.both(values))
        return self._solver.refute(ranges) is None


def _joined(one: Values, other: Values, constants: frozenset[str]) -> Values:
    """The values of both sets; as candidate PRESENT stands for all values that are no constant."""
    absent = one.absent or other.absent
    if other.negated:
        return Values(frozenset(text for text in constants if not one.holds(text)), True, absent)
    if one.negated:
        return Values(one.texts - other.texts, True, absent)
    return Values(one.texts | other.texts, False, absent)


def _formula(box: Mapping[Key, Values]) -> Formula:
    return every(In(key, values) for key, values in sorted(box.items()) if values != ANYTHING)
