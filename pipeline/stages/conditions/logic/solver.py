"""Whether some object that a request selects is not allowed: one z3 solver per formula, asked once per distinct selection.

Comparisons with constants need no strings: per key the constants of the formula, "absent" and "any other value" are enough. Only
keys under text functions, and keys that are compared with each other, are strings to z3. The limit of a check counts z3's steps and
not time, so that two runs give the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ingest.errors import InputError

from ..selection import Range
from .domain import NOTHING, Domain, simplest
from .formula import (
    NAME,
    NAMESPACE,
    PRESENT,
    AllOf,
    AnyOf,
    Below,
    Constant,
    Formula,
    Has,
    In,
    Key,
    Model,
    Not,
    Same,
    Text,
    atoms,
    bounds_of,
    constants_of,
    is_true,
    keys_of,
    weight_of,
)
from .steps import TOO_HARD, Steps
from .strings import label_values, text_holds, unescaped

# Loaded on first need: it takes longer to load than most commands take in all.
z3: Any = None

# What work in Python counts, for each constant and atom of a formula: to make a solver, and to look at the formula once.
_MAKING_STEPS, _LOOK_STEPS = 100, 2
_LABEL_LENGTH_MAX = 63
# Literals are added on demand; a solver with more of them is made again, so that its memory is bounded.
_LITERALS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An object that a formula does not allow."""

    model: Model


@dataclass(frozen=True, slots=True)
class TooHard:
    """The solver gave up."""

    why: str = TOO_HARD


def require_z3() -> None:
    """Load the solver's package. Raises InputError that says how to install it."""
    global z3
    try:
        z3 = import_module("z3")
    except ImportError:  # it is an extra, because its library has 60 MB
        raise InputError(
            "chains of conditional authorizers need z3-solver, which is not installed",
            "install kube-hindcast with its extra `conditions`: pip install 'kube-hindcast[conditions]'",
        ) from None


class Solver:
    """Looks for objects that one formula does not allow.

    `is_namespaced` says whether objects are in namespaces; None where that is not known.
    """

    def __init__(self, allowed: Formula, is_namespaced: bool | None = None, steps: Steps | None = None) -> None:
        """`steps` are those of the run. Raises InputError without z3."""
        require_z3()
        self._allowed = allowed
        self._steps = steps or Steps()
        self.weight = weight_of(allowed)
        self._always = {NAME: True, **({NAMESPACE: is_namespaced} if is_namespaced is not None else {})}
        self.keys = tuple(sorted(keys_of(allowed)))
        self._texts = _text_keys(allowed)
        self.constants = constants_of(allowed)
        bounds = bounds_of(allowed)
        self._domains = {
            key: Domain(key, self.constants.get(key, ()), self._always.get(key), bounds.get(key, ()))
            for key in self.keys
            if key not in self._texts
        }
        self._paths = sorted(_paths(allowed))
        self._solver: Any = None
        self._literals: dict[tuple[Key, Any], Any] = {}

    def is_text(self, key: Key) -> bool:
        """Whether the formula reads more of a key than its equality with constants."""
        return key in self._texts

    def refute(self, ranges: Mapping[Key, Range]) -> Counterexample | TooHard | None:
        """An object of a selection that is not allowed; None if all of them are.

        The simplest object is tried before the solver, so that most counterexamples are what a person would write.
        """
        if self._steps.left <= 0:
            return TooHard(self._steps.why)
        self._steps.spend(_LOOK_STEPS * self.weight)
        ranges = {**ranges, **{key: _fixed(ranges.get(key, Range()), always) for key, always in self._always.items()}}
        simple = {key: simplest(key, taken, self._known(key)) for key, taken in ranges.items()}
        if any(found is NOTHING for found in simple.values()):
            return None
        start = {key: value for key, value in simple.items() if isinstance(value, str)}
        if not is_true(self._allowed, model := Model(start)):
            return Counterexample(model)
        if isinstance(self._allowed, Constant):
            return None
        return self._solve(ranges, start)

    def _solve(self, ranges: Mapping[Key, Range], start: Mapping[Key, str]) -> Counterexample | TooHard | None:
        if self._solver is None or len(self._literals) >= _LITERALS_MAX:
            self._steps.spend(_MAKING_STEPS * self.weight)
            if self._steps.left <= 0:
                return TooHard(self._steps.why)
            self._build()
        literals: list[Any] = []
        for key in self.keys:
            taken = ranges.get(key)
            if taken is not None and not taken.values.is_whole:
                found = self._text_literals(key, taken) if key in self._texts else self._domain_literals(key, taken)
                if found is None:
                    return None
                literals += found
        # What a selection makes present is in the maps around it, also where the formula does not read it.
        asked = [key for key in start if key not in self.keys]
        literals += [there for path, there in self._has.items() if any(key.path[: len(path)] == path for key in asked)]
        # What is there at the path of a selected key is a value of that key.
        held = self._held(ranges)
        literals += [z3.Not(self._has[key.path]) for key, value in held.items() if value is NOTHING]
        answer = self._check(literals)
        if answer == z3.unsat:
            return None
        if answer != z3.sat:
            return TooHard()
        return Counterexample(self._model(ranges, {**start, **self._there(held)}))

    def _held(self, ranges: Mapping[Key, Range]) -> dict[Key, str | object | None]:
        """The values of selected keys whose presence alone the formula reads, if they have any."""
        present = {key: taken._replace(values=taken.values.both(PRESENT)) for key, taken in ranges.items()}
        return {
            key: simplest(key, taken, self._known(key))
            for key, taken in present.items()
            if key.path in self._has and key not in self.keys
        }

    def _there(self, held: Mapping[Key, str | object | None]) -> dict[Key, str]:
        """Those of some values that the solver's object has."""
        found = self._solver.model()
        there = {key for key in held if z3.is_true(found.eval(self._has[key.path], model_completion=True))}
        return {key: value for key, value in held.items() if key in there and isinstance(value, str)}

    def _check(self, literals: list[Any]) -> Any:
        """One check within what is left. z3 counts its steps over all checks of a process."""
        self._solver.set("rlimit", self._steps.left)
        before = _used(self._solver)
        answer = self._solver.check(*literals)
        self._steps.spend(_used(self._solver) - before)
        return answer

    def _known(self, key: Key) -> frozenset[str]:
        domain = self._domains.get(key)
        return frozenset(domain.constants) if domain is not None else frozenset()

    def _build(self) -> None:
        self._solver = z3.SolverFor("QF_FD") if not self._texts else z3.Solver()
        self._literals = {}
        for domain in self._domains.values():
            domain.declare(self._solver)
        self._strings = {key: (z3.String(f"v:{key.path}"), z3.Bool(f"p:{key.path}")) for key in sorted(self._texts)}
        for key, (value, present) in self._strings.items():
            self._declare_text(key, value, present)
        self._has = {path: z3.Bool(f"h:{path}") for path in self._paths}
        self._declare_paths()
        self._solver.add(z3.Not(self._encoded(self._allowed)))

    def _declare_text(self, key: Key, value: Any, present: Any) -> None:
        if key.is_label:
            self._solver.add(z3.Implies(present, z3.And(z3.InRe(value, label_values()), z3.Length(value) <= _LABEL_LENGTH_MAX)))
        always = self._always.get(key)
        if always is not None:
            self._solver.add(present if always else z3.Not(present))
            self._solver.add(z3.Length(value) > 0)

    def _declare_paths(self) -> None:
        """A present value lies in a present object or list. A text that a formula reads is the value at its path."""
        for path, there in self._has.items():
            for outer, holder in self._has.items():
                if len(outer) < len(path) and path[: len(outer)] == outer:
                    self._solver.add(z3.Implies(there, holder))
            for key in self.keys:
                if key.path == path:
                    self._solver.add(there == self._present(key))
                elif key.path[: len(path)] == path:
                    self._solver.add(z3.Implies(self._present(key), there))

    def _present(self, key: Key) -> Any:
        return self._strings[key][1] if key in self._texts else z3.Not(self._domains[key].literal(self._domains[key].absent))

    def _encoded(self, formula: Formula) -> Any:
        match formula:
            case Constant():
                return z3.BoolVal(formula.value)
            case AllOf(of):
                return z3.And(*map(self._encoded, of))
            case AnyOf(of):
                return z3.Or(*map(self._encoded, of))
            case Not(of):
                return z3.Not(self._encoded(of))
            case Has(path):
                return self._has[path] if path in self._has else z3.BoolVal(True)
            case In(key):
                return (
                    self._text_in(key, Range(formula.values)) if key in self._texts else self._domain_in(key, Range(formula.values))
                )
            case Below(key, bound):
                return self._domain_in(key, Range(PRESENT, high=bound))
            case Same(left, right):
                (one, has_one), (two, has_two) = self._strings[left], self._strings[right]
                return z3.And(has_one, has_two, one == two)
            case Text(key):
                value, present = self._strings[key]
                return z3.And(present, text_holds(value, formula))

    def _text_in(self, key: Key, taken: Range) -> Any:
        value, present = self._strings[key]
        texts = [value == z3.StringVal(text) for text in sorted(taken.values.texts)]
        among = z3.Or(*texts) if texts else z3.BoolVal(False)
        inside = z3.And(present, z3.Not(among) if taken.values.negated else among)
        return z3.Or(inside, z3.Not(present)) if taken.values.absent else inside

    def _domain_in(self, key: Key, taken: Range) -> Any:
        domain = self._domains[key]
        return z3.Or(*(domain.literal(place) for place in domain.places(taken)))

    def _text_literals(self, key: Key, taken: Range) -> list[Any]:
        return [self._kept((key, taken.values), lambda: self._text_in(key, taken))]

    def _domain_literals(self, key: Key, taken: Range) -> list[Any] | None:
        domain = self._domains[key]
        places = domain.places(taken)
        if not places:
            return None
        if len(places) == 1:
            return [domain.literal(places[0])]
        if len(places) == domain.size:
            return []
        return [self._kept((key, places), lambda: z3.Or(*(domain.literal(place) for place in places)))]

    def _kept(self, name: tuple[Key, Any], make: Any) -> Any:
        """A literal that stands for a constraint, so that a check only assumes it."""
        found = self._literals.get(name)
        if found is None:
            found = self._literals[name] = z3.Bool(f"l:{len(self._literals)}")
            self._solver.add(z3.Implies(found, make()))
        return found

    def _model(self, ranges: Mapping[Key, Range], start: Mapping[Key, str]) -> Model:
        """The solver's object, reduced to the parts that make it a counterexample."""
        found = self._solver.model()
        values = dict(start)
        for key in self.keys:
            taken = ranges.get(key, Range())
            value = self._value(found, key, taken)
            values.pop(key, None)
            if value is not None:
                values[key] = value
        maps = {path for path, there in self._has.items() if z3.is_true(found.eval(there, model_completion=True))}
        model = Model(values, frozenset(path for path in maps if not any(key.path[: len(path)] == path for key in values)))
        return self._simplified(model, ranges)

    def _value(self, found: Any, key: Key, taken: Range) -> str | None:
        if key in self._texts:
            value, present = self._strings[key]
            is_there = z3.is_true(found.eval(present, model_completion=True))
            return unescaped(found.eval(value, model_completion=True).as_string()) if is_there else None
        domain = self._domains[key]
        place = next(place for place in range(domain.size) if z3.is_true(found.eval(domain.literal(place), model_completion=True)))
        return domain.value(place, taken)

    def _simplified(self, model: Model, ranges: Mapping[Key, Range]) -> Model:
        for key in sorted(model.values):
            if self._always.get(key) or not ranges.get(key, Range()).values.absent:
                continue
            if self._steps.left <= 0:
                return model
            self._steps.spend(_LOOK_STEPS * self.weight)
            less = Model({other: value for other, value in model.values.items() if other != key}, model.maps)
            if not is_true(self._allowed, less):
                model = less
        for path in sorted(model.maps, key=len, reverse=True):
            less = Model(model.values, model.maps - {path})
            if not is_true(self._allowed, less):
                model = less
        return model


def _used(solver: Any) -> int:
    """The steps that z3 has counted."""
    found = next((value for name, value in solver.statistics() if name == "rlimit count"), 0)
    return int(found)


def _fixed(taken: Range, always: bool) -> Range:
    """A range of a key that every object has, or none."""
    if always:
        return taken._replace(values=taken.values.both(Range().values._replace(absent=False, texts=frozenset([""]))))
    return taken._replace(values=taken.values.both(Range().values._replace(negated=False)))


def _text_keys(formula: Formula) -> frozenset[Key]:
    found: set[Key] = set()
    for atom in atoms(formula):
        if isinstance(atom, Text):
            found.add(atom.key)
        elif isinstance(atom, Same):
            found |= {atom.left, atom.right}
    return frozenset(found)


def _paths(formula: Formula) -> frozenset[tuple[str, ...]]:
    """The paths whose presence a formula reads, with those around them."""
    found = {atom.path for atom in atoms(formula) if isinstance(atom, Has)}
    around = {path[:size] for path in found for size in range(1, len(path))}
    return frozenset((found | around) - {("metadata",)})
