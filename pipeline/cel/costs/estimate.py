"""Estimates the cost of an expression before it is evaluated: cel-go checker/cost.go over the types and sizes of its variables.

An API server rejects rules of custom resources by this estimate. It follows upstream and is not a bound (`bounds.py` has one). It
does not know that constants are folded or that a loop may end early, so its minimum may exceed an actual cost. Where upstream is
wrong about a size, its maximum may be too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from .. import ast
from ..checking.check import Checked
from ..checking.names import qualified_name
from ..checking.schema_types import SchemaType
from ..checking.scope import INDEX, OPTIONAL_INDEX, Scope, is_message
from ..library.costs import LIST_BASE, STRUCT_BASE
from ..stack import on_fresh_stack
from ..types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type
from .estimate_calls import Argument, estimate_call
from .ranges import NOWHERE, ONE, UNKNOWN, ZERO, Range, exactly

Path: TypeAlias = tuple[str, ...]
# The size of the value of this type at a path, such as ("self", "spec", "names", "@items"); None if the size is not known.
SizeHints: TypeAlias = Callable[[Path, Type], Range | None]

MAP_BASE = 30
_OF_SIZE_ONE = frozenset(kind.name for kind in (BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT))


def estimate(tree: ast.Expr, checked: Checked, scope: Scope, sizes: SizeHints = lambda path, type_: None) -> Range:
    """The estimated minimum and maximum cost of an evaluation of a checked expression."""
    return on_fresh_stack(lambda: _Estimator(checked, scope, sizes).part(tree).cost)


def schema_sizes(roots: Mapping[str, SchemaType]) -> SizeHints:
    """Sizes from the schemas of variables, which the estimates for rules of custom resources use.

    Upstream gives scalars and keys of maps the size 0 (apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go).
    """

    def size(path: Path, type_: Type) -> Range | None:
        found = roots.get(path[0]) if path else None
        for name in path[1:]:
            if found is None:
                return None
            if name == "@keys":
                return ZERO if found.type.name == "map" else None
            found = found.element if name in ("@items", "@values") else found.fields.get(name)
        return None if found is None else Range(0, found.elements_max or 0)

    return size


@dataclass(frozen=True)
class _Entries:
    """The sizes of the contents of a list or map. `is_list` decides the size of its keys."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries | None) -> _Entries | None:
        """The sizes of contents that may come from one or the other, None if one of them is not known."""
        return None if other is None else _Entries(self.is_list, self.key | other.key, self.value | other.value)


@dataclass(frozen=True)
class _Part:
    """The facts known of a node: its cost, and the path or the size of its value."""

    node: ast.Expr
    cost: Range
    type: Type
    path: Path = ()
    size: Range | None = None
    entries: _Entries | None = None

    @property
    def size_or_unknown(self) -> Range:
        return UNKNOWN if self.size is None else self.size


class _Estimator:
    """One pass over one expression."""

    def __init__(self, checked: Checked, scope: Scope, sizes: SizeHints) -> None:
        self.checked = checked
        self.scope = scope
        self.sizes = sizes
        self.locals: dict[str, _Part] = {}

    def part(self, node: ast.Expr) -> _Part:
        """The estimate of a node."""
        match node:
            case ast.Literal():
                return self.made(node, ZERO, size=_literal_size(node))
            case ast.Ident(name=name):
                return self.ident(node, name)
            case ast.Select():
                return self.select(node)
            case ast.Has(operand=operand):
                return self.made(node, self.part(operand).cost)
            case ast.Index(operand=operand, key=key):
                return self.index(node, self.part(operand), self.part(key))
            case ast.Call():
                return self.call(node)
            case ast.And(terms=terms) | ast.Or(terms=terms):
                parts = [self.part(term) for term in terms]
                return self.made(node, Range(parts[0].cost.min, _total(parts).max))
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.choice(node, self.part(condition).cost, self.part(then), self.part(otherwise))
            case ast.ListLiteral(elements=elements):
                return self.list_of(node, [self.part(element) for element in elements])
            case ast.MapLiteral():
                return self.map_literal(node)
            case ast.Struct(entries=entries):
                return self.made(node, exactly(STRUCT_BASE) + _total([self.part(entry.value) for entry in entries]))
            case ast.Comprehension():
                return self.sort_by(node) if node.macro == "sortBy" else self.loop(node, self.part(node.range))
            case ast.OptionalMap():
                return self.optional_map(node)

    # -- results for any node

    def made(
        self, node: ast.Expr, cost: Range, path: Path = (), size: Range | None = None, entries: _Entries | None = None
    ) -> _Part:
        """A part whose size, unless given, is that of the data at its path or of its type."""
        type_ = self.checked.types.get(node.id, DYN)
        if size is None:
            size = self.sizes(path, type_)
        if size is None and _is_of_size_one(type_):
            size = ONE
        return _Part(node, cost, type_, path, size, entries)

    def ident(self, node: ast.Ident, name: str) -> _Part:
        local = self.locals.get(name)
        if local is None:
            return self.made(node, ONE, (name.removeprefix("."),))
        found = self.made(node, ONE, local.path, entries=local.entries)
        return replace(found, size=local.size) if found.size is None else found

    def select(self, node: ast.Select) -> _Part:
        dotted = qualified_name(node)
        if dotted is not None and dotted.partition(".")[0] not in self.locals and dotted in self.scope.variables:
            return self.made(node, ONE, (dotted,))
        operand = self.part(node.operand)
        if node.optional:
            return self.made(node, operand.cost + ONE)
        # Selections from dyn are not charged.
        is_charged = operand.type.name == "map" or is_message(operand.type, self.scope)
        return self.made(node, operand.cost + ONE if is_charged else operand.cost, (*operand.path, node.field))

    # -- calls

    def argument(self, part: _Part) -> Argument:
        """A part in the form that estimates of calls read."""
        parameters = part.type.parameters
        hint = self.sizes((*part.path, "@items") if part.path else (), parameters[0]) if parameters else None
        return Argument(part.type, part.size, UNKNOWN if hint is None else hint, part.node)

    def apply(self, node: ast.Expr, function: str, overloads: Sequence[str], parts: Sequence[_Part]) -> tuple[Range, Range | None]:
        """The cost of a call without its arguments, and the size of its result, over all possible overloads."""
        arguments = [self.argument(part) for part in parts]
        cost, size = NOWHERE, None
        for overload in overloads:
            found, result = estimate_call(function, overload, arguments)
            cost |= found
            if result is not None:
                size = result if size is None else size | result
            if size is None:
                size = self.made(node, ZERO).size
        return (cost if overloads else ZERO), size

    def call(self, node: ast.Call) -> _Part:
        overloads = self.checked.overloads.get(node.id, ())
        prefix = qualified_name(node.target)
        dotted = f"{prefix}.{node.function}"
        if node.target is None:
            function, operands = node.function.removeprefix("."), list(node.arguments)
        elif prefix is not None and self.scope.overloads(dotted) is not None:
            function, operands = dotted, list(node.arguments)
        else:
            function, operands = node.function, [node.target, *node.arguments]
        parts = [self.part(operand) for operand in operands]
        if function == "dyn":
            return self.made(node, ONE + parts[0].cost, size=parts[0].size, entries=parts[0].entries)
        cost, size = self.apply(node, function, overloads, parts)
        joined = None
        if function == "_+_" and parts[0].entries is not None:
            joined = parts[0].entries.union(parts[1].entries)
        return self.made(node, cost + _total(parts), size=size, entries=joined)

    def index(self, node: ast.Index, operand: _Part, key: _Part) -> _Part:
        overloads = self.checked.overloads.get(node.id, ())
        cost, _ = self.apply(node, OPTIONAL_INDEX if node.optional else INDEX, overloads, (operand, key))
        path = operand.path
        for overload, step in (("index_list", "@items"), ("index_map", "@values")):
            if overload in overloads:
                path = (*operand.path, step)
        size = operand.entries.value if operand.entries and not node.optional else None
        return self.made(node, cost + operand.cost + key.cost, () if node.optional else path, size)

    def choice(self, node: ast.Expr, condition: Range, then: _Part, otherwise: _Part) -> _Part:
        """One of two parts, plus the condition."""
        entries = then.entries.union(otherwise.entries) if then.entries else None
        size = then.size_or_unknown | otherwise.size_or_unknown
        return self.made(node, condition + (then.cost | otherwise.cost), size=size, entries=entries)

    # -- aggregates

    def list_of(self, node: ast.Expr, parts: Sequence[_Part]) -> _Part:
        """A list literal of these elements."""
        value = _union(parts)
        return self.made(node, exactly(LIST_BASE) + _total(parts), size=exactly(len(parts)), entries=_Entries(True, ONE, value))

    def map_literal(self, node: ast.MapLiteral) -> _Part:
        keys = [self.part(entry.key) for entry in node.entries]
        values = [self.part(entry.value) for entry in node.entries]
        entries = _Entries(False, _union(keys), _union(values))
        cost = exactly(MAP_BASE) + _total(keys) + _total(values)
        return self.made(node, cost, size=exactly(len(keys)), entries=entries)

    # -- macros, as their expansions

    @contextmanager
    def bound(self, variables: Mapping[str, _Part]) -> Iterator[None]:
        """Binds the variables of a macro while its body is estimated."""
        outer = self.locals
        self.locals = {**outer, **variables}
        try:
            yield
        finally:
            self.locals = outer

    def variables(self, node: ast.Comprehension, over: _Part) -> dict[str, _Part]:
        """The paths and sizes of the variables of a macro."""
        entries = over.entries
        is_list = entries.is_list if entries else over.type.name == "list"
        keys = _Part(node, ONE, DYN, (*over.path, "@indices" if is_list else "@keys"), entries.key if entries else None)
        values = _Part(node, ONE, DYN, (*over.path, "@items" if is_list else "@values"), entries.value if entries else None)
        if len(node.variables) == 2:
            return dict(zip(node.variables, (keys, values), strict=True))
        return {node.variables[0]: values if is_list else keys}

    def loop(self, node: ast.Comprehension, over: _Part) -> _Part:
        """A loop over an accumulator: its start, a condition and a step for each element, and its result."""
        with self.bound(self.variables(node, over)):
            start, condition, (step, entries), result = _LOOPS[node.macro](self, node)
        cost = over.cost + exactly(start + result) + over.size_or_unknown * (exactly(condition) + step)
        return self.made(node, cost, size=ONE if entries is None else over.size_or_unknown, entries=entries)

    def sort_by(self, node: ast.Comprehension) -> _Part:
        """Binds the list to a name; `map` computes its keys."""
        items = self.part(node.range)
        keys = self.loop(replace(node, macro="map"), replace(items, cost=ONE))
        overloads = self.checked.overloads.get(node.id, ())
        cost, size = self.apply(node, "@sortByAssociatedKeys", overloads, (items, keys))
        return self.made(node, exactly(LIST_BASE) + items.cost + ONE + keys.cost + cost, size=size)

    def optional_map(self, node: ast.OptionalMap) -> _Part:
        """`target.hasValue() ? optional.of(body) : optional.none()`, where the variable is `target.value()`."""
        target = self.part(node.target)
        with self.bound({node.variable: _Part(node, ONE, DYN, (), None)}):
            body = self.part(node.body)
        found = exactly(LIST_BASE) + target.cost + ONE + body.cost + (ZERO if node.flat else ONE)
        return self.made(node, target.cost + ONE + (found | ONE))


def _total(parts: Sequence[_Part]) -> Range:
    total = ZERO
    for part in parts:
        total += part.cost
    return total


def _union(parts: Sequence[_Part]) -> Range:
    if not parts:
        return ZERO
    result = NOWHERE
    for part in parts:
        result |= part.size_or_unknown
    return result


def _literal_size(node: ast.Literal) -> Range:
    return exactly(len(node.value) if node.type in (STRING, BYTES) else 1)


def _is_of_size_one(type_: Type) -> bool:
    if type_.name == "optional_type":
        return _is_of_size_one(type_.parameters[0])
    return type_.name in _OF_SIZE_ONE


# The cost of a loop's start, its condition per element, its step with the contents of its result, and reading the result.
_Loop: TypeAlias = tuple[int, int, tuple[Range, _Entries | None], int]


def _quantifier(condition: int) -> Callable[[_Estimator, ast.Comprehension], _Loop]:
    def loop(estimator: _Estimator, node: ast.Comprehension) -> _Loop:
        body = estimator.part(node.arguments[0]).cost
        return 0, condition, (Range(1, (ONE + body).max), None), 1

    return loop


def _exists_one(estimator: _Estimator, node: ast.Comprehension) -> _Loop:
    return 0, 0, (estimator.part(node.arguments[0]).cost + Range(1, 2), None), 2


def _collect(estimator: _Estimator, node: ast.Comprehension) -> _Loop:
    """Lists of one element are added to the accumulator."""
    conditions = [estimator.part(each) for each in (node.arguments if node.macro == "filter" else node.arguments[:-1])]
    if node.macro == "filter":
        element = estimator.ident(ast.Ident(0, node.offset, node.variables[0]), node.variables[0])
    else:
        element = estimator.part(node.arguments[-1])
    step = exactly(LIST_BASE + 2) + element.cost
    entries = _Entries(True, ONE, ZERO | element.size_or_unknown)
    return LIST_BASE, 0, (_total(conditions) + (step | ONE) if conditions else step, entries), 1


def _collect_entries(estimator: _Estimator, node: ast.Comprehension) -> _Loop:
    """Entries are put into the accumulator."""
    conditions = [estimator.part(each) for each in node.arguments[:-1]]
    step = estimator.part(node.arguments[-1]).cost + exactly(3 if node.macro == "transformMap" else 2)
    step = _total(conditions) + (step | ONE) if conditions else step
    return MAP_BASE, 0, (step, _Entries(False, UNKNOWN, UNKNOWN)), 1


_LOOPS: dict[str, Callable[[_Estimator, ast.Comprehension], _Loop]] = {
    "all": _quantifier(2),
    "exists": _quantifier(3),
    "exists_one": _exists_one,
    "map": _collect,
    "filter": _collect,
    "transformList": _collect,
    "transformMap": _collect_entries,
    "transformMapEntry": _collect_entries,
}
