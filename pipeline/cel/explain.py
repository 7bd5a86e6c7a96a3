"""Explains why an expression is not true: the parts that decided, with the values they saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import ast
from .evaluation.folds import elements, pairs
from .evaluation.frames import FAILED
from .syntax.unparse import unparse
from .types import Type
from .values import CelError, Unknown, Value

Activation = Mapping[str, Value]
# Evaluates a node; loop variables are among the variables of the activation.
Evaluate = Callable[[ast.Expr, Activation], Value]
# The operands of a call, receiver first.
ArgumentsOf = Callable[[ast.Call], Sequence[ast.Expr]]
# The place of a value: a variable, then fields and indexes; EVERY stands for each element.
Place: TypeAlias = tuple[str | int, ...]
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Finding:
    """One deciding part: its text, its value, the values of its operands by their text, and of loop variables by name.

    `places` are the places that it read, as `("object", "spec", "replicas")`; places of elements have their index.
    """

    expression: str
    value: Value | CelError | Unknown
    operands: tuple[tuple[str, Value], ...] = ()
    bindings: tuple[tuple[str, Value], ...] = ()
    places: tuple[Place, ...] = ()


def explain(tree: ast.Expr, activation: Activation, evaluate: Evaluate, arguments_of: ArgumentsOf) -> list[Finding]:
    """The parts that decided the value: the false term of `&&`, all terms of `||`, the first failed element of `all`.

    Empty where the expression is a constant.
    """
    return _Explainer(evaluate, arguments_of).why(tree, _Scope(activation))


@dataclass(frozen=True, slots=True)
class _Scope:
    """The meaning of names at one node. `origins` has the places of the values of loop variables, as far as they are known.

    A loop over a computed list has no such place: `sources` has the places that the list was computed from.
    """

    activation: Activation
    bindings: tuple[tuple[str, Value], ...] = ()
    origins: Mapping[str, Place | None] = field(default_factory=dict)
    sources: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)

    def bound(
        self, values: tuple[tuple[str, Value], ...], origins: Mapping[str, Place | None], sources: tuple[Place, ...] = ()
    ) -> _Scope:
        computed = {**self.sources, **dict.fromkeys(origins, sources)}
        return _Scope({**self.activation, **dict(values)}, (*self.bindings, *values), {**self.origins, **origins}, computed)


class _Explainer:
    def __init__(self, evaluate: Evaluate, arguments_of: ArgumentsOf) -> None:
        self._evaluate = evaluate
        self._arguments_of = arguments_of

    def evaluate(self, node: ast.Expr, scope: _Scope) -> Value:
        return self._evaluate(node, scope.activation)

    def why(self, node: ast.Expr, scope: _Scope) -> list[Finding]:
        """The parts that decided the value of `node` in this scope."""
        value = self.evaluate(node, scope)
        match node:
            case ast.Literal():
                return []
            case ast.And(terms=terms) | ast.Or(terms=terms):
                return self.logical(terms, value, scope)
            case ast.Call(function="!_", arguments=(operand,)):
                return self.why(operand, scope)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                chosen = self.evaluate(condition, scope)
                if chosen is True or chosen is False:
                    branch = self.why(then if chosen else otherwise, scope)
                    return branch or self.why(condition, scope)
                return self.why(condition, scope)
            case ast.Comprehension(macro="all" | "exists"):
                return self.quantifier(node, value, scope)
            case _:
                return [self.finding(node, value, scope)]

    def finding(self, node: ast.Expr, value: Value, scope: _Scope) -> Finding:
        """The node as a part that decided."""
        operands: dict[str, Value] = {}
        for each in self.operands(node):
            found = self.evaluate(each, scope)
            if found.__class__ is not Type:  # the name of a type is a constant
                operands[unparse(each)] = found
        places = tuple(dict.fromkeys(self.places(node, scope)))
        return Finding(unparse(node), value, tuple(operands.items()), scope.bindings, places)

    def logical(self, terms: tuple[ast.Expr, ...], value: Value, scope: _Scope) -> list[Finding]:
        """The terms with the outcome of the whole; all terms where all were needed."""
        found: list[Finding] = []
        for term in terms:
            each = self.evaluate(term, scope)
            if each is value or (value.__class__ in FAILED and each.__class__ is value.__class__):
                found += self.why(term, scope)
                if value.__class__ is CelError or self.decides(terms, value, scope):
                    break
        return found

    def decides(self, terms: tuple[ast.Expr, ...], value: Value, scope: _Scope) -> bool:
        """Whether one term alone decided the value, which then differs from the value of some other term."""
        return value.__class__ is bool and any(self.evaluate(term, scope) is not value for term in terms)

    def quantifier(self, node: ast.Comprehension, value: Value, scope: _Scope) -> list[Finding]:
        """The first element that decided `all` or `exists`, or the whole macro where no single element decided."""
        whole = [self.finding(node, value, scope)]
        if value is (node.macro == "all"):
            return whole
        over = self.evaluate(node.range, scope)
        has_two = len(node.variables) == 2
        try:
            items: list[Any] = list(pairs(over)) if has_two else [(each,) for each in elements(over)]
        except CelError:
            return whole
        place = self.place(node.range, scope)
        sources = () if place else tuple(dict.fromkeys(self.places(node.range, scope)))
        for index, item in enumerate(items):
            key = item[0] if has_two else index
            element = (*place, key) if place and over.__class__ in (list, dict) and isinstance(key, (int, str)) else None
            # With one variable the elements of a map are its keys.
            is_element = has_two or over.__class__ is list
            inner = scope.bound(
                tuple(zip(node.variables, item, strict=True)),
                {node.variables[0]: None, node.variables[-1]: element if is_element else None},
                sources,
            )
            each = self.evaluate(node.arguments[0], inner)
            if each is value or (value.__class__ in FAILED and each.__class__ is value.__class__):
                return self.why(node.arguments[0], inner) or whole
        return whole

    def operands(self, node: ast.Expr) -> Iterator[ast.Expr]:
        """The operands of the node, and of the calls among them; without constants."""
        nodes: Sequence[ast.Expr]
        match node:
            case ast.Call():
                nodes = self._arguments_of(node)
            case ast.Comprehension(range=over):
                nodes = (over,)
            case ast.Has(operand=operand):
                nodes = (operand,)
            case ast.Index(operand=operand, key=key):
                nodes = (operand, key)
            case _:
                nodes = ()
        for each in nodes:
            if not isinstance(each, (ast.Literal, ast.ListLiteral)):
                yield each
            if isinstance(each, (ast.Call, ast.Comprehension)):
                yield from self.operands(each)

    def places(self, node: ast.Expr, scope: _Scope) -> Iterator[Place]:
        """The places that the node reads."""
        if isinstance(node, (ast.Ident, ast.Select, ast.Has, ast.Index)):
            place = self.place(node, scope)
            if place is not None:
                yield place
            elif isinstance(node, ast.Ident):
                yield from scope.sources[node.name]
            if isinstance(node, ast.Index):
                yield from self.places(node.key, scope)
            if place is None and not isinstance(node, ast.Ident):
                yield from self.places(node.operand, scope)
        elif isinstance(node, ast.Comprehension):
            yield from self.places(node.range, scope)
            over = self.place(node.range, scope)
            each = (*over, EVERY) if over is not None else None
            inner = scope.bound((), {**dict.fromkeys(node.variables), node.variables[-1]: each})
            for argument in node.arguments:
                yield from self.places(argument, inner)
        elif isinstance(node, ast.Call):
            for argument in self._arguments_of(node):
                yield from self.places(argument, scope)
        else:
            inner = scope.bound((), {node.variable: None}) if isinstance(node, ast.OptionalMap) else scope
            for child in ast.children(node):
                yield from self.places(child, inner)

    def place(self, node: ast.Expr, scope: _Scope) -> Place | None:
        """The place of the value of a chain of fields and indexes; None for computed values."""
        match node:
            case ast.Ident(name=name):
                return scope.origins[name] if name in scope.origins else (name.lstrip("."),)
            case ast.Select(operand=operand, field=key) | ast.Has(operand=operand, field=key):
                above = self.place(operand, scope)
                return None if above is None else (*above, key)
            case ast.Index(operand=operand, key=index):
                above = self.place(operand, scope)
                found = self.evaluate(index, scope) if above is not None else None
                return (*above, found) if above is not None and found.__class__ in (str, int) else None
        return None
