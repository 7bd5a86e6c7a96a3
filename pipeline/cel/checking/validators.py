"""Rejects well-typed expressions that kube-apiserver rejects: bad literals, and aggregates of mixed types.

These run over a well-typed expression, all of them, in this order (kubernetes/apiserver pkg/cel/environment/base.go; cel-go
cel/validator.go, ext/formatting.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .. import ast
from ..evaluation import conversions
from ..evaluation.patterns import compiled
from ..library.formatting import parse_clause
from ..types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT, Type
from ..values import CelError, Value
from .complaints import Complaints
from .unify import OPTIONAL, is_equivalent, unwrapped


@dataclass(frozen=True)
class _Facts:
    """The results of type checking, by node id."""

    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]


def validate(tree: ast.Expr, types: Mapping[int, Type], overloads: Mapping[int, tuple[str, ...]], text: str) -> None:
    """Raises CompileError if the expression has a literal that can only fail, or a literal of mixed types.

    `types` and `overloads` are those of its nodes, by id.
    """
    checked = _Facts(types, overloads)
    complaints = Complaints(text)
    nodes = list(_walk(tree))
    for validator in _VALIDATORS:
        for node, in_format in nodes:
            if not (in_format and validator is _same_types):
                validator(node, checked, complaints)
    complaints.raise_any()


def _walk(tree: ast.Expr) -> Iterator[tuple[ast.Expr, bool]]:
    """Every node in the order of the text, and whether it is part of a call of `format`, whose lists may be mixed."""
    pending = [(tree, False)]
    while pending:
        node, in_format = pending.pop()
        yield node, in_format
        inside = in_format or (isinstance(node, ast.Call) and node.function == "format")
        pending.extend((each, inside) for each in reversed(list(ast.children(node))))


def _literal_argument(function: str, test: Callable[[Value], object]) -> Callable[[ast.Expr, _Facts, Complaints], None]:
    """Complains if the first argument of a function is a literal for which `test` raises CelError.

    The first argument is also tested in a global call: for `matches(text, pattern)` that is the text.
    """

    def validator(node: ast.Expr, checked: _Facts, complaints: Complaints) -> None:
        if not isinstance(node, ast.Call) or node.function.removeprefix(".") != function or not node.arguments:
            return
        argument = node.arguments[0]
        if isinstance(argument, ast.Literal):
            try:
                test(argument.value)
            except CelError:
                complaints.add(argument.offset, f"invalid {function} argument")

    return validator


def _same_types(node: ast.Expr, checked: _Facts, complaints: Complaints) -> None:
    """Elements of a literal must be of one type; dyn counts as a separate type here."""
    match node:
        case ast.ListLiteral(elements=elements, optional=optional):
            _agree([(each, _held(checked.types[each.id], at in optional)) for at, each in enumerate(elements)], complaints, 1)
        case ast.MapLiteral(entries=entries):
            keys = [(entry.key, checked.types[entry.key.id]) for entry in entries]
            values = [(entry.value, _held(checked.types[entry.value.id], entry.optional)) for entry in entries]
            _agree(keys, complaints)
            _agree(values, complaints)


def _agree(found: list[tuple[ast.Expr, Type]], complaints: Complaints, limit: int | None = None) -> None:
    """Complains about types that differ from the first; a list ends at its first complaint, a map does not."""
    different = [(node, type_) for node, type_ in found[1:] if not is_equivalent(found[0][1], type_)]
    for node, type_ in different[:limit]:
        complaints.type_mismatch(node, found[0][1], type_)


def _held(type_: Type, optional: bool) -> Type:
    return type_.parameters[0] if optional and type_.name == OPTIONAL else type_


def _format_call(node: ast.Expr, checked: _Facts, complaints: Complaints) -> None:
    """`'literal'.format([...])`: every clause needs an argument of a type it can print, and every argument a clause."""
    match node:
        case ast.Call(
            function="format", target=ast.Literal(value=str() as text), arguments=(ast.ListLiteral(elements=arguments),)
        ) if "string_format" in checked.overloads.get(node.id, ("string_format",)):
            used = _clauses(node, text, arguments, checked, complaints)
            if used is not None and len(arguments) > used:
                message = f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
                complaints.add(node.offset, message)


def _clauses(node: ast.Expr, text: str, arguments: tuple[ast.Expr, ...], checked: _Facts, complaints: Complaints) -> int | None:
    """How many arguments the format uses; None after a complaint."""
    used = position = 0
    while (percent := text.find("%", position)) >= 0:
        if text.startswith("%%", percent):
            position = percent + 2
            continue
        if percent + 1 < len(text) and used >= len(arguments):
            complaints.add(node.offset, f"index {used} out of range")
            return None
        try:
            clause = parse_clause(text, percent)
        except CelError as problem:
            complaints.add(node.offset, problem.message)
            return None
        argument = arguments[used]
        printed, refusal = _PRINTABLE[clause.verb]
        wrong = _first_unprintable(argument, checked) if clause.verb == "s" else _unless(argument, checked, printed)
        if wrong is not None:
            complaints.add(wrong.offset, f"error during formatting: {refusal}, was given {_runtime_name(checked.types[wrong.id])}")
            return None
        position, used = clause.end, used + 1
    return used


def _unless(node: ast.Expr, checked: _Facts, kinds: frozenset[str]) -> ast.Expr | None:
    """The node, unless its type is dyn or one of these kinds; then None."""
    type_ = unwrapped(checked.types[node.id])
    return None if type_ == DYN or type_.name in kinds else node


def _first_unprintable(node: ast.Expr, checked: _Facts) -> ast.Expr | None:
    """The first value that `%s` cannot print, also in nested literals."""
    if _unless(node, checked, _TEXTUAL) is not None:
        return node
    inner = ast.children(node) if isinstance(node, ast.ListLiteral | ast.MapLiteral) else ()
    return next((wrong for each in inner if (wrong := _first_unprintable(each, checked)) is not None), None)


def _runtime_name(type_: Type) -> str:
    return unwrapped(type_).name


_TEXTUAL = frozenset(kind.name for kind in (INT, UINT, DOUBLE, BOOL, STRING, TIMESTAMP, BYTES, DURATION, NULL)) | {
    "list",
    "map",
    "type",
}
_NUMBERS, _DOUBLES = frozenset((INT.name, UINT.name)), frozenset((DOUBLE.name, STRING.name))
_HEX = (_NUMBERS | {STRING.name, BYTES.name}, "only integers, byte buffers, and strings can be formatted as hex")
_PRINTABLE: dict[str, tuple[frozenset[str], str]] = {
    "s": (
        _TEXTUAL,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    ),
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    "f": (_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": (_DOUBLES, "scientific clause can only be used on doubles"),
    "b": (_NUMBERS | {BOOL.name}, "only integers and bools can be formatted as binary"),
    "x": _HEX,
    "X": _HEX,
    "o": (_NUMBERS, "octal clause can only be used on integers"),
}
_VALIDATORS = (
    _same_types,
    _literal_argument("duration", conversions.to_duration),
    _literal_argument("timestamp", conversions.to_timestamp),
    _literal_argument("matches", compiled),
    _format_call,
)
