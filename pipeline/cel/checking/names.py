"""Resolves the names in an expression: functions, also with dots in their names, dotted variables, and types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .. import ast
from ..errors import CompileError, issue_at
from ..functions import Function
from ..library import OVERLOAD_COSTS
from ..library.costs import Cost
from ..standard import COSTS
from ..types import Type

PRICES: Mapping[str, Cost] = COSTS | OVERLOAD_COSTS


def qualified_name(node: ast.Expr | None) -> str | None:
    """`a.b.c` for a chain of plain selections from a name, None for any other node."""
    fields: list[str] = []
    while isinstance(node, ast.Select) and not node.optional:
        fields.append(node.field)
        node = node.operand
    return ".".join([node.name.lstrip("."), *reversed(fields)]) if isinstance(node, ast.Ident) else None


@dataclass(frozen=True)
class Names:
    """The declarations of one environment. `types` are the names that stand for types unless a variable has the name.

    With `dot_is_root` a leading dot reaches past the variables of macros. `prices` are the costs of calls whose overload the
    checker could resolve, by overload id; they come before the `cost` of the function.
    """

    functions: Mapping[str, Function]
    variables: Collection[str] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    dot_is_root: bool = True
    prices: Mapping[str, Cost] = field(default_factory=lambda: PRICES)

    def local(self, name: str) -> str | None:
        """The name under which macros may have bound an identifier; None if it always means the environment's variable."""
        return None if self.dot_is_root and name.startswith(".") else name.lstrip(".")

    def function(self, node: ast.Call) -> tuple[Function, list[ast.Expr]]:
        """The function of a call and its arguments, receiver first. Raises CompileError if no function has the name."""
        if node.target is None:
            found = self.functions.get(node.function.lstrip("."))
            if found is not None:
                return found, list(node.arguments)
        else:
            prefix = qualified_name(node.target)
            if prefix is not None:
                found = self.functions.get(f"{prefix}.{node.function}")
                if found is not None:
                    return found, list(node.arguments)
            found = self.functions.get(node.function)
            if found is not None:
                return found, [node.target, *node.arguments]
        message = f"undeclared reference to '{node.function}' (in container '')"
        raise CompileError("", [issue_at("", 0, message)])

    def dotted_variable(self, node: ast.Expr) -> str | None:
        """The declared variable with a dotted name that a chain of selections spells."""
        name = qualified_name(node)
        return name if name is not None and "." in name and name in self.variables else None

    def type_named(self, node: ast.Expr, bound: Collection[str] = ()) -> Type | None:
        """The type that has a name, unless a variable or one of the `bound` loop variables has the name."""
        name = qualified_name(node)
        if name is None:
            return None
        root = name.partition(".")[0]
        return None if root in self.variables or root in bound else self.types.get(name)
