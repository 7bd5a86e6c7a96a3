"""From a CEL condition to two formulas: when it is true of an object, and when it is false. An error is neither.

`selector` reads labels and fields as Kubernetes selectors do: an absent label differs from every value, and an absent field is "".
`cel` reads them as the language does: a comparison with something absent is an error, and `&&` and `||` absorb errors.
What these formulas cannot express is refused, so that a condition is never read in another way than it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from ....cel import Program, Value, ast
from ....cel.syntax.unparse import unparse
from ....cel.values import CelError, Unknown
from .formula import (
    ABSENT,
    LABELS,
    NO,
    PRESENT,
    SIZE_COMPARISONS,
    TEXT_FUNCTIONS,
    YES,
    Formula,
    Has,
    In,
    Key,
    Same,
    Text,
    Values,
    every,
    exactly,
    label,
    negated,
    some,
)

# The variables whose values are known only with the object.
LATE = frozenset({"object", "oldObject", "options"})
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


class NotModelledError(Exception):
    """A part of a condition that says more of an object than labels and fields can. The message quotes it."""


def is_late(node: ast.Expr) -> bool:
    """Whether the value of a node depends on the object."""
    return any(isinstance(each, ast.Ident) and each.name.lstrip(".") in LATE for each in _walk(node))


def path_of(node: ast.Expr) -> tuple[str, ...] | None:
    """The path of `object.a["b"].c`; None for every other expression."""
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
    return tuple(reversed(parts)) if node.name.lstrip(".") == "object" and parts else None


def translate(program: Program, request: Value, semantics: Semantics) -> Both:
    """The formulas of a condition, for one request. Raises NotModelledError."""

    def known(node: ast.Expr) -> Value | CelError | Unknown:
        return program.value_of(node, {"request": request})

    return _Translation(known, semantics).of(program.ast)


class _Translation:
    def __init__(self, known: Callable[[ast.Expr], Value | CelError | Unknown], semantics: Semantics) -> None:
        self._known = known
        self._is_total = semantics is Semantics.SELECTOR

    def of(self, node: ast.Expr) -> Both:
        if not is_late(node):
            value = self._known(node)
            if isinstance(value, Unknown):
                raise NotModelledError(f"{unparse(node)}: {value}")
            return Both(YES, NO) if value is True else Both(NO, YES) if value is False else Both(NO, NO)
        match node:
            case ast.And(terms=terms):
                parts = [self.of(each) for each in terms]
                return Both(every(each.true for each in parts), some(each.false for each in parts))
            case ast.Or(terms=terms):
                parts = [self.of(each) for each in terms]
                return Both(some(each.true for each in parts), every(each.false for each in parts))
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return _chosen(self.of(condition), self.of(then), self.of(otherwise))
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
        raise _refused(node)

    def _comparison(self, node: ast.Expr, function: str, left: ast.Expr, right: ast.Expr) -> Both:
        if not is_late(left):
            left, right, function = right, left, _MIRRORED[function]
        sized = _sized(left)
        if sized is not None and not is_late(right):
            number = self._known(right)
            if isinstance(number, int) and not isinstance(number, bool):
                return self._of_text(Text(Key(sized), function, number))
        if function == "_!=_":
            return self._equal(node, left, right).opposite()
        if function == "_==_":
            return self._equal(node, left, right)
        raise _refused(node)

    def _equal(self, node: ast.Expr, left: ast.Expr, right: ast.Expr) -> Both:
        path, other = path_of(left), path_of(right)
        if path is None:
            raise _refused(node)
        if other is not None:
            return self._same(Key(path), Key(other))
        if is_late(right):
            raise _refused(node)
        value = self._known(right)
        if isinstance(value, str):
            return self._among(Key(path), exactly(value))
        if isinstance(value, CelError):
            return Both(NO, NO)
        if Key(path).is_label and not isinstance(value, Unknown):
            return self._among(Key(path), exactly())
        raise _refused(node)

    def _membership(self, node: ast.Expr, left: ast.Expr, right: ast.Expr) -> Both:
        path, holder = path_of(left), path_of(right)
        if holder == LABELS and not is_late(left):
            name = self._known(left)
            if isinstance(name, str):
                return self._presence((*LABELS, name))
        if isinstance(right, ast.ListLiteral) and not right.optional and any(map(is_late, right.elements)):
            parts = [self._comparison(node, "_==_", left, each) for each in right.elements]
            return Both(some(each.true for each in parts), every(each.false for each in parts))
        if path is None or is_late(right):
            raise _refused(node)
        found = self._known(right)
        if not isinstance(found, list) or not (Key(path).is_label or all(isinstance(each, str) for each in found)):
            raise _refused(node)
        return self._among(Key(path), exactly(*(each for each in found if isinstance(each, str))))

    def _text(self, node: ast.Expr, function: str, target: ast.Expr, argument: ast.Expr) -> Both:
        path = path_of(target)
        wanted = None if is_late(argument) else self._known(argument)
        if path is None or function not in TEXT_FUNCTIONS or not isinstance(wanted, str):
            raise _refused(node)
        return self._of_text(Text(Key(path), function, wanted))

    def _among(self, key: Key, values: Values) -> Both:
        if not self._is_total:
            return Both(In(key, values), In(key, values.complement().both(PRESENT)))
        if not key.is_label:
            values = values._replace(absent=values.holds(""))
        return Both(In(key, values), In(key, values.complement()))

    def _of_text(self, atom: Text) -> Both:
        if not self._is_total:
            return Both(atom, every([In(atom.key, PRESENT), negated(atom)]))
        true = some([atom, In(atom.key, ABSENT)]) if not atom.key.is_label and atom.holds("") else atom
        return Both(true, negated(true))

    def _same(self, left: Key, right: Key) -> Both:
        same = Same(left, right)
        if not self._is_total:
            return Both(same, every([In(left, PRESENT), In(right, PRESENT), negated(same)]))
        # To a selector an absent field is "", and an absent label is equal to nothing.
        nothing = {key: exactly("") if key.is_label else exactly("")._replace(absent=True) for key in (left, right)}
        both_empty = NO if left.is_label and right.is_label else every(In(key, nothing[key]) for key in (left, right))
        true = some([same, both_empty])
        return Both(true, negated(true))

    def _presence(self, path: tuple[str, ...]) -> Both:
        key = Key(path)
        there = In(key, PRESENT) if key.is_label else Has(path)
        if self._is_total:
            return Both(there, negated(there))
        return Both(there, every([negated(there), _has(path[:-1])]))


def _has(path: tuple[str, ...]) -> Formula:
    return YES if path in ((), ("metadata",)) else Has(path)


def _chosen(condition: Both, then: Both, otherwise: Both) -> Both:
    return Both(
        some([every([condition.true, then.true]), every([condition.false, otherwise.true])]),
        some([every([condition.true, then.false]), every([condition.false, otherwise.false])]),
    )


def _sized(node: ast.Expr) -> tuple[str, ...] | None:
    """The path in `size(path)` or `path.size()`. Maps and lists have a size too, so that the labels as a whole are left out."""
    if not isinstance(node, ast.Call) or node.function != "size":
        return None
    of = node.target if node.target is not None else node.arguments[0] if node.arguments else None
    path = path_of(of) if of is not None else None
    return path if path is not None and label(path[-1]).path == path else None


def _refused(node: ast.Expr) -> NotModelledError:
    return NotModelledError(unparse(node))


def _walk(node: ast.Expr) -> Iterator[ast.Expr]:
    yield node
    for child in ast.children(node):
        yield from _walk(child)
