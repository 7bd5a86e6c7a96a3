"""Constant folding as kube-apiserver configures it in cel-go: literals, aggregates of constants, and conversions of constants.

A conversion or pattern that fails makes the program fail before it runs, even in a branch that would never be taken (cel-go
interpreter decOptimize). Everything else, `1 + 1` included, is computed and charged at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import ast
from ..errors import ProgramError
from ..evaluation.attributes import KEY_KINDS, go_type
from ..evaluation.equality import equal
from ..evaluation.patterns import compiled
from ..values import CelError, CelMap, Optional, UInt, Value
from .names import Names

CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
PATTERN_FUNCTIONS = frozenset(("matches", "find", "findAll"))
_SET_MEMBERS = frozenset((bool, int, UInt, float, str, None.__class__))


class Constants:
    """The constants of one expression. `overloads` are the overloads that the checker found for each call, by node id."""

    def __init__(self, names: Names, overloads: Mapping[int, tuple[str, ...]], bound: frozenset[str]) -> None:
        self.names = names
        self.overloads = overloads
        self.bound = bound
        self.known: dict[int, tuple[bool, Value]] = {}

    def of(self, node: ast.Expr) -> tuple[bool, Value]:
        """Whether a node is constant, and its value. Raises ProgramError if a constant conversion fails."""
        answer = self.known.get(node.id)
        if answer is None:
            answer = self.known[node.id] = self._fold(node)
        return answer

    def _fold(self, node: ast.Expr) -> tuple[bool, Value]:
        match node:
            case ast.Literal(value=value):
                return True, value
            case ast.Ident() | ast.Select():
                type_ = self.names.type_named(node, self.bound)
                return type_ is not None, type_
            case ast.ListLiteral(elements=elements, optional=optional):
                values = [self.of(element) for element in elements]
                if optional or not all(found for found, _ in values):
                    return False, None
                return True, [value for _, value in values]
            case ast.MapLiteral(entries=entries):
                return self._map(entries)
            case ast.Call(function=function, target=None, arguments=(argument,)) if function in CONVERSIONS:
                found, value = self.of(argument)
                return (True, self._convert(node, value)) if found else (False, None)
            case ast.Call() if self.overloads.get(node.id) == ("in_list",) and self.of(node.arguments[1]) == (True, []):
                return True, False
            case ast.Call(function=function) if function in PATTERN_FUNCTIONS:
                self._check_pattern(node)
                return False, None
            case _:
                return False, None

    def _map(self, entries: tuple[ast.Entry, ...]) -> tuple[bool, Value]:
        pairs: list[tuple[Value, Value]] = []
        for entry in entries:
            (key_found, key), (value_found, value) = self.of(entry.key), self.of(entry.value)
            if entry.optional or not (key_found and value_found):
                return False, None
            pairs.append((key, value))
        if all(key.__class__ is str for key, _ in pairs):
            return True, dict(pairs)
        try:
            return True, CelMap(pairs)
        except CelError:
            return False, None

    def _convert(self, node: ast.Call, value: Value) -> Value:
        if isinstance(value, Optional):
            return value
        try:
            return self.names.functions[node.function].call(value)
        except CelError as problem:
            raise ProgramError(problem.message) from None

    def _check_pattern(self, node: ast.Call) -> None:
        """A constant pattern is compiled beforehand, and must be valid (cel-go interpreter decRegexOptimizer)."""
        arguments = node.arguments if node.target is None else (node.target, *node.arguments)
        if len(arguments) > 1:
            found, pattern = self.of(arguments[1])
            if found and pattern.__class__ is str:
                try:
                    compiled(pattern)
                except CelError as problem:
                    raise ProgramError(problem.message) from None

    def check_key(self, node: ast.Index) -> None:
        """Raises ProgramError for a constant that cannot be a key (cel-go refuses to plan it)."""
        found, key = self.of(node.key)
        if found and key.__class__ not in KEY_KINDS:
            raise ProgramError(f"invalid qualifier type: {go_type(key)}")

    def membership(self, node: ast.Call) -> Callable[[Value], bool] | None:
        """A test for `x in [constants]` where cel-go makes a set of the list: the test then costs only the cost of x."""
        if node.function != "@in" or self.overloads.get(node.id) != ("in_list",):
            return None
        found, members = self.of(node.arguments[1])
        if not found or any(member.__class__ not in _SET_MEMBERS for member in members):
            return None
        if all(member.__class__ is str for member in members):
            texts = frozenset(members)
            return lambda value: value.__class__ is str and value in texts
        return lambda value: any(equal(value, member) for member in members)
