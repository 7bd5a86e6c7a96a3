"""Lists of Kubernetes: apiserver pkg/cel/library/lists.go. Version 1, of Kubernetes 1.37, adds `includes`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from ..evaluation.equality import equal
from ..evaluation.operators import add, greater, less
from ..functions import Function, Library
from ..types import BOOL, DOUBLE, DURATION, DYN, INT, TIMESTAMP, UINT, Type, list_of, parameter
from ..values import CelError, Duration, UInt, Value, no_such_overload
from .costs import traverse
from .declare import COMPARABLE, COMPARABLE_CLASSES, Variant, function, member

_SUMMABLE: tuple[tuple[Type, Value], ...] = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
# The names that overload ids use.
_NAMES = {DURATION: "duration", TIMESTAMP: "timestamp"}


def order(left: Value, right: Value) -> int | None:
    """-1, 0 or 1; None if the two have no order, which upstream treats as neither less nor greater."""
    try:
        return 1 if greater(left, right) else -1 if less(left, right) else 0
    except CelError:
        return None


def same(left: Value, right: Value) -> bool:
    """Whether two elements are equal; elements that cannot be compared are not equal."""
    try:
        return equal(left, right)
    except CelError:
        return False


def _has_order(item: Value) -> Value:
    """The item, if its type has an order."""
    if item.__class__ not in COMPARABLE_CLASSES:
        raise no_such_overload()
    return item


def is_sorted(items: list[Value]) -> bool:
    return all(order(left, _has_order(right)) != 1 for left, right in pairwise(items))


def _sum_from(zero: Value) -> Callable[[list[Value]], Value]:
    def total(items: list[Value]) -> Value:
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _extreme(name: str, replaces: int) -> Callable[[list[Value]], Value]:
    """The smallest or largest element: `replaces` is the order of the best so far to an element that replaces it."""

    def best(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        result = items[0]
        for item in items[1:]:
            if order(result, _has_order(item)) == replaces:
                result = item
        return result

    return best


def has(items: list[Value], wanted: Value) -> bool:
    """Whether an element is equal to `wanted`."""
    # Only a string equals a string, and Python's `in` finds it faster.
    return wanted in items if wanted.__class__ is str else any(same(item, wanted) for item in items)


def index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if same(item, wanted)), -1)


def last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if same(items[index], wanted)), -1)


def includes(target: Value, wanted: Value) -> bool:
    """Whether a list contains `wanted`; a value that is not a list is compared with it."""
    return has(target, wanted) if target.__class__ is list else same(target, wanted)


def _per_type(name: str, id_: str, call: Callable[[list[Value]], Value], result: Type | None = None) -> Function:
    """One overload for each type that has an order; without `result`, the result has the element's type."""
    variants: list[Variant] = [
        member(id_.format(_NAMES.get(kind, kind.name)), (list_of(kind),), result or kind, call) for kind in COMPARABLE
    ]
    return function(name, *variants, cost=traverse)


_A = parameter("A")

_FUNCTIONS = (
    _per_type("isSorted", "list_{}_is_sorted_bool", is_sorted, BOOL),
    _per_type("min", "list_{0}_min_{0}", _extreme("min", 1)),
    _per_type("max", "list_{0}_max_{0}", _extreme("max", -1)),
    function(
        "sum",
        *(
            member("list_{0}_sum_{0}".format(_NAMES.get(kind, kind.name)), (list_of(kind),), kind, _sum_from(zero))
            for kind, zero in _SUMMABLE
        ),
        cost=traverse,
    ),
    function("indexOf", member("list_a_index_of_int", (list_of(_A), _A), INT, index_of), cost=traverse),
    function("lastIndexOf", member("list_a_last_index_of_int", (list_of(_A), _A), INT, last_index_of), cost=traverse),
)

LIBRARY_0 = Library("lists 0", _FUNCTIONS, removed=(1, 37))
LIBRARY = Library(
    "lists 1",
    (*_FUNCTIONS, function("includes", member("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes), cost=traverse)),
    introduced=(1, 37),
)
