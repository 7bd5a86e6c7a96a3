"""Whether all that a list or a watch selects is allowed: proved, refuted with an object, or unknown.

Every counterexample is evaluated before it is believed: the selection has to select the object, and the chain itself, evaluated
condition by condition, has to refuse it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any

from ..compiled import Asked, Bounds
from ..selection import Selection
from .formula import LABELS, NAME, NO, Formula, Has, Key, Kind, Model, atoms, is_ambiguous, keys_of
from .solver import Counterexample, Solver, TooHard
from .steps import CHECK_STEPS_MAX, Steps

# Solvers and answers that are kept; the oldest go first, so that memory is bounded however many subjects a log has.
_SOLVERS_MAX, _PROOFS_MAX = 256, 50_000
# Fields without a known type for which every type is tried.
_DOUBTFUL_MAX = 2
UNCONFIRMED = "the solver's counterexample did not stand when it was evaluated"


class Outcome(StrEnum):
    """What can be said of a selection."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer about one selection. `is_vacuous`: it is proved because no object can be selected.

    `model` is the counterexample, and `why` says why the answer is unknown.
    """

    outcome: Outcome
    model: Model | None = None
    why: str = ""
    is_vacuous: bool = False


class Prover:
    """Answers each distinct question once. `checks` counts distinct questions."""

    def __init__(self, steps_max: int = CHECK_STEPS_MAX, questions: int = 1, parts: int = 1) -> None:
        """`questions` are those of the run, or of one of its `parts`; `steps_max` limits one check."""
        self.steps = Steps(questions, steps_max, parts)
        self._solvers: OrderedDict[tuple[Formula, bool | None], Solver] = OrderedDict()
        self._proofs: OrderedDict[Any, Proof] = OrderedDict()
        self._reads: dict[Formula, tuple[tuple[Key, ...], tuple[tuple[str, ...], ...]]] = {}
        self.checks = 0

    def prove(self, asked: Asked, bounds: Bounds, selection: Selection, is_namespaced: bool | None = None) -> Proof:
        """Whether the chain allows every object of a selection. Raises InputError without z3."""
        # The answer depends on the request only where a counterexample is evaluated, and that outcome follows from the formulas.
        key = (bounds, selection, is_namespaced)
        found = self._proofs.get(key)
        if found is None:
            self.checks += 1
            found = self._proofs[key] = self._proof(asked, bounds, selection, is_namespaced)
            if len(self._proofs) > _PROOFS_MAX:
                self._proofs.popitem(last=False)
        return found

    def proof_of(self, asked: Asked, selection: Selection, is_namespaced: bool | None = None) -> Proof:
        """As `prove`. Where the type of a field decides and is not known, the answer has to be the same for every type."""
        bounds = asked.authorized(selection.types)
        doubtful = sorted(doubtful_paths(bounds, selection))
        if not doubtful:
            return self.prove(asked, bounds, selection, is_namespaced)
        why = untyped(doubtful)
        if len(doubtful) > _DOUBTFUL_MAX:
            return Proof(Outcome.UNKNOWN, why=why)
        found = []
        for kinds in product(Kind, repeat=len(doubtful)):
            types = selection.types.assuming(dict(zip(doubtful, kinds, strict=True)))
            found.append(self.prove(asked, asked.authorized(types), replace(selection, types=types), is_namespaced))
        # A type with which nothing can be selected is not the type of a field that clients select by.
        counted = [each for each in found if not each.is_vacuous] or found
        return counted[0] if len({each.outcome for each in counted}) == 1 else Proof(Outcome.UNKNOWN, why=why)

    def solver(self, formula: Formula, is_namespaced: bool | None) -> Solver:
        """The solver of a formula."""
        key = (formula, is_namespaced)
        found = self._solvers.get(key)
        if found is None:
            found = self._solvers[key] = Solver(formula, is_namespaced, self.steps)
            if len(self._solvers) > _SOLVERS_MAX:
                self._solvers.popitem(last=False)
        else:
            self._solvers.move_to_end(key)
        return found

    def reads(self, formula: Formula) -> tuple[tuple[Key, ...], tuple[tuple[str, ...], ...]]:
        """The keys and the paths that a formula reads."""
        found = self._reads.get(formula)
        if found is None:
            keys, paths = keys_of(formula), {atom.path for atom in atoms(formula) if isinstance(atom, Has)}
            found = self._reads[formula] = (tuple(sorted(keys)), tuple(sorted(paths)))
        return found

    def _proof(self, asked: Asked, bounds: Bounds, selection: Selection, is_namespaced: bool | None) -> Proof:
        ranges = selection.ranges()
        found = self.solver(bounds.low, is_namespaced).refute(ranges)
        if found is None:
            return Proof(Outcome.PROVED, is_vacuous=is_vacuous(selection, is_namespaced))
        if isinstance(found, Counterexample) and not bounds.is_exact:
            found = self.solver(bounds.high, is_namespaced).refute(ranges)
            if found is None:
                return Proof(Outcome.UNKNOWN, why="; ".join(bounds.problems))
        if isinstance(found, TooHard):
            return Proof(Outcome.UNKNOWN, why=found.why)
        if stands(asked, selection, found.model):
            return Proof(Outcome.REFUTED, found.model)
        return Proof(Outcome.UNKNOWN, why="; ".join(bounds.problems) or UNCONFIRMED)


def untyped(paths: Sequence[tuple[str, ...]]) -> str:
    """Why an answer is open that depends on the types of some fields."""
    return f"no evidence tells whether {' and '.join(map('.'.join, paths))} is a text, a boolean or an integer"


def doubtful_paths(bounds: Bounds, selection: Selection) -> frozenset[tuple[str, ...]]:
    """The fields whose types no evidence tells, though the answer about a selection may depend on them."""
    formulas = (bounds.low, bounds.high)
    read = {key.path for each in formulas for key in keys_of(each)}
    asked = {atom.path for each in formulas for atom in atoms(each) if isinstance(atom, Has)}
    terms = [(selection.types.named(term.field), term) for term in selection.fields if not term.negated]
    selected = {
        key.path
        for key, term in terms
        if key is not None and not selection.types.is_typed(key)
        # A text that is empty is there, and a selector does not tell it from a boolean or an integer that is not.
        if (is_ambiguous(term.value) and key.path in read) or (not term.value and key.path in read | asked)
    }
    return bounds.doubtful | selected


def stands(asked: Asked, selection: Selection, model: Model) -> bool:
    """Whether an object is selected and surely not allowed, when both are evaluated."""
    obj = object_of(model)
    return selection.selects(obj) and not asked.may_allow({"object": obj})


def is_vacuous(selection: Selection, is_namespaced: bool | None = None) -> bool:
    """Whether a selection can select nothing, such as `a=1,a=2`."""
    return Solver(NO, is_namespaced).refute(selection.ranges()) is None


def object_of(model: Model) -> dict[str, Any]:
    """The object of a model, as JSON."""
    obj: dict[str, Any] = {"metadata": {}}
    for path in sorted(model.maps):
        _place(obj, path, {})
    for key, value in sorted(model.values.items()):
        _place(obj, key.path, key.value(value))
    return obj


def shown_object(model: Model, namespace: str = "") -> dict[str, Any]:
    """The object of a model for a reader: without a name that does not matter."""
    obj = object_of(model)
    metadata = obj["metadata"]
    if model.values.get(NAME, "").startswith("other-"):
        metadata.pop("name", None)
    if namespace:
        metadata.setdefault("namespace", namespace)
    if not metadata.get(LABELS[1]):
        metadata.setdefault(LABELS[1], {})
    return obj


def _place(obj: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        inner = obj.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        obj = inner
    obj.setdefault(path[-1], value)
