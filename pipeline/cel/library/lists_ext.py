"""Lists 3: cel-go ext/lists.go."""

from __future__ import annotations

from dataclasses import replace
from functools import cmp_to_key

from ..costs.sizes import TooLargeError, check_list
from ..functions import Function, Library
from ..types import DYN, INT, list_of, parameter
from ..values import CelError, Value, runtime_type
from .costs import STRING_FACTOR, Cost, allocate, size
from .declare import COMPARABLE, COMPARABLE_CLASSES, Variant, dispatcher, function, member, plain
from .lists import order, same

# Comparing each element with each costs more than an expression may spend where a list is longer.
COMPARED_MAX = 5_000


def slice_(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(items: list[Value], depth: int = 1) -> list[Value]:
    """The list with its inner lists expanded, `depth` levels deep."""
    if depth < 0:
        raise CelError("level must be non-negative")
    flat = items
    while depth and any(item.__class__ is list for item in flat):
        check_list(sum(len(item) if item.__class__ is list else 1 for item in flat))
        flat = [inner for item in flat for inner in (item if item.__class__ is list else (item,))]
        depth -= 1
    return flat


def flatten_any(target: Value, *depth: Value) -> list[Value]:
    """`flatten` for every receiver: cel-go has no guards before it, so that it also takes a flat list."""
    if target.__class__ is not list or any(each.__class__ is not int for each in depth):
        kinds = ", ".join(runtime_type(each).name for each in depth)
        raise CelError(f"no such overload: {runtime_type(target).name}.flatten({kinds})")
    return flatten(target, *depth)


def distinct(items: list[Value]) -> list[Value]:
    """Each element once, at its first place."""
    if all(item.__class__ is str for item in items):
        return list(dict.fromkeys(items))
    if len(items) > COMPARED_MAX:
        raise TooLargeError(len(items))
    unique: list[Value] = []
    for item in items:
        if not any(same(item, other) for other in unique):
            unique.append(item)
    return unique


def sort(items: list[Value]) -> list[Value]:
    return sort_by_keys(items, items)


def sort_by_keys(items: list[Value], keys: list[Value]) -> list[Value]:
    """`items` in the order of their `keys`, which must be of one type.

    Items of equal keys keep their order. Upstream promises no order here, but keeps it for up to twelve items.
    """
    if len(items) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    if keys[0].__class__ not in COMPARABLE_CLASSES:
        raise CelError("list elements must be comparable")
    if any(key.__class__ is not keys[0].__class__ for key in keys):
        raise CelError("list elements must have the same type")
    by_key = cmp_to_key(order_or_equal)
    ranks = sorted(range(len(items)), key=[by_key(key) for key in keys].__getitem__)
    return [items[rank] for rank in ranks]


def order_or_equal(left: Value, right: Value) -> int:
    """The order of two keys; NaN is neither before nor after anything."""
    return order(left, right) or 0


def range_(count: int) -> list[Value]:
    """0 to count - 1; empty for a negative count."""
    check_list(count)
    return list(range(count))


def _flatten_cost(arguments: tuple[Value, ...], result: Value) -> int:
    depth = arguments[1] if len(arguments) == 2 and isinstance(arguments[1], int) else 1
    return allocate(size(arguments[0]) * max(depth, 0))


def _output_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return allocate(size(result))


def _pairs_cost(of_argument: int) -> Cost:
    """The cost of comparing every element of this argument with every other one."""

    def cost(arguments: tuple[Value, ...], result: Value) -> int:
        items = arguments[of_argument]
        is_text = items.__class__ is list and items and items[0].__class__ in (str, bytes)
        return allocate(size(items) ** 2 * (2.0 + (STRING_FACTOR if is_text else 0)))

    return cost


def _any_list(variant: Variant) -> Variant:
    """The variant for lists with any element type."""
    loose = tuple(_LIST if kind.name == "list" else kind for kind in variant.overload.arguments)
    return replace(variant, overload=replace(variant.overload, arguments=loose))


_T = parameter("T")
_LIST = list_of(_T)
_SORTED = tuple(member(f"list_{kind.name}_sort", (list_of(kind),), list_of(kind), sort) for kind in COMPARABLE)
_SORTED_BY = tuple(
    member(f"list_{kind.name}_sortByAssociatedKeys", (_LIST, list_of(kind)), _LIST, sort_by_keys) for kind in COMPARABLE
)
_FLATTEN = (
    member("list_flatten", (list_of(_LIST),), _LIST, flatten),
    member("list_flatten_int", (list_of(DYN), INT), list_of(DYN), flatten),
)
_SORT, _SORT_BY = "sort", "@sortByAssociatedKeys"

LIBRARY = Library(
    "lists 3",
    (
        function("slice", member("list_slice", (_LIST, INT, INT), _LIST, slice_), cost=_output_cost),
        Function("flatten", tuple(variant.overload for variant in _FLATTEN), flatten_any, _flatten_cost),
        function("reverse", member("list_reverse", (_LIST,), _LIST, lambda items: items[::-1]), cost=_output_cost),
        function("distinct", member("list_distinct", (_LIST,), _LIST, distinct), cost=_pairs_cost(0)),
        function("lists.range", plain("lists_range", (INT,), list_of(INT), range_), cost=_output_cost),
        # One implementation for all element types, so that it checks the elements itself instead of the overloads' guards.
        Function(_SORT, tuple(variant.overload for variant in _SORTED), dispatcher(_SORT, (_any_list(_SORTED[0]),))),
        Function(_SORT_BY, tuple(variant.overload for variant in _SORTED_BY), dispatcher(_SORT_BY, (_any_list(_SORTED_BY[0]),))),
    ),
    introduced=(1, 34),
    macros=frozenset(("sortBy",)),
)
# Sorting costs this only if the checker knew the element type, and 1 otherwise, as everywhere in `object`.
COSTS: dict[str, Cost] = {
    **{variant.overload.id: _pairs_cost(0) for variant in _SORTED},
    **{variant.overload.id: _pairs_cost(1) for variant in _SORTED_BY},
}
