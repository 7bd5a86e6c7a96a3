"""Fields, indexes and presence: the result of a selection on every kind of value (cel-go interpreter/attributes.go).

Each function takes values and returns one, or raises CelError in cel-go's words. Any selection from an `Unknown` is that `Unknown`.
"""

from __future__ import annotations

from ..library.gotext import format_float
from ..types import Type
from ..values import NONE, CelError, CelMap, Duration, Opaque, Optional, SparseMap, Timestamp, UInt, Unknown, Value
from .conversions import to_type
from .equality import find

KEY_KINDS = frozenset((str, int, UInt, bool, float))
# Go's names for the types of CEL's values; a few messages show them.
_GO_TYPES = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    None.__class__: "types.Null",
    list: "*types.baseList",
    dict: "*types.baseMap",
    CelMap: "*types.baseMap",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    Optional: "*types.Optional",
    Type: "*types.Type",
}


def go_type(value: Value) -> str:
    """The name of the Go type that stands for this value in cel-go."""
    name = _GO_TYPES.get(value.__class__)
    if name is None:
        name = f"cel.{value.cel_type.name.rpartition('.')[2]}" if isinstance(value, Opaque) else "*types.baseMap"
    return name


def key_text(key: Value) -> str:
    """A key as Go prints it with %v."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return format_float(key) if isinstance(key, float) else str(int(key))


def select(operand: Value, field: str) -> Value:
    """`operand.field`. A selection from an optional is an optional."""
    kind = operand.__class__
    if kind is dict or isinstance(operand, dict):
        try:
            return operand[field]
        except KeyError:
            raise CelError(f"no such key: {field}") from None
    if kind is Unknown:
        return operand
    if kind is Optional:
        return select_optional(operand, field)
    if kind is CelError:
        raise operand
    if kind is CelMap:
        return index(operand, field)
    if kind is list:
        raise CelError("unsupported index type 'string' in list")
    raise CelError(f"no such key: {field}")


def has(operand: Value, field: str) -> bool | Unknown:
    """`has(operand.field)`: whether the key is there, even with null; false on null and scalars, as in Kubernetes."""
    kind = operand.__class__
    if kind is SparseMap and operand.get(field).__class__ is Unknown:
        return operand[field]  # type: ignore[no-any-return]
    if kind is dict or isinstance(operand, dict):
        return field in operand
    if kind is Unknown:
        return operand  # type: ignore[no-any-return]
    if kind is Optional:
        return operand.has_value and has(operand.value, field)
    if kind is CelError:
        raise operand
    if kind is CelMap:
        return find(operand, field)[0]
    if kind is list:
        raise CelError("unsupported index type 'string' in list")
    return False


def select_optional(operand: Value, field: str) -> Value:
    """`operand.?field`, and `operand.field` once the operand is an optional: an empty optional if the field is absent."""
    if operand.__class__ is Optional:
        if not operand.has_value:
            return NONE
        operand = operand.value
    present = has(operand, field)
    if present is True:
        return optional_of(select(operand, field))
    return NONE if present is False else present


def optional_of(value: Value) -> Value:
    """An optional with this value; an unknown stays unknown."""
    return value if value.__class__ is Unknown else Optional(value)


def index(operand: Value, key: Value) -> Value:
    """`operand[key]`: a list by position, a map by key. An index into an optional is an optional."""
    kind = operand.__class__
    if kind is Optional:
        return index_optional(operand, key)
    found, value = _look_up(operand, key)
    if found:
        return value
    if kind is list:
        raise CelError(f"index out of bounds: {key_text(key)}")
    raise CelError(f"no such key: {key_text(key)}")


def index_optional(operand: Value, key: Value) -> Value:
    """`operand[?key]`, and `operand[key]` once the operand is an optional: an empty optional if the key is absent."""
    if operand.__class__ is Optional:
        if not operand.has_value:
            return NONE
        operand = operand.value
    found, value = _look_up(operand, key)
    return optional_of(value) if found else NONE


def _look_up(operand: Value, key: Value) -> tuple[bool, Value]:
    """Whether the key is present, and its value."""
    kind = operand.__class__
    if key.__class__ is Unknown:
        return True, key.merge(operand) if kind is Unknown else key
    if kind is Unknown:
        return True, operand
    for value in (operand, key):
        if value.__class__ is CelError:
            raise value
    if key.__class__ not in KEY_KINDS:
        raise CelError(f"invalid qualifier type: {go_type(key)}")
    if kind is list:
        if key.__class__ is bool or not isinstance(key, int | float):
            raise CelError(f"unsupported index type '{to_type(key).name}' in list")
        if isinstance(key, float) and not (key.is_integer() and abs(key) < 2**63):
            raise CelError(f"unsupported index value {key_text(key)} in list")
        position = int(key)
        return (True, operand[position]) if 0 <= position < len(operand) else (False, None)
    if kind is dict or kind is CelMap or isinstance(operand, dict):
        return find(operand, key)
    return False, None
