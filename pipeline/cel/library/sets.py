"""Lists used as sets: cel-go ext/sets.go."""

from __future__ import annotations

from ..costs.sizes import TooLargeError
from ..functions import Library
from ..types import BOOL, list_of, parameter
from ..values import Value
from .costs import Cost, size
from .declare import function, plain
from .lists import has

PAIRS_MAX = 10_000_000


def contains(items: list[Value], part: list[Value]) -> bool:
    """Whether every element of `part` is in `items`."""
    _check_pairs(items, part)
    return all(has(items, wanted) for wanted in part)


def equivalent(left: list[Value], right: list[Value]) -> bool:
    """Whether each contains the other."""
    return contains(left, right) and contains(right, left)


def intersects(left: list[Value], right: list[Value]) -> bool:
    """Whether they have an element in common."""
    _check_pairs(left, right)
    return any(has(right, wanted) for wanted in left)


def _check_pairs(left: list[Value], right: list[Value]) -> None:
    """Raises TooLargeError where comparing each element with each costs more than an expression may spend."""
    if len(left) * len(right) > PAIRS_MAX:
        raise TooLargeError(1)


def _product(factor: int) -> Cost:
    return lambda arguments, result: 1 + size(arguments[0]) * size(arguments[1]) * factor


_LISTS = (list_of(parameter("T")), list_of(parameter("T")))

LIBRARY = Library(
    "sets",
    (
        function("sets.contains", plain("list_sets_contains_list", _LISTS, BOOL, contains), cost=_product(1)),
        function("sets.equivalent", plain("list_sets_equivalent_list", _LISTS, BOOL, equivalent), cost=_product(2)),
        function("sets.intersects", plain("list_sets_intersects_list", _LISTS, BOOL, intersects), cost=_product(1)),
    ),
    introduced=(1, 29),
)
