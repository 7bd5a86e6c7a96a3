"""The cost of a call at run time, in the units of cel-go's cost tracker.

Sources: cel-go interpreter/runtimecost.go and kubernetes/apiserver pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from math import ceil

from ..values import CelMap, Value

Cost = Callable[[tuple[Value, ...], Value], int]

STRING_FACTOR = 0.1
REGEX_FACTOR = 0.25
LIST_BASE = 10
STRUCT_BASE = 40


def size(value: Value) -> int:
    """The size from which costs are computed: code points, bytes, entries, address bytes; 1 for every other value."""
    if isinstance(value, str | bytes | list | dict | CelMap):
        return len(value)
    return getattr(value, "size", 1)


def free(arguments: tuple[Value, ...], result: Value) -> int:
    """The cost of functions that cel-go turns into control flow."""
    return 0


def scan(factor: float = 1) -> Cost:
    """The first argument is read `factor` times."""
    return lambda arguments, result: ceil(size(arguments[0]) * factor * STRING_FACTOR)


def scan_result(factor: float = 1) -> Cost:
    """The result is read or built `factor` times."""
    return lambda arguments, result: ceil(size(result) * factor * STRING_FACTOR)


def traverse(arguments: tuple[Value, ...], result: Value) -> int:
    """Every element of the first argument is read once."""
    return traversal(arguments[0])


def traversal(value: Value) -> int:
    """1 for each scalar in a tree of lists and maps; strings count a tenth of their bytes (not code points), rounded down."""
    return _traversal(value, {})


def _traversal(value: Value, known: dict[int, int]) -> int:
    """`known` has the costs of lists and maps by identity: `[a, a]`, built again and again, has few values and many paths."""
    if isinstance(value, str):
        return int(len(value.encode(errors="surrogatepass")) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if not isinstance(value, list | dict | CelMap):
        return 1
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = sum(_traversal(each, known) for each in _parts(value))
    return found


def _parts(value: list[Value] | dict[Value, Value] | CelMap) -> Iterable[Value]:
    if isinstance(value, list):
        return value
    entries = value.entries if isinstance(value, CelMap) else value
    return chain(entries.keys(), entries.values())


def search(arguments: tuple[Value, ...], result: Value) -> int:
    """A regular expression, the second argument, is run over the first."""
    return regex_cost(size(arguments[0]), size(arguments[1]))


def regex_cost(text_size: int, pattern_size: int) -> int:
    """The cost counts the text as one longer, so that an expensive pattern costs something on an empty string."""
    return ceil((1.0 + text_size) * STRING_FACTOR) * ceil(pattern_size * REGEX_FACTOR)


def selector(arguments: tuple[Value, ...], result: Value) -> int:
    """A selector, the second argument, is parsed: every two characters could be a requirement, which is a list and a struct."""
    length = size(arguments[1])
    return LIST_BASE + ceil(length * STRING_FACTOR) + ceil(ceil(length * 0.5) * (LIST_BASE + STRUCT_BASE))


def allocate(entries: float) -> int:
    """A call that builds a list of this many entries, or does as much work for it (cel-go ext/lists.go)."""
    return int(entries) + 1 + LIST_BASE
