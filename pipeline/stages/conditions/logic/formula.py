"""Formulas over the labels and fields of one object: what conditions and selectors say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

LABELS = ("metadata", "labels")


class Kind(StrEnum):
    """The type of a field that selectors can compare."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"


class Key(NamedTuple):
    """A value of an object, by its path: the label `env` is at ("metadata", "labels", "env").

    Formulas have its values as texts, as selectors compare them. `absent` is the text that a selector compares where an object
    lacks the field.
    """

    path: tuple[str, ...]
    kind: Kind = Kind.TEXT
    absent: str = ""

    @property
    def is_label(self) -> bool:
        """Whether it is a label, which selectors see as absent or present; they see an absent field as ""."""
        return len(self.path) == 3 and self.path[:2] == LABELS

    @property
    def holder(self) -> tuple[str, ...]:
        """The path of the map that holds it."""
        return self.path[:-1]

    def may_be(self, text: str) -> bool:
        """Whether a present value of its type can have this text."""
        if self.kind is Kind.BOOLEAN:
            return text in ("true", "false")
        return self.kind is Kind.TEXT or _INTEGER.fullmatch(text) is not None

    def value(self, text: str) -> str | bool | int:
        """The value of an object that has this text."""
        return text if self.kind is Kind.TEXT else text == "true" if self.kind is Kind.BOOLEAN else int(text)

    def __str__(self) -> str:
        """As a path; of a label its name."""
        return self.path[-1] if self.is_label else ".".join(self.path)


_INTEGER = re.compile(r"-?[1-9][0-9]{0,18}|0")
NAME, NAMESPACE = Key(("metadata", "name")), Key(("metadata", "namespace"))


def label(name: str) -> Key:
    """The key of a label."""
    return Key((*LABELS, name))


def is_ambiguous(text: str) -> bool:
    """Whether a text may also be that of a boolean or an integer."""
    return any(Key((), kind).may_be(text) for kind in (Kind.BOOLEAN, Kind.INTEGER))


class Values(NamedTuple):
    """A set of values of one key: some texts, or with `negated` all others; with `absent` also no value at all."""

    texts: frozenset[str] = frozenset()
    negated: bool = False
    absent: bool = False

    def holds(self, value: str | None) -> bool:
        """Whether a value is in the set; None for no value."""
        return self.absent if value is None else (value in self.texts) is not self.negated

    def complement(self) -> Values:
        """AllOf other values."""
        return Values(self.texts, not self.negated, not self.absent)

    def both(self, other: Values) -> Values:
        """The values that are in both sets."""
        absent = self.absent and other.absent
        if self.negated and other.negated:
            return Values(self.texts | other.texts, True, absent)
        if self.negated:
            return Values(other.texts - self.texts, False, absent)
        return Values(self.texts - other.texts if other.negated else self.texts & other.texts, False, absent)

    @property
    def is_empty(self) -> bool:
        """Whether no value is in the set."""
        return not self.texts and not self.negated and not self.absent

    @property
    def is_whole(self) -> bool:
        """Whether every value is in the set."""
        return not self.texts and self.negated and self.absent


ANYTHING, PRESENT, ABSENT = Values(negated=True, absent=True), Values(negated=True), Values(absent=True)


def exactly(*texts: str) -> Values:
    """These values, present."""
    return Values(frozenset(texts))


@dataclass(frozen=True, slots=True)
class Model:
    """An object as formulas see it. `values` has the present keys, and `maps` the paths of present maps that hold none of these."""

    values: Mapping[Key, str]
    maps: frozenset[tuple[str, ...]] = frozenset()

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether the object has anything at a path."""
        size = len(path)
        if path in (("metadata",), ()):
            return True
        return any(key.path[:size] == path for key in self.values) or any(each[:size] == path for each in self.maps)


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false for every object."""

    value: bool


@dataclass(frozen=True, slots=True)
class In:
    """The value of a key is one of a set."""

    key: Key
    values: Values


@dataclass(frozen=True, slots=True)
class Has:
    """There is something at a path that is not a label, such as the map of all labels."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Same:
    """Both keys are present and have one value."""

    left: Key
    right: Key


@dataclass(frozen=True, slots=True)
class Text:
    """The key is present, and a text function holds: startsWith, endsWith, contains, or `size` with a comparison."""

    key: Key
    function: str
    argument: str | int

    def holds(self, value: str) -> bool:
        """Whether the function holds of a value."""
        argument = self.argument
        if isinstance(argument, int):
            return _COMPARE[self.function](len(value), argument)
        return _TEXT[self.function](value, argument)


@dataclass(frozen=True, slots=True)
class Below:
    """The key is present, and its integer is less than a bound."""

    key: Key
    bound: int


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a formula."""

    of: Formula


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of some formulas."""

    of: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of some formulas."""

    of: tuple[Formula, ...]


Formula: TypeAlias = Constant | In | Has | Same | Text | Below | Not | AllOf | AnyOf
YES, NO = Constant(True), Constant(False)

_TEXT = {"startsWith": str.startswith, "endsWith": str.endswith, "contains": str.__contains__}
_COMPARE = {
    "_<_": int.__lt__,
    "_<=_": int.__le__,
    "_>_": int.__gt__,
    "_>=_": int.__ge__,
    "_==_": int.__eq__,
    "_!=_": int.__ne__,
}
TEXT_FUNCTIONS, SIZE_COMPARISONS = frozenset(_TEXT), frozenset(_COMPARE)


def every(parts: Iterable[Formula]) -> Formula:
    """The conjunction, without constants in it."""
    return _joined(parts, AllOf, YES, NO)


def some(parts: Iterable[Formula]) -> Formula:
    """The disjunction, without constants in it."""
    return _joined(parts, AnyOf, NO, YES)


def negated(formula: Formula) -> Formula:
    """The opposite, with the negation moved into atoms where they can take it."""
    match formula:
        case Constant(value):
            return NO if value else YES
        case In(key, values):
            return In(key, values.complement())
        case Not(of):
            return of
        case AllOf(of):
            return some(map(negated, of))
        case AnyOf(of):
            return every(map(negated, of))
    return Not(formula)


def is_true(formula: Formula, model: Model) -> bool:
    """Whether a formula holds of an object."""
    match formula:
        case In(key, values):
            return values.holds(model.values.get(key))
        case AllOf(of):
            return all(is_true(each, model) for each in of)
        case AnyOf(of):
            return any(is_true(each, model) for each in of)
        case Not(of):
            return not is_true(of, model)
        case Constant():
            return formula.value
        case Has(path):
            return model.has(path)
        case Same(left, right):
            shared = model.values.get(left)
            return shared is not None and shared == model.values.get(right)
        case Text(key):
            text = model.values.get(key)
            return text is not None and formula.holds(text)
        case Below(key, bound):
            number = model.values.get(key)
            return number is not None and key.may_be(number) and int(number) < bound


def atoms(formula: Formula) -> Iterator[In | Has | Same | Text | Below]:
    """Every atom of a formula, as often as it is there."""
    match formula:
        case AllOf(of) | AnyOf(of):
            for each in of:
                yield from atoms(each)
        case Not(of):
            yield from atoms(of)
        case In() | Has() | Same() | Text() | Below():
            yield formula


def _counted(formula: Formula, joined: Callable[[Iterable[int]], int]) -> int:
    match formula:
        case AllOf(of) | AnyOf(of):
            return 1 + joined(_counted(each, joined) for each in of)
        case Not(of):
            return 1 + _counted(of, joined)
    return 1


def size_of(formula: Formula) -> int:
    """The number of its nodes."""
    return _counted(formula, sum)


def depth_of(formula: Formula) -> int:
    """How many levels of parts it has."""
    return _counted(formula, max)


def weight_of(formula: Formula) -> int:
    """The number of its atoms and their constants."""
    return 1 + sum(1 + len(atom.values.texts) if isinstance(atom, In) else 1 for atom in atoms(formula))


def constants_of(formula: Formula) -> dict[Key, frozenset[str]]:
    """The texts with which a formula compares each key, in one walk."""
    found: dict[Key, set[str]] = {}
    for atom in atoms(formula):
        if isinstance(atom, In):
            found.setdefault(atom.key, set()).update(atom.values.texts)
    return {key: frozenset(texts) for key, texts in found.items()}


def bounds_of(formula: Formula) -> dict[Key, frozenset[int]]:
    """The bounds with which a formula compares each integer, in one walk."""
    found: dict[Key, set[int]] = {}
    for atom in atoms(formula):
        if isinstance(atom, Below):
            found.setdefault(atom.key, set()).add(atom.bound)
    return {key: frozenset(bounds) for key, bounds in found.items()}


def keys_of(formula: Formula) -> frozenset[Key]:
    """The keys that a formula reads."""
    found: set[Key] = set()
    for atom in atoms(formula):
        if isinstance(atom, Same):
            found |= {atom.left, atom.right}
        elif not isinstance(atom, Has):
            found.add(atom.key)
    return frozenset(found)


def _joined(parts: Iterable[Formula], form: type[AllOf] | type[AnyOf], neutral: Constant, final: Constant) -> Formula:
    found: dict[Formula, None] = {}
    for part in parts:
        if part == final:
            return final
        if isinstance(part, form):
            found.update(dict.fromkeys(part.of))
        elif part != neutral:
            found[part] = None
    return neutral if not found else next(iter(found)) if len(found) == 1 else form(tuple(found))
