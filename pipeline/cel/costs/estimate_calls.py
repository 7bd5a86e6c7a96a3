"""Estimates the costs of calls and the sizes of their results, from the sizes of their arguments.

Sources: cel-go checker/cost.go functionCost, ext/lists.go, ext/sets.go, and kubernetes/apiserver pkg/cel/library/cost.go. The cost
of the arguments themselves is not included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .. import ast
from ..library.costs import LIST_BASE, REGEX_FACTOR, STRING_FACTOR, STRUCT_BASE
from ..types import BYTES, INT, STRING, Type
from .ranges import LARGEST, ONE, UNKNOWN, ZERO, Range, exactly

FORMAT_BYTES_MAX, FORMAT_PATTERN_MAX = 64, 128
_ADDRESS_BYTES = Range(4, 16)


@dataclass(frozen=True)
class Argument:
    """The facts known of an argument: its static type, its size if it has one, that of its elements, and its node."""

    type: Type
    size: Range | None
    element_size: Range
    node: ast.Expr

    @property
    def size_or_unknown(self) -> Range:
        """The size, or the full range if it is not known."""
        return UNKNOWN if self.size is None else self.size

    def literal(self, otherwise: int) -> int:
        """The value of an int literal, 0 if it is negative; `otherwise` for anything else."""
        if isinstance(self.node, ast.Literal) and self.node.type == INT:
            return max(0, int(self.node.value))
        return otherwise


Estimate: TypeAlias = tuple[Range, Range | None]  # the cost of the call, and the size of its result
Arguments: TypeAlias = Sequence[Argument]  # receiver first
Estimator: TypeAlias = Callable[[Arguments], Estimate | None]


def estimate_call(function: str, overload: str, arguments: Arguments) -> Estimate:
    """The estimate for one overload of a function."""
    for table, key in ((_BY_OVERLOAD, overload), (_BY_FUNCTION, function), (_STANDARD, overload)):
        estimator = table.get(key)
        found = None if estimator is None else estimator(arguments)
        if found is not None:
            return found
    return ONE, None


def _fixed(cost: int) -> Estimator:
    return lambda arguments: (exactly(cost), None)


def _scan(index: int, factor: float = 1, keeps_size: bool = False) -> Estimator:
    """One argument is read `factor` times; the result is at most as large as the argument."""

    def estimator(arguments: Arguments) -> Estimate:
        size = arguments[index].size_or_unknown
        return size.scaled(factor * STRING_FACTOR), size if keeps_size else None

    return estimator


def _is_text(type_: Type) -> bool:
    return type_.name in (STRING.name, BYTES.name)


def _traverse(arguments: Arguments) -> Estimate:
    """Every element of a list is compared; text elements are also read. For a text argument, its characters are read."""
    target = arguments[0]
    if not target.type.parameters:
        return target.size_or_unknown.scaled(STRING_FACTOR), None
    each = ONE + target.element_size.scaled(STRING_FACTOR) if _is_text(target.type.parameters[0]) else ONE
    return target.size_or_unknown * each, None


def _includes(arguments: Arguments) -> Estimate:
    """As `_traverse`, but takes dyn for a list."""
    target = arguments[0]
    return _traverse(arguments) if target.type.parameters else (target.size_or_unknown, None)


def _search(arguments: Arguments) -> Estimate:
    """A pattern is run over a text. Each match may become a separate text."""
    text, pattern = (argument.size_or_unknown for argument in arguments[:2])
    return (text + ONE).scaled(STRING_FACTOR) * pattern.scaled(REGEX_FACTOR), Range(0, text.max)


def _matches(arguments: Arguments) -> Estimate:
    return _search(arguments)[0], None


def _contains(arguments: Arguments) -> Estimate:
    text, part = (argument.size_or_unknown.scaled(STRING_FACTOR) for argument in arguments[:2])
    return text * part, None


def _replace(arguments: Arguments) -> Estimate:
    text, old, new = (argument.size_or_unknown for argument in arguments[:3])
    size = Range(_replaced(text.min, old.max, new.min, shortest=True), _replaced(text.max, old.min, new.max, shortest=False))
    return text.scaled(2 * STRING_FACTOR), size


def _replaced(text: int, old: int, new: int, shortest: bool) -> int:
    """The length of a text after replacement, at one end of the range: longest parts by shortest ones, or the reverse."""
    if old == 0:
        # An empty part is found around every character.
        return min(min(text + 1, LARGEST) * new + text, LARGEST)
    if (old <= new) if shortest else (new <= old):
        return text
    return min(-(-text // old) * new, LARGEST)


def _split(arguments: Arguments) -> Estimate:
    text = arguments[0].size_or_unknown
    most = arguments[2].literal(text.max) if len(arguments) > 2 else text.max
    return text.scaled(2 * STRING_FACTOR), Range(0, most)


def _join(arguments: Arguments) -> Estimate:
    items = arguments[0]
    count = items.size_or_unknown
    size = count * items.element_size if items.type.parameters else ZERO
    if len(arguments) > 1:
        size += arguments[1].size_or_unknown * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return size.scaled(STRING_FACTOR), size


def _selector(arguments: Arguments) -> Estimate:
    """A selector is parsed: every two characters could be a requirement, which is a list and a struct."""
    length = arguments[1].size_or_unknown
    requirements = length.scaled(0.5).scaled(LIST_BASE + STRUCT_BASE)
    return exactly(LIST_BASE) + length.scaled(STRING_FACTOR) + requirements, None


def _contains_address(*, is_text: bool, is_network: bool) -> Estimator:
    def estimator(arguments: Arguments) -> Estimate:
        cost = (_ADDRESS_BYTES + _ADDRESS_BYTES).scaled(STRING_FACTOR)
        if is_network:
            cost += _ADDRESS_BYTES.scaled(STRING_FACTOR) + ONE
        if is_text:
            cost += arguments[1].size_or_unknown.scaled(STRING_FACTOR)
        return cost, None

    return estimator


def _validate(arguments: Arguments) -> Estimate:
    text = arguments[1].size_or_unknown.scaled(STRING_FACTOR)
    return text.scaled(FORMAT_PATTERN_MAX * REGEX_FACTOR), None


_AUTHORIZATION = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
_EQUAL_AT_ONCE = frozenset(("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver")) | frozenset(
    f"kubernetes.authorization.{name}" for name in _AUTHORIZATION
)


def _equal(arguments: Arguments) -> Estimate | None:
    """Values of libraries are compared in one step; None for all others."""
    left, right = arguments[0], arguments[1]
    if left.type.name != right.type.name:
        return None
    if left.type.name in _EQUAL_AT_ONCE:
        return ONE, None
    if left.type.name == "kubernetes.NamedFormat":
        return Range(1, FORMAT_BYTES_MAX).scaled(STRING_FACTOR), None
    if left.type.name == "kubernetes.URL":
        return Range(1, 1 if right.size is None else right.size.max).scaled(STRING_FACTOR), None
    return None


def _compare(arguments: Arguments) -> Estimate:
    """The smaller of two is read. Its minimum size counts as 1, or as 0 where its maximum is 0."""
    most = min(argument.size_or_unknown.max for argument in arguments[:2])
    return Range(1 if most else 0, most).scaled(STRING_FACTOR), None


def _concatenate(arguments: Arguments) -> Estimate:
    size = arguments[0].size_or_unknown + arguments[1].size_or_unknown
    return size.scaled(STRING_FACTOR), size


def _concatenate_lists(arguments: Arguments) -> Estimate:
    return ONE, arguments[0].size_or_unknown + arguments[1].size_or_unknown


def _to_bytes(arguments: Arguments) -> Estimate:
    size = arguments[0].size_or_unknown
    return size.scaled(STRING_FACTOR), Range(size.min, (size.max * 4) % 2**64)


def _to_text(arguments: Arguments) -> Estimate:
    size = arguments[0].size_or_unknown
    return size.scaled(STRING_FACTOR), Range(size.min // 4, size.max)


def _quote(arguments: Arguments) -> Estimate:
    size = arguments[0].size_or_unknown
    return size.scaled(STRING_FACTOR), Range(size.min + 2, (size.max * 2 + 2) % 2**64)


def _allocated(factor: float, size: Range) -> Estimate:
    """A list of this size is made, with `factor` steps for each element."""
    return size.scaled(factor) + exactly(LIST_BASE + 1), size


def _slice(arguments: Arguments) -> Estimate:
    start, end = arguments[1].literal(0), arguments[2].literal(arguments[0].size_or_unknown.max)
    return _allocated(1, exactly((end - start) % 2**64))


def _range(arguments: Arguments) -> Estimate:
    return _allocated(1, exactly(arguments[0].literal(LARGEST)))


def _reverse(arguments: Arguments) -> Estimate:
    return _allocated(1, arguments[0].size_or_unknown)


def _flatten(arguments: Arguments) -> Estimate:
    depth = arguments[1].literal(LARGEST) if len(arguments) > 1 else 1
    return _allocated(float(depth), arguments[0].size_or_unknown)


def _pairwise(index: int, factor: float) -> Estimator:
    """Every element is compared with every other."""

    def estimator(arguments: Arguments) -> Estimate:
        size = arguments[index].size_or_unknown
        return _allocated(factor, size * size)

    return estimator


def _sets(factor: float) -> Estimator:
    def estimator(arguments: Arguments) -> Estimate:
        return (arguments[0].size_or_unknown * arguments[1].size_or_unknown).scaled(factor) + ONE, None

    return estimator


def _sorts() -> dict[str, Estimator]:
    kinds = {"int": 2.0, "uint": 2.0, "double": 2.0, "bool": 2.0, "string": 2 + STRING_FACTOR, "bytes": 2 + STRING_FACTOR}
    kinds |= {f"google.protobuf.{name}": 2.0 for name in ("Duration", "Timestamp")}
    found = {f"list_{kind}_sort": _pairwise(0, factor) for kind, factor in kinds.items()}
    return found | {f"list_{kind}_sortByAssociatedKeys": _pairwise(1, factor) for kind, factor in kinds.items()}


_BY_OVERLOAD: dict[str, Estimator] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _pairwise(0, 2),
    **_sorts(),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_ip": _fixed(1),
    "cidr_contains_ip_string": _contains_address(is_text=True, is_network=False),
    "cidr_contains_cidr_string": _contains_address(is_text=True, is_network=True),
}
_BY_FUNCTION: dict[str, Estimator] = {
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse),
    "includes": _includes,
    "url": _scan(0, keeps_size=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _scan(0, keeps_size=True)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search),
    **dict.fromkeys(("ip", "isIP", "cidr", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scan(0)),
    "ip.isCanonical": _scan(0, 2),
    "containsIP": _contains_address(is_text=False, is_network=False),
    "containsCIDR": _contains_address(is_text=False, is_network=True),
    "validate": _validate,
    "_==_": _equal,
}
_STANDARD: dict[str, Estimator] = {
    "string_format": _scan(0),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quote,
    # Upstream uses the size of the prefix or suffix, although evaluation charges for the text.
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _scan(1)),
    "in_list": lambda arguments: (arguments[1].size_or_unknown, None),
    "matches_string": _matches,
    "contains_string": _contains,
    "add_list": _concatenate_lists,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenate),
    **dict.fromkeys(("equals", "not_equals"), _compare),
    **{f"{verb}_{kind}": _compare for verb in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")},
}
