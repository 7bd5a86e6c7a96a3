"""The types of macros: the checker types each macro as its expansion in cel-go.

Sources: cel-go parser/macro.go, ext/comprehensions.go, ext/lists.go, cel/library.go. An expansion is a loop over an accumulator.
The calls in an expansion bind type parameters like any other call, so `[].map(x, 1)` is a `list(int)`. Complaints about an
expansion point to the macro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .. import ast
from ..types import BOOL, DYN, ERROR, INT, Type, list_of, map_of
from .scope import CONDITIONAL, MAP_INSERT
from .unify import is_loose

if TYPE_CHECKING:
    from .checker import Checker

SORT_BY_KEYS: Final = "@sortByAssociatedKeys"


def comprehension(checker: Checker, node: ast.Comprehension) -> Type:
    """The type of a macro over a range."""
    if node.macro == "sortBy":
        return _sort_by(checker, node)
    over = checker.bindings.resolve(checker.check(node.range))
    return _EXPANSIONS[node.macro](checker, node, _variables(checker, node, over, node.range.offset))


def _variables(checker: Checker, node: ast.Comprehension, over: Type, range_offset: int) -> dict[str, Type]:
    """The types of a macro's variables: elements or keys; where there are two, index and element, or key and value."""
    if over.name == "list" and not over.is_parameter:
        types = (INT, over.parameters[0])
        single = over.parameters[0]
    elif over.name == "map" and not over.is_parameter:
        types = (over.parameters[0], over.parameters[1])
        single = over.parameters[0]
    elif is_loose(over) or over.is_parameter:
        # Binds the range to dyn, so that no other type can be assigned to it.
        checker.bindings.assignable(DYN, over)
        types = (DYN, DYN)
        single = DYN
    else:
        checker.complaints.no_range(range_offset, over)
        types = (ERROR, ERROR)
        single = ERROR
    return dict(zip(node.variables, types if len(node.variables) == 2 else (single,), strict=True))


def _accumulated(checker: Checker, node: ast.Comprehension, accumulator: Type, step: Type) -> Type:
    """The accumulator's type after a step of this type."""
    if not checker.bindings.assignable(accumulator, step):
        checker.complaints.type_mismatch(node, accumulator, step)
    return checker.bindings.resolve(accumulator)


def _quantifier(checker: Checker, node: ast.Comprehension, variables: Mapping[str, Type]) -> Type:
    """`all` and `exists`: the accumulator and the condition, joined by `&&` or `||`."""
    (condition,) = node.arguments
    with checker.declared(variables):
        step = checker.all_bool([condition], [checker.check(condition)])
    return _accumulated(checker, node, BOOL, step)


def _exists_one(checker: Checker, node: ast.Comprehension, variables: Mapping[str, Type]) -> Type:
    """A counter, and a final test whether it is 1."""
    (condition,) = node.arguments
    with checker.declared(variables):
        step = _apply(checker, node, CONDITIONAL, [checker.check(condition), INT, INT])
    _accumulated(checker, node, INT, step)
    return BOOL


def _collect(checker: Checker, node: ast.Comprehension, variables: Mapping[str, Type]) -> Type:
    """`map`, `filter` and `transformList`: a one-element list is added to the accumulator, under a condition if there is one."""
    accumulator = list_of(checker.bindings.fresh())
    *conditions, element = node.arguments if node.macro != "filter" else (*node.arguments, None)
    with checker.declared(variables):
        held = [checker.check(each) for each in conditions if each is not None]
        found = variables[node.variables[0]] if element is None else checker.check(element)
        step = _apply(checker, node, "_+_", [accumulator, list_of(found)])
        if held:
            step = _apply(checker, node, CONDITIONAL, [*held, step, accumulator])
    return _accumulated(checker, node, accumulator, step)


def _collect_entries(checker: Checker, node: ast.Comprehension, variables: Mapping[str, Type]) -> Type:
    """`transformMap` keeps the keys; `transformMapEntry` makes maps of its own entries."""
    accumulator = map_of(checker.bindings.fresh(), checker.bindings.fresh())
    *conditions, transformation = node.arguments
    with checker.declared(variables):
        held = [checker.check(each) for each in conditions]
        keys = [variables[node.variables[0]]] if node.macro == "transformMap" else []
        step = _apply(checker, node, MAP_INSERT, [accumulator, *keys, checker.check(transformation)])
        if held:
            step = _apply(checker, node, CONDITIONAL, [*held, step, accumulator])
    return _accumulated(checker, node, accumulator, step)


_EXPANSIONS: dict[str, Callable[[Checker, ast.Comprehension, Mapping[str, Type]], Type]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "exists_one": _exists_one,
    "map": _collect,
    "filter": _collect,
    "transformList": _collect,
    "transformMap": _collect_entries,
    "transformMapEntry": _collect_entries,
}


def _sort_by(checker: Checker, node: ast.Comprehension) -> Type:
    """A list is bound to a name, its keys are computed by `map`, and both are passed to a hidden function."""
    checker.bindings.fresh()
    items = checker.check(node.range)
    keys = _collect(checker, node, _variables(checker, node, checker.bindings.resolve(items), node.offset))
    result = checker.apply(node, SORT_BY_KEYS, [items, keys], is_member=True)
    return checker.bindings.resolve(result)


def optional_map(checker: Checker, node: ast.OptionalMap) -> Type:
    """`target.hasValue() ? optional.of(body) : optional.none()`, where the variable is `target.value()`."""
    before = checker.complaints.count
    target = checker.check(node.target)
    after = checker.complaints.count
    condition = _apply(checker, node, "hasValue", [target], is_member=True)
    checker.bindings.fresh()
    # The expansion has the target twice. Checking it twice would double the work for each nested target.
    checker.complaints.repeat(before, after)
    if checker.scope.shares_targets and (twice := _typed_anew(node.target)):
        checker.complaints.add(twice.offset, "incompatible type already exists for expression")
    value = _apply(checker, node, "value", [target], is_member=True)
    with checker.declared({node.variable: value}):
        body = checker.bindings.resolve(checker.check(node.body))
    if not node.flat:
        body = _apply(checker, node, "optional.of", [body])
    nothing = _apply(checker, node, "optional.none", [])
    return _apply(checker, node, CONDITIONAL, [condition, body, nothing])


def _typed_anew(node: ast.Expr) -> ast.Expr | None:
    """The first node whose type has a parameter of its own, which is another one at each check: only these differ in two checks."""
    match node:
        case ast.ListLiteral(elements=()) | ast.MapLiteral(entries=()) | ast.OptionalMap() | ast.Call(function="optional.none"):
            return node
        case ast.Call(function="none", target=ast.Ident(name="optional")):
            return node
        case ast.Comprehension(macro="map" | "filter"):  # it begins with an empty list
            return node
        case _:
            return next((found for each in ast.children(node) if (found := _typed_anew(each))), None)


def _apply(checker: Checker, node: ast.Expr, name: str, types: Sequence[Type], is_member: bool = False) -> Type:
    """The type of a call in the expansion."""
    return checker.apply(node, name, types, is_member, note=False)
