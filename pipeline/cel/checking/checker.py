"""The typing rules: the type of every kind of node, and the issues of a node (cel-go checker/checker.go).

cel-go checks expressions after it has expanded macros. Here macros are nodes, and each gets the types of its expansion, in
`macro_types.py`. Messages point to the places that the expansion has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .. import ast
from ..types import BOOL, DYN, ERROR, Type, list_of, map_of, optional_of
from .complaints import Complaints
from .macro_types import comprehension, optional_map
from .names import qualified_name
from .scope import CONDITIONAL, INDEX, OPTIONAL_INDEX, Scope, is_message, message_of
from .unify import OPTIONAL, Bindings, is_dyn, is_loose, is_same, more_general


class Checker:
    """One pass over one expression."""

    def __init__(self, scope: Scope, text: str) -> None:
        self.scope = scope
        self.complaints = Complaints(text)
        self.bindings = Bindings()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.locals: dict[str, Type] = {}

    def check(self, node: ast.Expr) -> Type:
        """The type of a node; ERROR if the node has an issue."""
        type_: Type = _RULES[node.__class__](self, node)
        self.types[node.id] = type_
        return type_

    @contextmanager
    def declared(self, variables: Mapping[str, Type]) -> Iterator[None]:
        """Declares the variables of a macro while its body is checked."""
        outer = self.locals
        self.locals = {**outer, **variables}
        try:
            yield
        finally:
            self.locals = outer

    # -- names

    def literal(self, node: ast.Literal) -> Type:
        return node.type

    def ident(self, node: ast.Ident) -> Type:
        name = node.name.removeprefix(".")
        found = self.locals.get(node.name if self.scope.dot_is_root else name) or self.scope.type_of(name)
        if found is None:
            self.complaints.undeclared_reference(node, node.name)
            return ERROR
        return found

    def select(self, node: ast.Select) -> Type:
        dotted = self._dotted(node)
        if dotted is not None:
            return dotted
        if node.optional:
            self.overloads[node.id] = ("select_optional_field",)
        return self.bindings.resolve(self.field(node, node.operand, node.field, node.optional))

    def _dotted(self, node: ast.Select) -> Type | None:
        """The type of the one name that `a.b.c` spells, unless a macro has a variable named `a`."""
        name = qualified_name(node)
        if name is None:
            return None
        root: ast.Expr = node
        while isinstance(root, ast.Select):
            root = root.operand
        hidden = self.scope.dot_is_root and isinstance(root, ast.Ident) and root.name in self.locals
        return None if hidden else self.scope.type_of(name)

    def has(self, node: ast.Has) -> Type:
        self.field(node, node.operand, node.field, False)
        return BOOL

    def field(self, node: ast.Expr, operand: ast.Expr, name: str, optional: bool) -> Type:
        """The type of `operand.name`. A selection from an optional is optional."""
        target = self.bindings.resolve(self.check(operand))
        result = ERROR
        is_optional = target.name == OPTIONAL
        if is_optional:
            target = target.parameters[0]
        if target.is_parameter:
            # Binds the operand to dyn, so that no other type can be assigned to it.
            self.bindings.assignable(DYN, target)
            result = DYN
        elif target.name == "map":
            result = target.parameters[1]
        elif is_loose(target):
            result = DYN
        elif is_message(target, self.scope):
            result = self.declared_field(node.offset, target.name, name)
        else:
            self.complaints.no_selection(node, target)
            result = DYN
        return optional_of(result) if is_optional or optional else result

    def declared_field(self, offset: int, type_name: str, name: str) -> Type:
        """The type of a field of a message. Values of libraries are messages without declared fields."""
        if not self.scope.is_declared(type_name):
            self.complaints.no_fields_declared(offset, type_name)
            return ERROR
        found = self.scope.field(type_name, name)
        if found is None:
            self.complaints.undefined_field(offset, name)
            return ERROR
        return found

    # -- calls

    def index(self, node: ast.Index) -> Type:
        types = [self.check(node.operand), self.check(node.key)]
        return self.apply(node, OPTIONAL_INDEX if node.optional else INDEX, types)

    def conditional(self, node: ast.Conditional) -> Type:
        types = [self.check(part) for part in (node.condition, node.then, node.otherwise)]
        return self.apply(node, CONDITIONAL, types)

    def logic(self, node: ast.And | ast.Or) -> Type:
        return self.all_bool(node.terms, [self.check(term) for term in node.terms])

    def all_bool(self, nodes: Sequence[ast.Expr], types: Sequence[Type]) -> Type:
        """The type of `&&` or `||` over terms of these types."""
        result = BOOL
        for node, type_ in zip(nodes, types, strict=True):
            if not self.bindings.assignable(type_, BOOL):
                self.complaints.type_mismatch(node, BOOL, type_)
                result = ERROR
        return result

    def call(self, node: ast.Call) -> Type:
        types = [self.check(argument) for argument in node.arguments]
        if node.target is None:
            name = node.function.removeprefix(".")
            if self.scope.overloads(name) is None:
                self.complaints.undeclared_reference(node, node.function)
                return ERROR
            return self.apply(node, name, types)
        prefix = qualified_name(node.target)
        if prefix is not None and self.scope.overloads(f"{prefix}.{node.function}") is not None:
            return self.apply(node, f"{prefix}.{node.function}", types)
        types.insert(0, self.check(node.target))
        if self.scope.overloads(node.function) is None:
            self.complaints.undeclared_reference(node, node.function)
            return ERROR
        return self.apply(node, node.function, types, is_member=True)

    def apply(self, node: ast.Expr, name: str, types: Sequence[Type], is_member: bool = False, note: bool = True) -> Type:
        """The type of a call with arguments of these types: that of all overloads that fit, or dyn where they differ.

        With `note` the overloads are kept for the node; the expansion of a macro calls several functions.
        """
        result: Type | None = None
        fitting: list[str] = []
        for overload in self.scope.overloads(name) or ():
            if overload.member is not is_member:
                continue
            returned, *wanted = self.bindings.instance((overload.result, *overload.arguments))
            if not self.bindings.all_assignable(types, wanted):
                continue
            fitting.append(overload.id)
            found = self.bindings.resolve(returned)
            if result is None:
                result = found
            elif not is_dyn(result) and not is_same(found, result):
                result = DYN
        if result is None:
            self.complaints.no_matching_overload(node, name, [self.bindings.resolve(type_, DYN) for type_ in types], is_member)
            return ERROR
        if note:
            self.overloads[node.id] = tuple(fitting)
        return result

    # -- aggregates

    def join(self, before: Type | None, type_: Type) -> Type:
        """The type of the elements of one literal after one more element. Validators reject mixed types later, if at all."""
        if before is None:
            return type_
        return more_general(before, type_) if self.bindings.assignable(before, type_) else DYN

    def _entry_type(self, node: ast.Expr, optional: bool) -> Type:
        """The type that an element contributes: for `?element` the type inside the optional."""
        type_ = self.check(node)
        if not optional:
            return type_
        if type_.name == OPTIONAL:
            return type_.parameters[0]
        if not is_dyn(type_):
            self.complaints.type_mismatch(node, optional_of(type_), type_)
        return type_

    def list_literal(self, node: ast.ListLiteral) -> Type:
        element: Type | None = None
        for position, each in enumerate(node.elements):
            element = self.join(element, self._entry_type(each, position in node.optional))
        return list_of(self.bindings.fresh() if element is None else element)

    def map_literal(self, node: ast.MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self.join(key, self.check(entry.key))
            value = self.join(value, self._entry_type(entry.value, entry.optional))
        if key is None or value is None:
            return map_of(self.bindings.fresh(), self.bindings.fresh())
        return map_of(key, value)

    def struct(self, node: ast.Struct) -> Type:
        name = node.name.removeprefix(".")
        result = self.scope.named(name)
        if result is None:
            self.complaints.undeclared_reference(node, node.name)
            return ERROR
        message = name if self.scope.is_declared(name) else message_of(result)
        if message is None:
            self.complaints.not_a_message(node, result)
            result = ERROR
        for entry in node.entries:
            found = self._entry_type(entry.value, entry.optional)
            field = str(entry.key.value) if isinstance(entry.key, ast.Literal) else ""
            wanted = self.declared_field(entry.offset, message or name, field)
            if not self.bindings.assignable(wanted, found):
                self.complaints.field_type_mismatch(entry.offset, field, wanted, found)
        return result


_RULES: dict[type, Callable[[Checker, Any], Type]] = {
    ast.Literal: Checker.literal,
    ast.Ident: Checker.ident,
    ast.Select: Checker.select,
    ast.Has: Checker.has,
    ast.Index: Checker.index,
    ast.Call: Checker.call,
    ast.And: Checker.logic,
    ast.Or: Checker.logic,
    ast.Conditional: Checker.conditional,
    ast.ListLiteral: Checker.list_literal,
    ast.MapLiteral: Checker.map_literal,
    ast.Struct: Checker.struct,
    ast.Comprehension: comprehension,
    ast.OptionalMap: optional_map,
}
