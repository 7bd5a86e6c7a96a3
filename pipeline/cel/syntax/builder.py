"""Makes the nodes of a syntax tree.

The parser reports every rule it completes to a builder, innermost first, so that nesting uses no Python stack. Macros are
recognised where cel-go expands them, with cel-go's errors (cel-go parser/{parser,macro}.go, ext/comprehensions.go, cel/library.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import lark

from .. import ast
from ..ast import Expr
from ..errors import RECURSION_MAX
from ..types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT
from . import literals

Made = TypeVar("Made")

RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    )
)
_ACCUMULATORS = ("@result", "__result__")


class TooDeepError(Exception):
    """Nesting beyond cel-go's limit."""


class Builder:
    """Makes a node of every completed rule. Its methods have the names of the grammar's rules."""

    def begin(self, macros: frozenset[str], quoted_identifiers: bool) -> None:
        self.macros = macros
        self.quoted_identifiers = quoted_identifiers
        self.problems: list[tuple[int, str]] = []
        self.count = 0
        # Open chains of && and ||, and signs, outside parentheses: further operators of the same kind join them.
        self.open_chains: set[int] = set()
        # Per node: the depth of nested `expr` rules and of nested operations, each limited by cel-go.
        self.depths: dict[int, tuple[int, int]] = {}

    # -- nodes

    def made(self, make: Callable[..., Made], at: int, *parts: Any, below: Iterable[Expr] = (), deeper: int = 0) -> Made:
        """A node with a new id, one operation deeper than the nodes below it where `deeper` is 1."""
        self.count += 1
        node = make(self.count, at, *parts)
        rules = operations = 0
        for child in below:
            child_rules, child_operations = self.depths.get(child.id, (0, 0))
            rules, operations = max(rules, child_rules), max(operations, child_operations)
        operations += deeper
        if operations > RECURSION_MAX:
            raise TooDeepError("max recursion depth exceeded")
        if rules or operations:
            self.depths[self.count] = (rules, operations)
        return node

    def fail(self, at: int, message: str) -> Expr:
        """Notes a problem and returns a placeholder node, so that later problems are found too."""
        self.problems.append((at, message))
        return self.made(ast.Literal, at, None, NULL)

    def _pass(self, children: list[Any]) -> Any:
        return children[0]

    member = primary = _pass

    def _token(self, children: list[Any]) -> Any:
        return children[-1]

    unary_not = unary_neg = _token

    # -- operators

    def expr(self, children: list[Any]) -> Expr:
        node: Expr = children[0]
        if len(children) > 1:
            node = self.made(
                ast.Conditional, _at(children[1]), node, children[2], children[4], below=(node, children[2], children[4]), deeper=1
            )
        rules, operations = self.depths.get(node.id, (0, 0))
        if rules >= RECURSION_MAX:
            raise TooDeepError(f"expression recursion limit exceeded: {RECURSION_MAX}")
        self.depths[node.id] = (rules + 1, operations)
        return node

    def _chain(self, kind: type[ast.And] | type[ast.Or], children: list[Any]) -> Expr:
        first: Expr = children[0]
        if len(children) == 1:
            return first
        left, operator, right = children
        terms = (*left.terms, right) if isinstance(left, kind) and left.id in self.open_chains else (left, right)
        at = left.offset if len(terms) > 2 else _at(operator)
        make: Callable[..., ast.And | ast.Or] = kind
        node = self.made(make, at, terms, below=(left, right))
        self.open_chains.add(node.id)
        return node

    def conditionalor(self, children: list[Any]) -> Expr:
        return self._chain(ast.Or, children)

    def conditionaland(self, children: list[Any]) -> Expr:
        return self._chain(ast.And, children)

    def _binary(self, children: list[Any]) -> Expr:
        first: Expr = children[0]
        if len(children) == 1:
            return first
        (left, operator), right = children
        name = "@in" if operator == "in" else f"_{operator}_"
        return self.made(ast.Call, _at(operator), name, None, (left, right), below=(left, right), deeper=1)

    relation = addition = multiplication = _binary

    def _operand(self, children: list[Any]) -> Any:
        return children

    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = _operand
    addition_add = addition_sub = multiplication_mul = multiplication_div = multiplication_mod = _operand

    def unary(self, children: list[Any]) -> Expr:
        first: Expr = children[0]
        if len(children) == 1:
            return first
        sign, operand = children
        name = "!_" if sign == "!" else "-_"
        if operand.id in self.open_chains and isinstance(operand, ast.Call) and operand.function == name:
            return operand.arguments[0]  # An even number of signs cancels out (cel-go VisitLogicalNot, VisitNegate).
        if name == "-_" and isinstance(operand, ast.Literal) and operand.id in self.open_chains and operand.type in (INT, DOUBLE):
            # `- 1` is a literal like `-1`, and `--1` becomes 1.
            literal = self.made(ast.Literal, _at(sign), -operand.value, operand.type)
            self.open_chains.add(literal.id)
            return literal
        node = self.made(ast.Call, _at(sign), name, None, (operand,), below=(operand,))
        self.open_chains.add(node.id)
        return node

    negated = negative = unary

    def paren_expr(self, children: list[Any]) -> Expr:
        self.open_chains.discard(children[1].id)
        inner: Expr = children[1]
        return inner

    # -- names, fields and indexes

    def ident(self, children: list[Any]) -> Expr:
        if children[0] in RESERVED:
            return self.fail(_at(children[0]), f"reserved identifier: {children[0]}")
        return self.made(ast.Ident, _at(children[0]), str(children[0]))

    def dot_ident(self, children: list[Any]) -> Expr:
        if children[1] in RESERVED:
            return self.fail(_at(children[0]), f"reserved identifier: {children[1]}")
        return self.made(ast.Ident, _at(children[1]), f".{children[1]}")

    def _name(self, token: lark.Token) -> str:
        """A field's name, which may be quoted in backquotes from the cel-go of Kubernetes 1.37 on."""
        if token.type != "QUOTED_IDENT":
            return str(token)
        if not self.quoted_identifiers:
            self.problems.append((_at(token), "unsupported syntax: '`'"))
        return str(token)[1:-1]

    def _select(self, children: list[Any], optional: bool) -> Expr:
        operand, dot, name = children
        return self.made(ast.Select, _at(dot), operand, self._name(name), optional, below=(operand,), deeper=1)

    def member_dot(self, children: list[Any]) -> Expr:
        return self._select(children, False)

    def member_optional_dot(self, children: list[Any]) -> Expr:
        return self._select(children, True)

    def _index(self, children: list[Any], optional: bool) -> Expr:
        operand, bracket, key = children[:3]
        return self.made(ast.Index, _at(bracket), operand, key, optional, below=(operand, key), deeper=1)

    def member_index(self, children: list[Any]) -> Expr:
        return self._index(children, False)

    def member_optional_index(self, children: list[Any]) -> Expr:
        return self._index(children, True)

    # -- calls

    def exprlist(self, children: list[Any]) -> list[Expr]:
        return children[::2]

    def ident_arg(self, children: list[Any]) -> Expr:
        return self._call(children[0], str(children[0]), None, children[1:])

    def dot_ident_arg(self, children: list[Any]) -> Expr:
        return self._call(children[0], f".{children[1]}", None, children[2:])

    def member_dot_arg(self, children: list[Any]) -> Expr:
        return self._call(children[2], str(children[2]), children[0], children[3:])

    def _call(self, start: lark.Token, name: str, target: Expr | None, rest: list[Any]) -> Expr:
        at = _at(rest[0])
        arguments: tuple[Expr, ...] = tuple(rest[1]) if len(rest) == 3 else ()
        if target is None and name.lstrip(".") in RESERVED:
            return self.fail(_at(start), f"reserved identifier: {name.lstrip('.')}")
        if f"{name}:{len(arguments)}:{'false' if target is None else 'true'}" in self.macros:
            return self._macro(at, name, target, arguments)
        below = arguments if target is None else (target, *arguments)
        return self.made(ast.Call, at, name, target, arguments, below=below, deeper=0 if target is None else 1)

    def _macro(self, at: int, name: str, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
        first = arguments[0]
        if target is None:
            if not isinstance(first, ast.Select) or first.optional:
                return self.fail(first.offset, "invalid argument to has() macro")
            return self.made(ast.Has, at, first.operand, first.field, below=(first,))
        if name in ("optMap", "optFlatMap"):
            if not isinstance(first, ast.Ident):
                return self.fail(first.offset, f"{name}() variable name must be a simple identifier")
            flat = name == "optFlatMap"
            return self.made(ast.OptionalMap, at, target, first.name, arguments[1], flat, below=(target, arguments[1]), deeper=1)
        return self._comprehension(at, name, target, arguments)

    def _comprehension(self, at: int, name: str, over: Expr, arguments: tuple[Expr, ...]) -> Expr:
        """A macro over a range. With two variables it has one more argument than with one, or is one of the transforms."""
        two = name.startswith("transform") or (len(arguments) == 3 and name != "map")
        simple = two or name in ("all", "exists", "exists_one", "existsOne")
        variables: list[str] = []
        for argument in arguments[: 1 + two]:
            if not isinstance(argument, ast.Ident) or argument.name.startswith("."):
                return self.fail(argument.offset, "argument must be a simple name" if simple else "argument is not an identifier")
            if argument.name in _ACCUMULATORS:
                return self.fail(argument.offset, "iteration variable overwrites accumulator variable")
            variables.append(argument.name)
        if two and variables[0] == variables[1]:
            return self.fail(arguments[1].offset, f"duplicate variable name: {variables[1]}")
        sortable = (ast.ListLiteral, ast.Ident, ast.Comprehension, ast.Call, ast.Select)
        if name == "sortBy" and not isinstance(over, sortable):
            message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
            return self.fail(over.offset, message)
        kind = "exists_one" if name == "existsOne" else name
        return self.made(
            ast.Comprehension, at, kind, over, tuple(variables), arguments[1 + two :], below=(over, *arguments), deeper=1
        )

    # -- literals

    def literal(self, children: list[Any]) -> Expr:
        token = children[0]
        at, text = _at(token), str(token)
        make, type_ = _LITERALS[token.type]
        try:
            node = self.made(ast.Literal, at, make(text), type_)
        except literals.LiteralError as problem:
            return self.fail(at, str(problem))
        self.open_chains.add(node.id)
        return node

    number = literal

    def element(self, children: list[Any]) -> tuple[Expr, bool]:
        return children[-1], len(children) == 2

    def list_lit(self, children: list[Any]) -> Expr:
        parts = [part for part in children if not isinstance(part, lark.Token)]
        elements = [part if isinstance(part, tuple) else (part, True) for part in parts]
        optional = frozenset(index for index, (_, is_optional) in enumerate(elements) if is_optional)
        nodes = tuple(node for node, _ in elements)
        return self.made(ast.ListLiteral, _at(children[0]), nodes, optional, below=nodes)

    def map_entry(self, children: list[Any]) -> ast.Entry:
        key, colon, value = children[-3:]
        return ast.Entry(key, value, len(children) == 4, _at(colon))

    def field_entry(self, children: list[Any]) -> ast.Entry:
        name, colon, value = children[-3:]
        key = self.made(ast.Literal, _at(name), self._name(name), STRING)
        return ast.Entry(key, value, len(children) == 4, _at(colon))

    def _entries(self, children: list[Any]) -> list[ast.Entry]:
        return children[::2]

    mapinits = fieldinits = _entries

    def map_lit(self, children: list[Any]) -> Expr:
        entries = tuple(children[1]) if len(children) == 3 and isinstance(children[1], list) else ()
        below = [node for entry in entries for node in (entry.key, entry.value)]
        return self.made(ast.MapLiteral, _at(children[0]), entries, below=below)

    def member_object(self, children: list[Any]) -> Expr:
        name = _qualified_name(children[0])
        if name is None:
            return self.fail(_at(children[1]), "Syntax error: extraneous input '{' expecting <EOF>")
        entries = tuple(children[2]) if isinstance(children[2], list) else ()
        return self.made(ast.Struct, _at(children[1]), name, entries, below=[entry.value for entry in entries])


def _at(token: lark.Token) -> int:
    return token.start_pos or 0


def _qualified_name(node: Expr) -> str | None:
    """`a.b.c` for a chain of selections, None for any other node."""
    names: list[str] = []
    while isinstance(node, ast.Select) and not node.optional:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, ast.Ident) else None


_LITERALS: dict[str, tuple[Callable[[str], Any], Any]] = {
    "INT_LIT": (literals.integer, INT),
    "UINT_LIT": (literals.unsigned, UINT),
    "FLOAT_LIT": (literals.double, DOUBLE),
    "STRING_LIT": (literals.string, STRING),
    "MLSTRING_LIT": (literals.string, STRING),
    "BYTES_LIT": (literals.byte_string, BYTES),
    "BOOL_LIT": (lambda text: text == "true", BOOL),
    "NULL_LIT": (lambda text: None, NULL),
}
