"""How libraries declare functions: each overload is declared together with the Python function that implements it.

cel-go guards every overload by the types of its declared arguments: exactly for scalars and opaque types, and for lists by their
first element (cel-go common/types/types.go, IsAssignableRuntimeType). Arguments that pass no guard give `no such overload`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ..functions import Function, Overload
from ..types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from ..values import Duration, Opaque, Optional, Timestamp, UInt, Value, no_such_overload
from .costs import Cost

Declared: TypeAlias = Type | type[Opaque]
Implementation: TypeAlias = Callable[..., Value]

COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)

_CLASSES: dict[str, type] = {
    INT.name: int,
    UINT.name: UInt,
    DOUBLE.name: float,
    BOOL.name: bool,
    STRING.name: str,
    BYTES.name: bytes,
    DURATION.name: Duration,
    TIMESTAMP.name: Timestamp,
    "list": list,
    "optional_type": Optional,
}


COMPARABLE_CLASSES = frozenset(_CLASSES[kind.name] for kind in COMPARABLE)


@dataclass(frozen=True, slots=True)
class Variant:
    """One overload, the classes its arguments must have (None: any), and its implementation."""

    overload: Overload
    classes: tuple[type | None, ...]
    call: Implementation


def member(id: str, arguments: tuple[Declared, ...], result: Declared, call: Implementation) -> Variant:  # noqa: A002
    """An overload that is called on its first argument: `'a'.charAt(0)`."""
    return _variant(id, arguments, result, call, is_member=True)


def plain(id: str, arguments: tuple[Declared, ...], result: Declared, call: Implementation) -> Variant:  # noqa: A002
    """An overload that is called by its name: `quantity('1Gi')`."""
    return _variant(id, arguments, result, call, is_member=False)


def _variant(id_: str, arguments: tuple[Declared, ...], result: Declared, call: Implementation, is_member: bool) -> Variant:
    overload = Overload(id_, tuple(map(_type, arguments)), _type(result), is_member)
    return Variant(overload, tuple(map(_class, arguments)), call)


def _type(declared: Declared) -> Type:
    return declared if isinstance(declared, Type) else declared.cel_type


def _class(declared: Declared) -> type | None:
    if not isinstance(declared, Type):
        return declared
    return None if declared.is_parameter else _CLASSES.get(declared.name)


def function(name: str, *variants: Variant, cost: Cost | None = None) -> Function:
    """The function `name` with these overloads; `cost` as in `Function`."""
    return Function(name, tuple(variant.overload for variant in variants), dispatcher(name, variants), cost)


def dispatcher(name: str, variants: tuple[Variant, ...]) -> Implementation:
    """The callable that runs the first variant whose guards accept the arguments; fewer arguments get a faster callable."""
    if any(_has_element_guard(variant) for variant in variants):
        return _dispatch_by_guards(name, variants)
    if len(variants) > 1:
        return _dispatch_by_classes(name, variants)
    (variant,) = variants
    run = variant.call
    if len(variant.classes) == 1:
        (only,) = variant.classes

        def call_unary(argument: Value) -> Value:
            if only is None or argument.__class__ is only:
                return run(argument)
            raise no_such_overload(name, argument)

        return call_unary
    if len(variant.classes) == 2:
        left, right = variant.classes

        def call_binary(first: Value, second: Value) -> Value:
            if (left is None or first.__class__ is left) and (right is None or second.__class__ is right):
                return run(first, second)
            raise no_such_overload(name, first, second)

        return call_binary
    return _dispatch_by_guards(name, variants)


def _dispatch_by_classes(name: str, variants: tuple[Variant, ...]) -> Implementation:
    if any(None in variant.classes for variant in variants):
        return _dispatch_by_guards(name, variants)
    table = {variant.classes: variant.call for variant in reversed(variants)}

    def call(*arguments: Value) -> Value:
        run = table.get(tuple(map(type, arguments)))
        if run is None:
            raise no_such_overload(name, *arguments)
        return run(*arguments)

    return call


def _dispatch_by_guards(name: str, variants: tuple[Variant, ...]) -> Implementation:
    def call(*arguments: Value) -> Value:
        for variant in variants:
            if len(arguments) == len(variant.classes) and all(map(_passes, arguments, variant.classes, variant.overload.arguments)):
                return variant.call(*arguments)
        raise no_such_overload(name, *arguments)

    return call


def _has_element_guard(variant: Variant) -> bool:
    return any(_element_class(declared) is not None for declared in variant.overload.arguments)


def _element_class(declared: Type) -> type | None:
    """The class that the first element of a list must have, None if it may have any."""
    if declared.name != "list" or declared.parameters[0].is_parameter:
        return None
    return _CLASSES.get(declared.parameters[0].name)


def _passes(argument: Value, wanted: type | None, declared: Type) -> bool:
    if wanted is not None and argument.__class__ is not wanted:
        return False
    element = _element_class(declared)
    return element is None or not argument or argument[0].__class__ is element
