"""A second upper bound on the cost of an expression: from the longest list and the longest string of the data.

The bound in `pipeline/cel/costs/bounds.py` knows only the number of bytes. It is quick, but too high where loops are nested, as in
`containers.all(c, registries.exists(r, c.image.startsWith(r)))`. This bound looks at the data. It assumes that every loop over data
runs over the longest list or map, and that every string is as long as the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..cel import ast
from ..cel.values import SparseMap

# Functions are named here as the syntax tree has them: `lists.range(n)` is a call of `range` with the target `lists`.
_UNBOUNDED = frozenset(["range"])  # the number in an argument decides how long the result is
_TRAVERSALS = frozenset(["sum", "min", "max", "indexOf", "lastIndexOf", "includes", "isSorted"])  # they read all text of a list
_SEARCHES = frozenset(["matches", "find", "findAll"])
_QUADRATIC = frozenset(["contains", "equivalent", "intersects", "distinct", "sort"])
_BUILDERS = frozenset(["_+_", "format", "join", "replace", "quote", "flatten", "split", "findAll"])
_COMPARISONS = frozenset(["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"])
# All other functions that a release declares: they cost at most one reading of their operands. A function that no table here names
# has no price. None is guessed, because a wrong guess could skip a cost limit in silence.
_SCANNING_NAMES = """
    !_ -_ @in _%_ _*_ _+_ _-_ _/_ _==_ _!=_ _<_ _<=_ _>_ _>=_
    bool bytes double duration dyn int string timestamp type uint
    cidr ip quantity semver url isCIDR isCanonical isIP isQuantity isSemver isURL
    charAt endsWith escapeKey lowerAscii quote split startsWith substring trim upperAscii
    size first last flatten reverse slice range
    named none of ofNonZeroValue unwrap unwrapOpt hasValue value or orValue
    getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds
    getEscapedPath getHost getHostname getPort getQuery getScheme
    add asApproximateFloat asInteger compareTo isGreaterThan isInteger isLessThan sign sub major minor patch
    containsCIDR containsIP family isGlobalUnicast isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified masked
    prefixLength
    allowed error errored group name namespace path reason resource serviceAccount subresource
    byte date datetime dns1035Label dns1035LabelPrefix dns1123Label dns1123LabelPrefix dns1123Subdomain dns1123SubdomainPrefix
    labelValue qualifiedName uri uuid
"""
_SCANNING = frozenset(_SCANNING_NAMES.split())
_LOOP_COST = 40  # per iteration of any macro, in addition to the cost of its arguments
_LITERAL_COST = 40  # of building a list, map or struct
_CHECK_COST = 350_000
_BEYOND = 1e12
_FORMAT_PATTERN = 1103 / 4  # the longest of the formats' own patterns


class UnpricedError(LookupError):
    """A declared function without a price in this file: a defect of Hindcast."""


class Extent(NamedTuple):
    """The length of the longest string and the number of entries of the longest list or map anywhere in a value.

    `below` counts the entries of all lists and maps in it, one that is there twice counted twice.
    """

    length: float
    entries: float
    below: float = 0


_SCALAR = Extent(0, 0)
_MAPS = (dict, SparseMap)
_LOOKED_INTO = (str, list, *_MAPS)


def extent_of(value: Any, skipped: str = "") -> Extent:
    """The extent of a JSON value, without the values of keys named `skipped`."""
    length = entries = below = 0
    pending = [value]
    while pending:
        each = pending.pop()
        kind = each.__class__
        if kind is str:
            if len(each) > length:
                length = len(each)
        elif kind in _MAPS:
            if len(each) > entries:
                entries = len(each)
            below += len(each)
            for key, item in each.items():
                if len(key) > length:
                    length = len(key)
                if item.__class__ in _LOOKED_INTO and key != skipped:
                    pending.append(item)
        elif kind is list:
            if len(each) > entries:
                entries = len(each)
            below += len(each)
            pending += each
    return Extent(length, entries, below)


def largest(extents: Iterable[Extent]) -> Extent:
    """The largest extent: none of the given ones exceeds it."""
    found = [_SCALAR, *extents]
    return Extent(*map(max, zip(*found, strict=True)))


def is_bounded(trees: Iterable[ast.Expr]) -> bool:
    """Whether the expressions have a bound."""
    pending = list(trees)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and node.function in _UNBOUNDED:
            return False
        pending.extend(ast.children(node))
    return True


def _capped(extent: Extent) -> Extent:
    """Caps an extent above any that an evaluation can build: larger ones would grow beyond the range of a float."""
    return Extent(*(min(each, _BEYOND) for each in extent))


class CostBound:
    """Walks an expression and adds up the largest cost of each node, times the number of its evaluations."""

    def __init__(self, tree: ast.Expr, data: Extent, variables: Mapping[str, Extent]) -> None:
        """`data` is the extent of everything but the `variables`; the walk sets `extent` to that of the result."""
        self.cost = 0.0
        self._data = data
        self._variables = variables
        self.extent = self._of(tree, 1, {})

    def _of(self, node: ast.Expr, times: float, scope: Mapping[str, Extent]) -> Extent:
        """The extent of a node's value. `times` is the number of times that the node is evaluated."""
        match node:
            case ast.Literal(value=value):
                return Extent(len(value), 0) if isinstance(value, str | bytes) else _SCALAR
            case ast.Ident(name=name):
                self.cost += times
                return scope.get(name, self._data)
            case ast.Select(operand=ast.Ident(name="variables"), field=name) if name in self._variables:
                self.cost += 2 * times
                return self._variables[name]
            case ast.Comprehension():
                return self._loop(node, times, scope)
            case ast.Call(target=target, arguments=arguments):
                operands = [*([target] if target is not None else []), *arguments]
                extents = [self._of(each, times, scope) for each in operands]
                self.cost += times * _call_cost(node.function, operands, extents)
                extent = _capped(_call_extent(node.function, operands, extents))
                if node.function in _BUILDERS:
                    # Some of these calls build more than they cost. Callers rely on a low bound to mean that little is built.
                    self.cost += times * (extent.length * 0.1 + extent.entries)
                return extent
            case ast.OptionalMap(target=target, variable=variable, body=body):
                self.cost += 5 * times
                # The target may be evaluated again wherever the body reads it.
                inner = self._of(target, 2 * times, scope)
                return self._of(body, times, {**scope, variable: inner})
        extents = [self._of(child, times, scope) for child in ast.children(node)]
        is_built = isinstance(node, ast.ListLiteral | ast.MapLiteral | ast.Struct)
        self.cost += times * (_LITERAL_COST if is_built else 2)
        found = largest(extents)
        if not is_built:
            return found
        return _capped(Extent(found.length, max(found.entries, len(extents)), len(extents) + sum(each.below for each in extents)))

    def _loop(self, node: ast.Comprehension, times: float, scope: Mapping[str, Extent]) -> Extent:
        over = self._of(node.range, times, scope)
        inner = {**scope, **dict.fromkeys(node.variables, over)}
        loops = times * over.entries
        found = largest([over, *(self._of(each, loops, inner) for each in node.arguments)])
        self.cost += 4 * times + loops * _LOOP_COST + (3 * times * over.entries**2 if node.macro == "sortBy" else 0)
        return _capped(found._replace(below=over.below + over.entries * (1 + found.below)))


def _call_extent(function: str, operands: Sequence[ast.Expr], extents: Sequence[Extent]) -> Extent:
    length, entries, below = largest(extents)
    match function:
        case "_+_":
            return Extent(*map(sum, zip(*extents, strict=True)))
        case "format":
            return Extent(sum(each.length for each in extents) + (length + 40) * (entries + 1), 0)
        case "join":
            return Extent((length * 2 + 1) * (entries + 1), 0)
        case "replace":
            return Extent(_replaced_length(operands, extents), 0)
        case "quote" | "escapeKey":
            return Extent(2 * length + 2, 0)
        case "flatten":
            return Extent(length, entries**2, below)
        case "split" | "findAll":
            return Extent(length, max(entries, length + 1), length + 1)
    # Numbers become strings of at most 25 characters.
    return Extent(max(length, 40), entries, below)


def _replaced_length(operands: Sequence[ast.Expr], extents: Sequence[Extent]) -> float:
    """The longest text after replacement: an empty text is found between all characters, any other at most as often as it fits."""
    text, new = extents[0].length, extents[2].length
    old = operands[1].value if isinstance(operands[1], ast.Literal) else ""
    found = text // len(old) if isinstance(old, str) and old else text + 1
    return text + found * new


def _call_cost(function: str, operands: Sequence[ast.Expr], extents: Sequence[Extent]) -> float:
    length, entries, below = largest(extents)
    scan = 1 + length / 10
    literal = next((each.value for each in reversed(operands) if isinstance(each, ast.Literal)), None)
    if function == "check":
        return _CHECK_COST
    if function in _SEARCHES:
        return scan * (1 + (len(literal) if isinstance(literal, str) else length) / 4)
    if function in ("fieldSelector", "labelSelector"):
        return 10 + 26 * length
    if function == "validate":
        return scan * _FORMAT_PATTERN
    if function == "contains" and isinstance(literal, str):
        return scan * (1 + len(literal) / 10)
    if function in _QUADRATIC:
        return 12 + 3 * entries**2 + scan**2
    if function in _COMPARISONS and literal is not None:
        return 1 + (len(literal) / 10 if isinstance(literal, str) else 0)
    if function == "replace":
        return 12 + extents[0].length  # the result costs nothing (kubernetes/apiserver pkg/cel/library/cost.go)
    if function in ("join", "format"):
        return 12 + 2 * _call_extent(function, operands, extents).length
    if function in _TRAVERSALS:
        return 12 + 2 * scan * (1 + below)
    if function in _SCANNING:
        return 12 + 2 * scan + entries
    raise UnpricedError(f"no bound is known on what the function {function} costs")
