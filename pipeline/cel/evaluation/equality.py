"""`==` and `in` of CEL: unlike kinds are unequal, numbers compare by value, booleans are not numbers (cel-go common/types)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from ..values import CelError, CelMap, Constructed, Opaque, Optional, SparseMap, UInt, Unknown, UnorderedList, Value

NUMBERS: Final = frozenset((int, float, UInt))
_HOLDERS: Final = frozenset((list, dict, SparseMap, CelMap, Optional))

# Pairs of lists, maps or optionals whose comparison has ended, by identity, within one comparison. `[a, a]`, built again and again,
# has as many paths as 2 to the power of its depth, but few values. The pair is kept, so that no other value gets its identity.
Pairs: TypeAlias = dict[tuple[int, int], tuple["bool | Unknown", Value, Value]]


class UnknownOperandError(Exception):
    """An unknown is an operand of a comparison; `compare` finds out whether it decides the result."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown)
        self.unknown = unknown


def equal(left: Value, right: Value, known: Pairs | None = None) -> bool:
    """`left == right` for values without unknowns in them. Raises UnknownOperandError on meeting one, CelError on opaque types."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is str or kind is int or kind is bool or kind is float:
            return left == right  # type: ignore[no-any-return]
        if kind is dict:
            return _equal_maps(left, right, known)
        if kind is list:
            return _equal_lists(left, right, known)
    return _equal_rarely(left, right, known)


def _equal_lists(left: list[Value], right: list[Value], known: Pairs | None) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, UnorderedList):
        return _equal_unordered(left, right, known)
    for one, other in zip(left, right, strict=True):
        if one.__class__ in _HOLDERS:
            known = {} if known is None else known
            if not _equal_parts(one, other, known):
                return False
        elif not equal(one, other):
            return False
    return True


def _equal_unordered(left: UnorderedList, right: list[Value], known: Pairs | None) -> bool:
    """Whether two lists of one length have equal elements, each with a key of its own."""
    if unknown := unknown_within([left, right]):
        raise UnknownOperandError(unknown)
    by_key = {left.key_of(each): each for each in left}
    for each in right:
        key = left.key_of(each)
        if key not in by_key or not equal(by_key[key], each, known):
            return False
    return len({left.key_of(each) for each in right}) == len(by_key)


def _equal_parts(one: Value, other: Value, known: Pairs) -> bool:
    """Whether two parts of the operands are equal. An unequal pair ends the whole comparison, so only equal pairs are cached."""
    pair = (id(one), id(other))
    if pair in known:
        return True
    if not equal(one, other, known):
        return False
    known[pair] = (True, one, other)
    return True


def _equal_rarely(left: Value, right: Value, known: Pairs | None) -> bool:
    kind, other = left.__class__, right.__class__
    if kind is Unknown or other is Unknown:
        raise UnknownOperandError(left if kind is Unknown else right)
    if kind is CelError or other is CelError:
        raise left if kind is CelError else right
    if kind in NUMBERS and other in NUMBERS:
        return equal_numbers(left, right)
    if left is None or right is None:
        return left is right
    if isinstance(left, Opaque):
        return left.equals(right)
    if SparseMap in (kind, other) and (unknown := unknown_within([left, right])):
        raise UnknownOperandError(unknown)
    if Constructed in (kind, other) and (kind is not other or left.type != right.type):
        return False
    if isinstance(left, dict | CelMap) and isinstance(right, dict | CelMap):
        return _equal_maps(left, right, known)
    if kind is not other:
        return False
    if kind is Optional:
        return left.has_value == right.has_value and (not left.has_value or equal(left.value, right.value, known))
    return bool(left == right)


def equal_numbers(left: int | float, right: int | float) -> bool:
    """Numbers of any two kinds. An int beyond 2**53 is rounded before it is compared with a double, as in Go."""
    if left.__class__ is float:
        return left == float(right)
    if right.__class__ is float:
        return float(left) == right
    return left == right


def _equal_maps(left: Value, right: Value, known: Pairs | None) -> bool:
    if len(left) != len(right):
        return False
    for key, value in entries(left):
        found, other = find(right, key)
        if not found:
            return False
        if value.__class__ in _HOLDERS:
            known = {} if known is None else known
            if not _equal_parts(value, other, known):
                return False
        elif not equal(value, other):
            return False
    return True


def entries(mapping: Value) -> list[tuple[Value, Value]]:
    """The entries of a map of either kind."""
    return list(mapping.entries.values() if mapping.__class__ is CelMap else mapping.items())


def find(mapping: Value, key: Value) -> tuple[bool, Value]:
    """Whether a map has a key, and its value. 1 finds 1u and 1.0 finds both; plain JSON maps have only string keys."""
    if mapping.__class__ is CelMap:
        entry = mapping.find(key)
        return (False, None) if entry is None else (True, entry[1])
    if key.__class__ is str and key in mapping:
        return True, mapping[key]
    return False, None


def contains(element: Value, container: Value) -> bool:
    """`element in container` for values without unknowns in them. Raises as `equal`, and CelError without a container."""
    if element.__class__ is Unknown:
        raise UnknownOperandError(element)
    kind = container.__class__
    if kind is list:
        if element.__class__ is str:
            if element in container:
                return True
            if Unknown in map(type, container):
                raise UnknownOperandError(next(each for each in container if each.__class__ is Unknown))
            return False
        if element.__class__ not in _HOLDERS:
            return any(equal(element, each) for each in container)
        known: Pairs = {}
        return any(equal(element, each, known) for each in {id(each): each for each in container}.values())
    if kind is dict or kind is CelMap or isinstance(container, dict):
        found, value = find(container, element)
        if kind is SparseMap and value.__class__ is Unknown:
            raise UnknownOperandError(value)
        return found
    if kind is Unknown:
        raise UnknownOperandError(container)
    raise CelError("no such overload")


def compare(left: Value, right: Value, known: Pairs | None = None) -> bool | Unknown:
    """`left == right` where unknowns may stand anywhere: known if the known parts decide."""
    if left.__class__ not in _HOLDERS or right.__class__ not in _HOLDERS:
        return _compare(left, right, {})
    known = {} if known is None else known
    pair = (id(left), id(right))
    if pair not in known:
        known[pair] = (_compare(left, right, known), left, right)
    return known[pair][0]


def _compare(left: Value, right: Value, known: Pairs) -> bool | Unknown:
    kind, other = left.__class__, right.__class__
    if kind is Unknown:
        return left.merge(right) if other is Unknown else left  # type: ignore[no-any-return]
    if other is Unknown:
        return right  # type: ignore[no-any-return]
    if isinstance(left, UnorderedList) and other is list:
        return unknown_within([left, right]) or equal(left, right)
    if kind is list and other is list:
        return len(left) == len(right) and _all(compare(one, two, known) for one, two in zip(left, right, strict=True))
    if SparseMap in (kind, other):  # the number of its keys is unknown
        return unknown_within([left, right]) or equal(left, right)
    if isinstance(left, dict | CelMap) and isinstance(right, dict | CelMap):
        if len(left) != len(right):
            return False
        pairs = [(value, *find(right, key)) for key, value in entries(left)]
        return all(found for _, found, _ in pairs) and _all(compare(value, two, known) for value, _, two in pairs)
    if kind is Optional and other is Optional and left.has_value and right.has_value:
        return compare(left.value, right.value, known)
    return equal(left, right)


def search(element: Value, container: Value) -> bool | Unknown:
    """`element in container` where the elements may be unknown or hold unknowns."""
    if container.__class__ is not list:
        try:
            return contains(element, container)
        except UnknownOperandError:
            return container[element]  # type: ignore[no-any-return]
    unknown: Unknown | None = None
    for each in {id(each): each for each in container}.values():
        answer = compare(element, each)
        if answer is True:
            return True
        if isinstance(answer, Unknown):
            unknown = answer if unknown is None else unknown.merge(answer)
    return False if unknown is None else unknown


def _all(answers: object) -> bool | Unknown:
    """False if any answer is, otherwise unknown if any is."""
    unknown: Unknown | None = None
    for answer in answers:  # type: ignore[attr-defined]
        if answer is False:
            return False
        if isinstance(answer, Unknown):
            unknown = answer if unknown is None else unknown.merge(answer)
    return True if unknown is None else unknown


def unknown_within(value: Value) -> Unknown | None:
    """The unknowns anywhere in a value, merged, or None. Each shared part is searched once."""
    merged: Unknown | None = None
    pending = [value]
    seen: dict[int, Value] = {}  # kept, so that no other value gets its identity
    while pending:
        part = pending.pop()
        kind = part.__class__
        if kind is Unknown:
            merged = part if merged is None else merged.merge(part)
        elif kind in _HOLDERS and id(part) not in seen:
            seen[id(part)] = part
            pending += _parts(part)
    return merged


def _parts(holder: Value) -> Iterable[Value]:
    """The parts of a list, map or optional."""
    kind = holder.__class__
    if kind is list:
        return holder  # type: ignore[no-any-return]
    if kind is CelMap:
        return [each for _, each in holder.entries.values()]
    if kind is Optional:
        return (holder.value,)
    return holder.values()  # type: ignore[no-any-return]
