"""The messages of the type checker, one method per message, in cel-go's words (cel-go checker/errors.go)."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ast
from ..errors import ISSUES_MAX, CompileError, Issue, issue_at
from ..types import Type
from .unify import shown

# Each level of nesting doubles the repetitions.
REPEATED_MAX = 10 * ISSUES_MAX


class Complaints:
    """The issues found so far in one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.issues: list[Issue] = []

    def raise_any(self) -> None:
        """Raises CompileError if there are any issues."""
        if self.issues:
            raise CompileError(self.text, self.issues)

    def add(self, offset: int, message: str) -> None:
        """A message about a place in the text."""
        self.issues.append(issue_at(self.text, offset, message))

    @property
    def count(self) -> int:
        """The number of issues so far."""
        return len(self.issues)

    def repeat(self, start: int, end: int) -> None:
        """Repeats the issues between two counts, unless there are REPEATED_MAX issues already."""
        if self.count < REPEATED_MAX:
            self.issues += self.issues[start:end]

    def undeclared_reference(self, node: ast.Expr, name: str) -> None:
        self.add(node.offset, f"undeclared reference to '{name}' (in container '')")

    def undefined_field(self, offset: int, name: str) -> None:
        self.add(offset, f"undefined field '{name}'")

    def no_fields_declared(self, offset: int, type_name: str) -> None:
        """The issue of a selection from a message without declared fields, such as a library's value."""
        self.add(offset, f"unexpected failed resolution of '{type_name}'")

    def no_selection(self, node: ast.Expr, type_: Type) -> None:
        self.add(node.offset, f"type '{shown(type_)}' does not support field selection")

    def no_matching_overload(self, node: ast.Expr, name: str, arguments: Sequence[Type], is_member: bool) -> None:
        receiver = f"{shown(arguments[0])}." if is_member else ""
        listed = ", ".join(map(shown, arguments[is_member:]))
        self.add(node.offset, f"found no matching overload for '{name}' applied to '{receiver}({listed})'")

    def type_mismatch(self, node: ast.Expr, wanted: Type, found: Type) -> None:
        self.add(node.offset, f"expected type '{shown(wanted)}' but found '{shown(found)}'")

    def field_type_mismatch(self, offset: int, name: str, wanted: Type, found: Type) -> None:
        self.add(offset, f"expected type of field '{name}' is '{shown(wanted)}' but provided type is '{shown(found)}'")

    def no_range(self, offset: int, type_: Type) -> None:
        message = f"expression of type '{shown(type_)}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self.add(offset, message)

    def not_a_message(self, node: ast.Expr, type_: Type) -> None:
        self.add(node.offset, f"'{type_}' is not a message type")
