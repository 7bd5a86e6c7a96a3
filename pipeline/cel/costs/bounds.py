"""An upper bound on the cost of an expression, from the sizes of its variables alone.

The rule. `sizes` gives for each variable a number no smaller than the length of its value as compact JSON, in bytes. Then:

1. This number bounds the code points or bytes of any string in the value. It also bounds the length of any list or map in the
value, and the bytes of any part of the value as JSON.

2. A list or map whose JSON has S bytes has at most S / 2 elements or entries. The JSON of these has at most S bytes in total.

Every node gets two polynomials with non-negative coefficients over such sizes: one bounds its cost, one the JSON of its value. A
selection is at most as large as its operand, a concatenation at most as large as the sum. For a loop over a value of size R the
body's polynomials are summed over the elements. By 2, a term without the element's size counts at most R / 2 times. For a term with
its k-th power, the factor is at most R ** k: the sum of powers is at most the power of the sum. The cost of each step is
cel-go's (see `costed.py`), at its largest over operands of these sizes. A function without a bound here makes the whole
expression unbounded. Every sum adds upper bounds, so the total is an upper bound.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import ceil, inf
from typing import TypeAlias

from .. import ast
from ..checking.constants import Constants
from ..checking.names import Names
from ..evaluation.equality import entries
from ..values import CelMap, Value

# A product of sizes, by name, with repetition.
Monomial: TypeAlias = tuple[str, ...]

# The JSON of any value that is not a text, list or map: numbers have at most 25 characters, timestamps 37.
_SCALAR = 40.0


class Polynomial:
    """A sum of products of sizes. Immutable."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, float]) -> None:
        self.terms = terms

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = Counter(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] += factor  # type: ignore[assignment]
        return Polynomial(terms)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, float] = {}
        for one, left in self.terms.items():
            for two, right in other.terms.items():
                product = tuple(sorted(one + two))
                terms[product] = terms.get(product, 0.0) + left * right
        return Polynomial(terms)

    def times(self, factor: float) -> Polynomial:
        """Every coefficient multiplied."""
        return Polynomial({monomial: each * factor for monomial, each in self.terms.items()})

    def summed_over(self, symbol: str, total: Polynomial) -> Polynomial:
        """The sum over the elements of a value of size `total`, where `symbol` is the size of one element."""
        result = constant(0)
        for monomial, factor in self.terms.items():
            rest = tuple(name for name in monomial if name != symbol)
            power = len(monomial) - len(rest)
            weight = total.times(0.5) if power == 0 else total
            for _ in range(power - 1):
                weight = weight * total
            result = result + Polynomial({rest: factor}) * weight
        return result

    def at(self, sizes: Mapping[str, int]) -> float:
        """The value for these sizes; infinite where one is missing."""
        result = 0.0
        for monomial, factor in self.terms.items():
            if factor == 0:
                continue  # A missing size that no term uses must be skipped: 0 times infinity is not a number.
            for name in monomial:
                factor *= _size(name, sizes)
            result += factor
        return result


def _size(name: str, sizes: Mapping[str, int]) -> float:
    """The given size, or for `variables.x` without a size that of `variables`, which is at least as large."""
    own = sizes.get(name)
    return own if own is not None else sizes.get(name.partition(".")[0], inf)


def constant(value: float) -> Polynomial:
    """A polynomial without sizes."""
    return Polynomial({(): value})


def symbol(name: str) -> Polynomial:
    """A size by itself."""
    return Polynomial({(name,): 1.0})


class UnboundedError(Exception):
    """A function without a bound."""


Bound: TypeAlias = tuple[Polynomial, Polynomial]  # of cost and of size

# The largest cost of these functions: a share of the sizes of their arguments, plus a constant.
_TEXT_FUNCTIONS = frozenset(
    ("startsWith", "endsWith", "lowerAscii", "upperAscii", "trim", "substring", "charAt", "string", "bytes", "url", "isURL")
) | frozenset(
    ("quantity", "isQuantity", "semver", "isSemver", "ip", "isIP", "cidr", "isCIDR", "ip.isCanonical", "_<_", "_<=_", "_>_")
)
_TEXT_FACTOR = dict.fromkeys(_TEXT_FUNCTIONS | {"_>=_", "_==_", "_!=_", "_+_", "strings.quote"}, 0.2)
_TEXT_FACTOR |= dict.fromkeys(("size", "type", "dyn", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "int", "uint", "double", "bool"), 0.0)
_TEXT_FACTOR |= dict.fromkeys(("timestamp", "duration", "optional.of", "optional.none", "hasValue", "value", "orValue", "or"), 0.0)
# A share of each of two arguments, multiplied.
_PRODUCTS = {"contains": (0.1, 0.1), "matches": (0.1, 0.25), "find": (0.1, 0.25), "findAll": (0.1, 0.25)}
_LINEAR = frozenset(
    ("@in", "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "includes", "slice", "reverse", "first", "last")
)
_SETS = frozenset(("sets.contains", "sets.equivalent", "sets.intersects"))
# Quantities and versions are no larger than their texts.
_COMPARISONS = frozenset(("isGreaterThan", "isLessThan", "compareTo"))
# These functions return a part of their first argument, or change each of its characters.
_PARTS = frozenset(
    ("lowerAscii", "upperAscii", "trim", "substring", "charAt", "find", "slice", "reverse", "first", "last", "min", "max")
)
_SAME = frozenset(("dyn", "optional.of", "value", "hasValue", "bytes", "string"))
_SCALAR_RESULTS = frozenset(("bool", "int", "uint", "double", "google.protobuf.Timestamp", "google.protobuf.Duration", "type"))


class Bounds:
    """The bounds of one expression, worked out once."""

    def __init__(self, tree: ast.Expr, names: Names, constants: Constants) -> None:
        self.names = names
        self.constants = constants
        self.loops = 0
        try:
            self.bound: Bound | None = self.of(tree, {})
        except UnboundedError:
            self.bound = None

    def cost(self, sizes: Mapping[str, int]) -> int | None:
        """The cost that no evaluation over variables of these sizes exceeds. None where there is no bound."""
        return self._at(0, sizes)

    def size(self, sizes: Mapping[str, int]) -> int | None:
        """The length in JSON that no result exceeds. None where there is no bound."""
        return self._at(1, sizes)

    def _at(self, which: int, sizes: Mapping[str, int]) -> int | None:
        value = inf if self.bound is None else self.bound[which].at(sizes)
        return None if value == inf else ceil(value)

    def of(self, node: ast.Expr, scope: Mapping[str, Polynomial]) -> Bound:
        """Bounds of a node. `scope` has the sizes of loop variables."""
        found, value = self.constants.of(node)
        if found:
            return constant(0), constant(json_size(value))
        match node:
            case ast.Ident(name=name):
                local = self.names.local(name) or ""
                return constant(1), scope[local] if local in scope else symbol(name.lstrip("."))
            case ast.Has(operand=operand):
                return self.of(operand, scope)[0] + constant(2), constant(_SCALAR)
            case ast.Select(operand=operand, field=field):
                if isinstance(operand, ast.Ident) and self.names.local(operand.name) not in scope:
                    return constant(2), symbol(f"{operand.name.lstrip('.')}.{field}")
                cost, size = self.of(operand, scope)
                return cost + constant(2), size + constant(_SCALAR)
            case ast.Index(operand=operand, key=key):
                cost, size = self.of(operand, scope)
                return cost + self.of(key, scope)[0] + constant(2), size
            case ast.Conditional() | ast.And() | ast.Or():
                parts = [self.of(child, scope) for child in ast.children(node)]
                return _sum(cost for cost, _ in parts), _sum(size for _, size in parts) + constant(_SCALAR)
            case ast.ListLiteral() | ast.MapLiteral() | ast.Struct():
                parts = [self.of(child, scope) for child in ast.children(node)]
                return _sum(cost for cost, _ in parts) + constant(40), _sum(size + constant(2) for _, size in parts) + constant(2)
            case ast.Call():
                return self.call(node, scope)
            case ast.Comprehension():
                return self.comprehension(node, scope)
            case ast.OptionalMap(target=target, variable=variable, body=body):
                cost, size = self.of(target, scope)
                body_cost, body_size = self.of(body, {**scope, variable: size})
                return cost.times(2) + body_cost + constant(4), body_size
            case _:
                raise UnboundedError(node.__class__.__name__)

    def call(self, node: ast.Call, scope: Mapping[str, Polynomial]) -> Bound:
        function, arguments = self.names.function(node)
        name = function.name
        parts = [self.of(argument, scope) for argument in arguments]
        below = _sum(cost for cost, _ in parts) + constant(2)
        sizes = [size for _, size in parts]
        if name in _TEXT_FACTOR:
            own = _sum(sizes).times(_TEXT_FACTOR[name])
        elif name in _PRODUCTS:
            left, right = _PRODUCTS[name]
            own = (sizes[0].times(left) + constant(2)) * (sizes[1].times(right) + constant(2))
        elif name in _LINEAR:
            own = _sum(sizes) + constant(12)
        elif name in _SETS:
            own = (sizes[0] * sizes[1]).times(2) + constant(1)
        elif name == "join":
            own = self.joined(sizes).times(0.2)
        elif name == "split":
            own = sizes[0].times(0.2)
        elif name == "replace":
            # The result costs nothing, but callers rely on a low bound to mean that little is built.
            own = (sizes[0] + self.replaced(sizes)).times(0.2) + constant(12)
        elif name in _COMPARISONS or (function.cost is None and function.overloads[0].result.name in _SCALAR_RESULTS):
            own = _sum(sizes).times(0.2)
        else:
            raise UnboundedError(name)
        return below + own, self.result(name, function.overloads[0].result.name, sizes)

    def joined(self, sizes: list[Polynomial]) -> Polynomial:
        """The elements, and a separator for each."""
        return sizes[0] + sizes[0] * sizes[1] if len(sizes) == 2 else sizes[0]

    def replaced(self, sizes: list[Polynomial]) -> Polynomial:
        """The text, plus the new one before each character and at the end, because an empty text is found there."""
        return sizes[0] + sizes[0] * sizes[2]

    def result(self, name: str, type_name: str, sizes: list[Polynomial]) -> Polynomial:
        """A bound on the JSON of a call's result."""
        if name in _PARTS or name in _SAME:
            return sizes[0] + constant(_SCALAR)
        if name == "_+_" or name in ("or", "orValue"):
            return _sum(sizes) + constant(_SCALAR)
        if name == "join":
            return self.joined(sizes) + constant(2)
        if name == "replace":
            return self.replaced(sizes) + constant(2)
        if name in ("split", "findAll"):
            # Each character may become a separate element, with quotes and a comma.
            return sizes[0].times(4) + constant(8)
        if type_name in _SCALAR_RESULTS or type_name.startswith(("kubernetes.", "net.")):
            return constant(_SCALAR) if type_name in _SCALAR_RESULTS else _sum(sizes) + constant(_SCALAR)
        if name in ("optional.none",):
            return constant(_SCALAR)
        raise UnboundedError(name)

    def comprehension(self, node: ast.Comprehension, scope: Mapping[str, Polynomial]) -> Bound:
        over_cost, over_size = self.of(node.range, scope)
        self.loops += 1
        element = f"@{self.loops}"
        inner = {**scope, **dict.fromkeys(node.variables, symbol(element))}
        parts = [self.of(argument, inner) for argument in node.arguments]
        # At most 35 per iteration in addition to the body: reading and testing the accumulator, and a one-element list or map.
        step = _sum(cost for cost, _ in parts) + constant(35)
        cost = over_cost + step.summed_over(element, over_size) + constant(4)
        match node.macro:
            case "all" | "exists" | "exists_one":
                return cost, constant(_SCALAR)
            case "filter":
                return cost, over_size
            case "map" | "transformList":
                return cost, (parts[-1][1] + constant(1)).summed_over(element, over_size) + constant(2)
            case "transformMap":
                return cost, (parts[-1][1] + symbol(element) + constant(4)).summed_over(element, over_size) + constant(2)
            case _:
                raise UnboundedError(node.macro)


def _sum(parts: object) -> Polynomial:
    result = constant(0)
    for part in parts:  # type: ignore[attr-defined]
        result = result + part
    return result


def json_size(value: Value) -> float:
    """An upper bound on the JSON size of a value."""
    if isinstance(value, str):
        return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return 2 + 2.0 * len(value)
    if isinstance(value, list):
        return 2 + sum(1 + json_size(each) for each in value)
    if isinstance(value, dict | CelMap):
        return 2 + sum(2 + json_size(key) + json_size(each) for key, each in entries(value))
    return _SCALAR
