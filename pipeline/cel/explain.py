"""Why an expression is not true: the parts of it that decided, with the values they saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import ast
from .folds import elements, pairs
from .frames import FAILED
from .unparse import unparse
from .values import CelError, Unknown, Value

Activation = Mapping[str, Value]
# Evaluates a node, with loop variables among the activation's variables.
Evaluate = Callable[[ast.Expr, Activation], Value]


@dataclass(frozen=True, slots=True)
class Finding:
    """One deciding part: its text, what it came to, the values of its operands by their text, and of loop variables by name."""

    expression: str
    value: Value | CelError | Unknown
    operands: tuple[tuple[str, Value], ...] = ()
    bindings: tuple[tuple[str, Value], ...] = ()


def explain(tree: ast.Expr, activation: Activation, evaluate: Evaluate) -> list[Finding]:
    """The parts that made an expression what it is: of `&&` the term that was false, of `||` all of them, of `all` the first
    element that failed. Empty where the expression is a constant.
    """
    return _Explainer(evaluate).why(tree, activation, ())


class _Explainer:
    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate = evaluate

    def why(self, node: ast.Expr, scope: Activation, bindings: tuple[tuple[str, Value], ...]) -> list[Finding]:
        """What made `node` come to its value in this scope."""
        value = self.evaluate(node, scope)
        match node:
            case ast.Literal():
                return []
            case ast.And(terms=terms) | ast.Or(terms=terms):
                return self.logical(terms, value, scope, bindings)
            case ast.Call(function="!_", arguments=(operand,)):
                return self.why(operand, scope, bindings)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                chosen = self.evaluate(condition, scope)
                if chosen is True or chosen is False:
                    branch = self.why(then if chosen else otherwise, scope, bindings)
                    return branch or self.why(condition, scope, bindings)
                return self.why(condition, scope, bindings)
            case ast.Comprehension(macro="all" | "exists"):
                return self.quantifier(node, value, scope, bindings)
            case _:
                return [Finding(unparse(node), value, self.operands(node, scope), bindings)]

    def logical(
        self, terms: tuple[ast.Expr, ...], value: Value, scope: Activation, bindings: tuple[tuple[str, Value], ...]
    ) -> list[Finding]:
        """The terms that have the outcome of the whole; all of them where it takes all of them."""
        found: list[Finding] = []
        for term in terms:
            each = self.evaluate(term, scope)
            if each is value or (value.__class__ in FAILED and each.__class__ is value.__class__):
                found += self.why(term, scope, bindings)
                if value.__class__ is CelError or self.decides(terms, value, scope):
                    break
        return found

    def decides(self, terms: tuple[ast.Expr, ...], value: Value, scope: Activation) -> bool:
        """Whether one term alone brought about the value: not all terms have it."""
        return value.__class__ is bool and any(self.evaluate(term, scope) is not value for term in terms)

    def quantifier(
        self, node: ast.Comprehension, value: Value, scope: Activation, bindings: tuple[tuple[str, Value], ...]
    ) -> list[Finding]:
        """The first element that decided `all` or `exists`, or the whole macro where none did."""
        whole = [Finding(unparse(node), value, self.operands(node, scope), bindings)]
        over = self.evaluate(node.range, scope)
        try:
            items: list[Any] = list(pairs(over)) if len(node.variables) == 2 else [(each,) for each in elements(over)]
        except CelError:
            return whole
        for item in items:
            bound = tuple(zip(node.variables, item, strict=True))
            inner = {**scope, **dict(bound)}
            each = self.evaluate(node.arguments[0], inner)
            if each is value or (value.__class__ in FAILED and each.__class__ is value.__class__):
                if value is (node.macro == "all"):
                    return whole
                return self.why(node.arguments[0], inner, (*bindings, *bound)) or whole
        return whole

    def operands(self, node: ast.Expr, scope: Activation) -> tuple[tuple[str, Value], ...]:
        """The values of what the node works on, constants left out."""
        nodes: tuple[ast.Expr, ...]
        match node:
            case ast.Call(target=target, arguments=arguments):
                nodes = arguments if target is None else (target, *arguments)
            case ast.Comprehension(range=over):
                nodes = (over,)
            case ast.Has(operand=operand) | ast.Index(operand=operand):
                nodes = (operand,)
            case _:
                nodes = ()
        return tuple((unparse(each), self.evaluate(each, scope)) for each in nodes if not isinstance(each, ast.Literal))
