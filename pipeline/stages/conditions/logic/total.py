"""A condition read as a selector reads an object, over one whole object.

It walks the condition itself and shares nothing with the formulas of translate.py, so that each can check the other.
"""

from __future__ import annotations

from typing import Any

from ....cel import Program, Value, ast
from ....cel.values import CelError, Unknown
from .evaluate import FALSE, TRUE, Result, Truth
from .formula import LABELS
from .translate import is_late, path_of

_ABSENT = object()


def read_as_selector(program: Program, request: Value, obj: dict[str, Any]) -> Result:
    """The result of a condition of an object, where an absent label differs from every value and an absent field is "".

    Everything other than comparisons of labels and fields is evaluated as CEL.
    """
    try:
        return TRUE if _Reading(program, request, obj).truth(program.ast) else FALSE
    except CelError as problem:
        return Result(Truth.ERROR, problem.message)
    except _OpenError as problem:
        return Result(Truth.OPEN, str(problem))


class _OpenError(Exception):
    """The value is unknown."""


class _Reading:
    def __init__(self, program: Program, request: Value, obj: dict[str, Any]) -> None:
        self._program = program
        self._activation = {"request": request, "object": obj}
        self._object = obj

    def truth(self, node: ast.Expr) -> bool:
        match node:
            case ast.And(terms=terms):
                return self._absorbed(terms, False)
            case ast.Or(terms=terms):
                return self._absorbed(terms, True)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.truth(then if self.truth(condition) else otherwise)
            case ast.Call(function="!_", arguments=(operand,)):
                return not self.truth(operand)
            case ast.Has(operand=operand, field=name):
                path = path_of(ast.Select(node.id, node.offset, operand, name))
                if path is not None:
                    return self._at(path) is not _ABSENT
            case ast.Call(function="_==_" | "_!=_" as function, arguments=(left, right)):
                return self._equal(left, right) is (function == "_==_")
            case ast.Call(function="@in", arguments=(left, right)) if is_late(node):
                return self._among(node, left, right)
            case ast.Call(target=target) if target is not None and self._is_lacking(target):
                return False
            case ast.Call(arguments=arguments) if any(self._is_lacking(_measured(each)) for each in arguments):
                return False
        return self._plain(node)

    def _absorbed(self, terms: tuple[ast.Expr, ...], decisive: bool) -> bool:
        problem: Exception | None = None
        for each in terms:
            try:
                if self.truth(each) is decisive:
                    return decisive
            except (CelError, _OpenError) as found:
                problem = problem or found
        if problem is not None:
            raise problem
        return not decisive

    def _equal(self, left: ast.Expr, right: ast.Expr) -> bool:
        if any(self._is_lacking(_measured(each)) for each in (left, right)):
            return False
        one, other = self._operand(left), self._operand(right)
        if one is _ABSENT or other is _ABSENT:
            return False
        return type(one) is type(other) and one == other

    def _among(self, node: ast.Expr, left: ast.Expr, right: ast.Expr) -> bool:
        if path_of(right) == LABELS:
            return self._operand(left) in (self._at(LABELS) if isinstance(self._at(LABELS), dict) else {})
        if isinstance(right, ast.ListLiteral) and not right.optional:
            return any(self._equal(left, each) for each in right.elements)
        if path_of(left) is None:
            return self._plain(node)
        found = self._value(right)
        return isinstance(found, list) and self._operand(left) in found

    def _operand(self, node: ast.Expr) -> Any:
        path = path_of(node)
        if path is None:
            return self._value(node)
        found = self._at(path)
        return "" if found is _ABSENT and not _is_label(path) else found

    def _is_lacking(self, node: ast.Expr) -> bool:
        """Whether a node is a label that the object lacks."""
        path = path_of(node)
        return path is not None and _is_label(path) and self._at(path) is _ABSENT

    def _at(self, path: tuple[str, ...]) -> Any:
        found: Any = self._object
        for part in path:
            if not isinstance(found, dict) or part not in found:
                return _ABSENT
            found = found[part]
        return found

    def _plain(self, node: ast.Expr) -> bool:
        value = self._value(node)
        if not isinstance(value, bool):
            raise CelError("no such overload")
        return value

    def _value(self, node: ast.Expr) -> Value:
        value = self._program.value_of(node, self._activation)
        if isinstance(value, CelError):
            raise value
        if isinstance(value, Unknown):
            raise _OpenError(str(value))
        return value


def _is_label(path: tuple[str, ...]) -> bool:
    return len(path) == 3 and path[:2] == LABELS


def _measured(node: ast.Expr) -> ast.Expr:
    """What a node measures, for `size(path)` and `path.size()`; else the node."""
    if isinstance(node, ast.Call) and node.function == "size":
        return node.target or (node.arguments[0] if node.arguments else node)
    return node
