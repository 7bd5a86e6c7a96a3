"""From a CEL condition to two formulas: when it is true of an object, and when it is false. An error is neither.

`selector` reads labels and fields as Kubernetes selectors do: an absent label differs from every value, and an absent field is "".
`cel` reads them as the language does: a comparison with something absent is an error, and `&&` and `||` absorb errors.
What these formulas cannot express is refused, so that a condition is never read in another way than it is written.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from types import NoneType
from typing import NamedTuple, TypeAlias

from ....cel import Value, ast
from ....cel.syntax.unparse import unparse
from ....cel.values import CelError, Unknown
from ..fields import Fields
from ..spending import words_of
from .formula import (
    ABSENT,
    LABELS,
    NO,
    PRESENT,
    SIZE_COMPARISONS,
    TEXT_FUNCTIONS,
    YES,
    Below,
    Formula,
    Has,
    In,
    Key,
    Kind,
    Same,
    Text,
    every,
    exactly,
    label,
    negated,
    size_of,
    some,
)

# The variables whose values are known only with the object.
LATE = frozenset({"object", "oldObject", "options"})
# Formulas of a `?:` with more nodes are refused.
SIZE_MAX = 4_000
_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_MIRRORED = {"_<_": "_>_", "_>_": "_<_", "_<=_": "_>=_", "_>=_": "_<=_", "_==_": "_==_", "_!=_": "_!=_"}


class Semantics(StrEnum):
    """How a condition reads labels and fields that an object lacks."""

    SELECTOR = "selector"
    CEL = "cel"


class Both(NamedTuple):
    """When a condition is true of an object, and when it is false."""

    true: Formula
    false: Formula

    def opposite(self) -> Both:
        """Of the negated condition."""
        return Both(self.false, self.true)


# Evaluates a part of a condition that does not depend on the object.
Known: TypeAlias = "Callable[[ast.Expr], Value | CelError | Unknown]"
Path: TypeAlias = tuple[str, ...]


class Translated(NamedTuple):
    """The formulas of a condition, and the paths that it takes for another type than a text though their type is not known."""

    both: Both
    doubtful: frozenset[Path] = frozenset()


class NotModelledError(Exception):
    """A part of a condition that says more of an object than labels and fields can. The message quotes it."""


class CostlyError(Exception):
    """A part of a condition that is not evaluated."""


def late_nodes() -> Callable[[ast.Expr], bool]:
    """Whether the value of a node depends on the object. Each node of one tree is looked at once."""
    found: dict[int, bool] = {}

    def is_late(node: ast.Expr) -> bool:
        late = found.get(id(node))
        if late is None:
            own = isinstance(node, ast.Ident) and node.name.lstrip(".") in LATE
            late = found[id(node)] = own or any(is_late(child) for child in ast.children(node))
        return late

    return is_late


def path_of(node: ast.Expr, variable: str = "object") -> Path | None:
    """The path of `object.a["b"].c`, or of another variable; None for every other expression."""
    parts: list[str] = []
    while not isinstance(node, ast.Ident):
        if isinstance(node, ast.Select) and not node.optional:
            parts.append(node.field)
            node = node.operand
        elif (
            isinstance(node, ast.Index)
            and not node.optional
            and isinstance(node.key, ast.Literal)
            and isinstance(node.key.value, str)
        ):
            parts.append(node.key.value)
            node = node.operand
        else:
            return None
    return tuple(reversed(parts)) if node.name.lstrip(".") == variable and parts else None


def paths_in(tree: ast.Expr) -> Iterator[Path]:
    """The whole paths that a condition reads of an object."""
    path = path_of(tree)
    if path is not None:
        yield path
        return
    for child in ast.children(tree):
        yield from paths_in(child)


def translate(known: Known, tree: ast.Expr, semantics: Semantics, fields: Fields) -> Translated:
    """The formulas of a condition of objects with these fields. `known` evaluates parts that do not depend on the object.

    Raises NotModelledError, and CostlyError for parts that `known` does not evaluate.
    """

    def checked(node: ast.Expr) -> Value:
        value = known(node)
        if isinstance(value, Unknown):
            raise CostlyError(words_of(value))
        return value

    translation = _Translation(checked, semantics, fields)
    both = translation.of(tree)
    return Translated(both, frozenset(translation.doubtful))


class _Translation:
    def __init__(self, known: Known, semantics: Semantics, fields: Fields) -> None:
        self._known = known
        self._is_total = semantics is Semantics.SELECTOR
        self._fields = fields
        self._late = late_nodes()
        self.doubtful: set[Path] = set()

    def of(self, node: ast.Expr) -> Both:
        if not self._late(node):
            value = self._known(node)
            return _constant(value)
        match node:
            case ast.And(terms=terms):
                parts = [self.of(each) for each in terms]
                return Both(every(each.true for each in parts), some(each.false for each in parts))
            case ast.Or(terms=terms):
                parts = [self.of(each) for each in terms]
                return Both(some(each.true for each in parts), every(each.false for each in parts))
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._chosen(self.of(condition), self.of(then), self.of(otherwise))
            case ast.Has(operand=operand, field=name):
                path = path_of(ast.Select(node.id, node.offset, operand, name))
                if path is not None:
                    return self._presence(path)
            case ast.Call(function="!_", arguments=(operand,)):
                return self.of(operand).opposite()
            case ast.Call(function=function, target=None, arguments=(left, right)) if function in SIZE_COMPARISONS:
                return self._comparison(node, function, left, right)
            case ast.Call(function="@in", arguments=(left, right)):
                return self._membership(node, left, right)
            case ast.Call(function=function, target=ast.Select() | ast.Index() as target, arguments=(argument,)):
                return self._text(node, function, target, argument)
            case ast.Select() | ast.Index() if (path := path_of(node)) is not None:
                return self._flag(self._key(path, is_text=False))
        raise _refused(node)

    def _key(self, path: Path, *, is_text: bool = True) -> Key:
        """The key at a path. Where its type is not known, a use of it as another type than a text is in doubt."""
        key = self._fields.key(path)
        if not is_text and not self._fields.is_typed(key):
            self.doubtful.add(path)
        return key

    def _chosen(self, condition: Both, then: Both, otherwise: Both) -> Both:
        """The condition is in the result four times, so that nested ones would grow without bound."""
        if sum(size_of(each) for each in (*condition, *then, *otherwise)) > SIZE_MAX:
            raise NotModelledError("nested ?:, which is too large,")
        return Both(
            some([every([condition.true, then.true]), every([condition.false, otherwise.true])]),
            some([every([condition.true, then.false]), every([condition.false, otherwise.false])]),
        )

    def _comparison(self, node: ast.Expr, function: str, left: ast.Expr, right: ast.Expr) -> Both:
        if not self._late(left):
            left, right, function = right, left, _MIRRORED[function]
        sized = _sized(left)
        if sized is not None and not self._late(right):
            number = self._known(right)
            if isinstance(number, int) and not isinstance(number, bool):
                return self._of_text(Text(Key(sized), function, number))
        if function in _ORDERS and not self._late(right) and (path := path_of(left)) is not None:
            return self._order(node, function, path, self._known(right))
        if function == "_!=_":
            return self._equal(node, left, right).opposite()
        if function == "_==_":
            return self._equal(node, left, right)
        raise _refused(node)

    def _order(self, node: ast.Expr, function: str, path: Path, value: Value) -> Both:
        """Whether the integer at a path is less or more than a number. A text or a boolean has no order with one: an error."""
        if isinstance(value, CelError):
            return Both(NO, NO)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _refused(node)
        key = self._key(path, is_text=False)
        lacking = In(key, ABSENT) if self._is_total else NO
        if key.kind is not Kind.INTEGER:
            return Both(NO, lacking)
        above = function in ("_>_", "_>=_")
        below = Below(key, math.floor(value) + 1 if function in ("_<=_", "_>_") else math.ceil(value))
        beyond = every([In(key, PRESENT), negated(below)])
        true, false = (beyond, below) if above else (below, beyond)
        # A field that the server shows with a zero is compared as that; nothing else has an order with a number.
        holds = self._is_total and bool(key.absent) and _ORDERS[function](int(key.absent), value)
        return Both(some([true, lacking]), false) if holds else Both(true, some([false, lacking]))

    def _equal(self, node: ast.Expr, left: ast.Expr, right: ast.Expr) -> Both:
        path, other = path_of(left), path_of(right)
        if path is None:
            raise _refused(node)
        if other is not None:
            return self._same(node, self._key(path), self._key(other))
        if self._late(right):
            raise _refused(node)
        value = self._known(right)
        if isinstance(value, CelError):
            return Both(NO, NO)
        return self._among(node, path, [value])

    def _membership(self, node: ast.Expr, left: ast.Expr, right: ast.Expr) -> Both:
        path, holder = path_of(left), path_of(right)
        if isinstance(right, ast.ListLiteral) and not right.elements:
            return Both(NO, YES)  # decided before anything is read: cel-go folds it
        if holder == LABELS and not self._late(left):
            name = self._known(left)
            if isinstance(name, str):
                return self._presence((*LABELS, name))
        if isinstance(right, ast.ListLiteral) and not right.optional and any(map(self._late, right.elements)):
            parts = [self._comparison(node, "_==_", left, each) for each in right.elements]
            return Both(some(each.true for each in parts), every(each.false for each in parts))
        if path is None or self._late(right):
            raise _refused(node)
        found = self._known(right)
        if not isinstance(found, list):
            raise _refused(node)
        return self._among(node, path, found)

    def _text(self, node: ast.Expr, function: str, target: ast.Expr, argument: ast.Expr) -> Both:
        path = path_of(target)
        wanted = None if self._late(argument) else self._known(argument)
        if path is None or function not in TEXT_FUNCTIONS or not isinstance(wanted, str):
            raise _refused(node)
        return self._of_text(Text(self._key(path), function, wanted))

    def _among(self, node: ast.Expr, path: Path, values: Sequence[Value]) -> Both:
        """Whether the value at a path is one of some constants. A value of another type is equal to none of them."""
        key = self._fields.key(path)
        simple = (str, bool, int, float, list, dict, NoneType) if key.is_label else (str, bool, int, float)
        if not all(isinstance(each, simple) for each in values):
            raise _refused(node)
        key = self._key(path, is_text=all(isinstance(each, str) for each in values))
        texts = exactly(*(text for each in values if (text := _as_text(key, each)) is not None))
        if not self._is_total:
            return Both(In(key, texts), In(key, texts.complement().both(PRESENT)))
        absent = not key.is_label and any(_equals(absent_value(key), each) for each in values)
        texts = texts._replace(absent=absent)
        return Both(In(key, texts), In(key, texts.complement()))

    def _flag(self, key: Key) -> Both:
        """A value that is itself the condition: every other type than a boolean is an error, and nothing does not hold."""
        lacking = ABSENT if self._is_total else exactly()
        if key.kind is not Kind.BOOLEAN:
            return Both(NO, In(key, lacking))
        return Both(In(key, exactly("true")), In(key, exactly("false")._replace(absent=lacking.absent)))

    def _of_text(self, atom: Text) -> Both:
        key = atom.key
        there = In(key, PRESENT) if key.kind is Kind.TEXT else NO  # a function of another type is an error
        true, false = every([there, atom]), every([there, negated(atom)])
        if not self._is_total:
            return Both(true, false)
        holds = not key.is_label and absent_value(key) == "" and atom.holds("")
        lacking = In(key, ABSENT)
        return Both(some([true, lacking]), false) if holds else Both(true, some([false, lacking]))

    def _same(self, node: ast.Expr, left: Key, right: Key) -> Both:
        if left.kind is not Kind.TEXT or right.kind is not Kind.TEXT:
            raise _refused(node)
        same = Same(left, right)
        if not self._is_total:
            return Both(same, every([In(left, PRESENT), In(right, PRESENT), negated(same)]))
        # To a selector an absent field is "", and an absent label is equal to nothing.
        nothing = {key: exactly("") if key.is_label else exactly("")._replace(absent=True) for key in (left, right)}
        both_empty = NO if left.is_label and right.is_label else every(In(key, nothing[key]) for key in (left, right))
        true = some([same, both_empty])
        return Both(true, negated(true))

    def _presence(self, path: Path) -> Both:
        key = self._fields.key(path)
        there = In(key, PRESENT) if key.is_label or self._fields.is_single(path) else Has(path)
        if self._is_total:
            return Both(there, negated(there))
        return Both(there, every([negated(there), _has(path[:-1])]))


def absent_value(key: Key) -> str | bool | int:
    """What a field that an object lacks is to a selector: "", or the zero value of a built-in kind."""
    return key.value(key.absent) if key.absent else ""


def _as_text(key: Key, value: Value) -> str | None:
    """The text of the value of a key that is equal to a constant; None where no value of its type is."""
    if key.kind is Kind.TEXT:
        return value if isinstance(value, str) else None
    if key.kind is Kind.BOOLEAN:
        return str(value).lower() if isinstance(value, bool) else None
    if isinstance(value, (bool, str)):
        return None
    return str(int(value)) if value == value and abs(value) < 2**63 and value == int(value) else None


def _equals(left: str | bool | int, right: Value) -> bool:
    """Equality of CEL, where a boolean is no number."""
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else int for each in (left, right)]
    return kinds[0] is kinds[1] and bool(left == right)


def _constant(value: Value) -> Both:
    return Both(YES, NO) if value is True else Both(NO, YES) if value is False else Both(NO, NO)


def _has(path: tuple[str, ...]) -> Formula:
    return YES if path in ((), ("metadata",)) else Has(path)


def _sized(node: ast.Expr) -> tuple[str, ...] | None:
    """The path in `size(path)` or `path.size()`. Maps and lists have a size too, so that the labels as a whole are left out."""
    if not isinstance(node, ast.Call) or node.function != "size":
        return None
    of = node.target if node.target is not None else node.arguments[0] if node.arguments else None
    path = path_of(of) if of is not None else None
    return path if path is not None and label(path[-1]).path == path else None


def _refused(node: ast.Expr) -> NotModelledError:
    return NotModelledError(unparse(node))
