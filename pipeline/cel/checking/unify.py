"""The relations of CEL types: which types are assignable to which, and the bindings of the type parameters of overloads.

Mirrors cel-go checker/types.go, quirks included, so that it accepts exactly what kube-apiserver accepts. Wrappers, such as
`wrapper(int)` of google.protobuf.Int64Value, are their inner type or null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..types import BOOL, BYTES, DOUBLE, ERROR, INT, NULL, STRING, UINT, Type, parameter

ANY = Type("google.protobuf.Any")
WRAPPER, OPTIONAL = "wrapper", "optional_type"
_SCALARS = frozenset(kind.name for kind in (BOOL, BYTES, DOUBLE, INT, STRING, UINT))
_NEVER_NULL = _SCALARS | {"list", "map", "type"}
# The names of these types in messages; everywhere else they have their full names (cel-go checker/format.go).
_SHOWN = {
    "google.protobuf.Any": "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}


def shown(type_: Type) -> str:
    """The type in the checker's messages: `timestamp`, `list(null)`; it may differ from `str()`."""
    if not type_.parameters:
        return type_.name if type_.is_parameter else _SHOWN.get(type_.name, type_.name)
    return f"{type_.name}({', '.join(map(shown, type_.parameters))})"


def is_dyn(type_: Type) -> bool:
    """Whether the type is dyn or Any, so that it allows every value."""
    return type_.name in ("dyn", ANY.name) and not type_.is_parameter


def is_loose(type_: Type) -> bool:
    """Whether the type agrees with all others: dyn, or the type of a node that has an error already."""
    return is_dyn(type_) or type_.name == ERROR.name


def unwrapped(type_: Type) -> Type:
    """The type itself, or the inner type of a wrapper."""
    return type_.parameters[0] if type_.name == WRAPPER else type_


def _pairwise(relation: Callable[[Type, Type], bool], left: Type, right: Type) -> bool:
    """Whether the parameters of two types are related, one by one."""
    return len(left.parameters) == len(right.parameters) and all(map(relation, left.parameters, right.parameters))


def is_same(left: Type, right: Type) -> bool:
    """Whether two types are exactly the same, apart from nullability."""
    if left is right:
        return True
    left, right = unwrapped(left), unwrapped(right)
    return left.name == right.name and left.is_parameter == right.is_parameter and _pairwise(is_same, left, right)


def is_equivalent(left: Type, right: Type) -> bool:
    """As `is_same`, with any type parameter the same as any other."""
    if left.is_parameter or right.is_parameter:
        return left.is_parameter and right.is_parameter
    left, right = unwrapped(left), unwrapped(right)
    return left.name == right.name and _pairwise(is_equivalent, left, right)


def _is_less_specific(left: Type, right: Type) -> bool:
    """Whether `left` is `right`, or is less specific."""
    if is_dyn(left) or left.is_parameter:
        return True
    if is_dyn(right) or right.is_parameter:
        return False
    left, right = unwrapped(left), unwrapped(right)
    if left.name != right.name or left.name == "type":
        return left.name == right.name
    return _pairwise(_is_less_specific, left, right)


def more_general(left: Type, right: Type) -> Type:
    """The less specific one of two types that agree."""
    return left if _is_less_specific(left, right) else right


def _may_be_null(type_: Type) -> bool:
    return type_.name not in _NEVER_NULL


class Bindings:
    """The bindings of the type parameters in one expression.

    Only a successful test keeps its bindings: a trail of bindings allows undoing the others.
    """

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        """A type parameter that is not in use yet."""
        self._count += 1
        return parameter(f"_var{self._count - 1}")

    def assignable(self, target: Type, source: Type) -> bool:
        """Whether the types agree; binds the type parameters that this needs."""
        return self.all_assignable((target,), (source,))

    def all_assignable(self, targets: Sequence[Type], sources: Sequence[Type]) -> bool:
        """Whether the types agree pair by pair. Both sequences must have equal lengths."""
        mark = len(self._trail)
        if len(targets) == len(sources) and all(map(self._agree, targets, sources)):
            return True
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def resolve(self, type_: Type, free: Type | None = None) -> Type:
        """The type with all bindings inserted; unbound parameters become `free` where it is given."""
        while type_.is_parameter:
            bound = self._bound.get(type_.name)
            if bound is None:
                return type_ if free is None else free
            type_ = bound
        if not type_.is_open:
            return type_
        # A generator would double the depth of nested calls.
        return Type(type_.name, tuple(map(partial(self.resolve, free=free), type_.parameters)))

    def instance(self, types: Sequence[Type]) -> tuple[Type, ...]:
        """The types of a signature with fresh parameters for the declared ones."""
        renamed: dict[str, Type] = {}
        return tuple(self._renamed(each, renamed) for each in types)

    def _renamed(self, type_: Type, renamed: dict[str, Type]) -> Type:
        if type_.is_parameter:
            if type_.name not in renamed:
                renamed[type_.name] = self.fresh()
            return renamed[type_.name]
        if not type_.parameters:
            return type_
        return Type(type_.name, tuple(self._renamed(each, renamed) for each in type_.parameters))

    def _bind(self, name: str, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _agree(self, left: Type, right: Type) -> bool:
        if right.is_parameter:
            valid, was_bound = self._substitutes(left, right)
            if valid or was_bound:
                return valid
        if left.is_parameter:
            return self._substitutes(right, left)[0]
        if is_loose(left) or is_loose(right):
            return True
        if left.name == NULL.name:
            return _may_be_null(right)
        if right.name == NULL.name:
            return _may_be_null(left)
        left, right = unwrapped(left), unwrapped(right)
        if left.name != right.name or left.name == "type":
            return left.name == right.name
        return _pairwise(self._agree, left, right)

    def _substitutes(self, type_: Type, free: Type) -> tuple[bool, bool]:
        """Whether `type_` may stand for the parameter `free`, and whether `free` was bound; the more general type stays bound."""
        if type_.is_parameter and type_.name == free.name:
            return True, True
        bound = self._bound.get(free.name)
        if bound is None:
            if self._occurs(free, type_):
                return False, False
            self._bind(free.name, type_)
            return True, False
        if is_same(type_, bound):
            return True, True
        if not self._agree(type_, bound):
            return False, True
        general = more_general(type_, bound)
        if not self._occurs(free, general):
            self._bind(free.name, general)
        return True, True

    def _occurs(self, free: Type, within: Type) -> bool:
        """Whether a parameter is part of a type; binding it to that type would make the type infinite."""
        while within.is_parameter:
            if within.name == free.name:
                return True
            bound = self._bound.get(within.name)
            if bound is None:
                return False
            within = bound
        return any(map(partial(self._occurs, free), within.parameters))
