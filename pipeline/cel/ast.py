"""The abstract syntax tree of a CEL expression.

Macros stay separate nodes (cel-go expands them into comprehensions), because the code generator and the read-set analysis need
to recognise `all` and `has`. Operators are calls under cel-go's operator names (`_+_`, `_==_`, `@in`, `!_`, `-_`). The exceptions
are the three that do not evaluate all of their operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from .types import Type
from .values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """`id` is unique within one expression; `offset` is the code point that errors about the node name."""

    id: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    value: Value
    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    """`name` keeps a leading dot (`.x` means the root scope)."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`operand.field`, or `operand.?field` when optional."""

    operand: Expr
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Has(Node):
    """`has(operand.field)`"""

    operand: Expr
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """`operand[key]`, or `operand[?key]` when optional."""

    operand: Expr
    key: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """`function(arguments)` or `target.function(arguments)`; the target is not among the arguments."""

    function: str
    target: Expr | None
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class And(Node):
    """`a && b && c`, flattened."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or(Node):
    """`a || b || c`, flattened."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(Node):
    """`[a, ?b]`; `optional` holds the indexes of the elements written with `?`."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    key: Expr
    value: Expr
    optional: bool
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(Node):
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Struct(Node):
    """`google.protobuf.Int32Value{value: 1}`; the keys of the entries are string literals."""

    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Node):
    """`range.macro(variables..., arguments...)`.

    `macro` is `all`, `exists`, `exists_one` (also for its alias existsOne), `map`, `filter`, `transformList`, `transformMap`,
    `transformMapEntry` or `sortBy`; `variables` has one or two names; `arguments` are the expressions over them: for the macros
    that transform, an optional filter comes before the transformation.
    """

    macro: str
    range: Expr
    variables: tuple[str, ...]
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalMap(Node):
    """`target.optMap(variable, body)`; `flat` for optFlatMap."""

    target: Expr
    variable: str
    body: Expr
    flat: bool


Expr: TypeAlias = (
    Literal
    | Ident
    | Select
    | Has
    | Index
    | Call
    | And
    | Or
    | Conditional
    | ListLiteral
    | MapLiteral
    | Struct
    | Comprehension
    | OptionalMap
)


def children(node: Expr) -> Iterator[Expr]:
    """The nodes directly below `node`, in the order of the text."""
    match node:
        case Literal() | Ident():
            return
        case Select(operand=operand) | Has(operand=operand):
            yield operand
        case Index(operand=operand, key=key):
            yield operand
            yield key
        case Call(target=target, arguments=arguments):
            if target is not None:
                yield target
            yield from arguments
        case And(terms=terms) | Or(terms=terms):
            yield from terms
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            yield from (condition, then, otherwise)
        case ListLiteral(elements=elements):
            yield from elements
        case MapLiteral(entries=entries) | Struct(entries=entries):
            for entry in entries:
                yield entry.key
                yield entry.value
        case Comprehension(range=over, arguments=arguments):
            yield over
            yield from arguments
        case OptionalMap(target=target, body=body):
            yield target
            yield body
