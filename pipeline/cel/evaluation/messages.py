"""The well-known protobuf messages, which become plain values at construction (cel-go common/types/pb)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from ..types import Type
from ..values import INT_MAX, INT_MIN, CelError, CelMap, Constructed, Duration, Timestamp, UInt, Value

PREFIX = "google.protobuf."
# The types of mutations (kubernetes/apiserver pkg/cel/mutation/typeresolver.go).
CONSTRUCTED = ("Object", "JSONPatch")
_JSON_INT_MAX = 2**53 - 1


def _scalar(default: Value) -> Callable[[Mapping[str, Value]], Value]:
    return lambda fields: fields.get("value", default) if fields.get("value", default) is not None else default


def _float(fields: Mapping[str, Value]) -> float:
    value = fields.get("value") or 0.0
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _int32(fields: Mapping[str, Value]) -> int:
    value = fields.get("value") or 0
    if not -(2**31) <= value < 2**31:
        raise CelError("integer overflow")
    return int(value)


def _uint32(fields: Mapping[str, Value]) -> UInt:
    value = fields.get("value") or UInt(0)
    if value >= 2**32:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _timestamp(fields: Mapping[str, Value]) -> Timestamp:
    return Timestamp((fields.get("seconds") or 0) * 10**9 + (fields.get("nanos") or 0))


def _duration(fields: Mapping[str, Value]) -> Duration:
    return Duration(max(INT_MIN, min(INT_MAX, (fields.get("seconds") or 0) * 10**9 + (fields.get("nanos") or 0))))


def _value(fields: Mapping[str, Value]) -> Value:
    for kind, value in fields.items():
        return None if kind == "null_value" else json(value)
    return None


def _any(fields: Mapping[str, Value]) -> Value:
    shown = []
    if fields.get("type_url"):
        shown.append(f'type_url:"{fields["type_url"]}"')
    if fields.get("value"):
        text = "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\x{byte:02x}" for byte in fields["value"])
        shown.append(f'value:"{text}"')
    raise CelError(f"unsupported conversion to ref.Val: (*dynamicpb.Message){' '.join(shown)}")


def json(value: Value) -> Value:
    """A value in its JSON form: numbers are doubles, and ints that a double cannot hold are text."""
    if value.__class__ is int or value.__class__ is UInt:
        return float(value) if abs(value) <= _JSON_INT_MAX else str(int(value))
    if value.__class__ is list:
        return [json(each) for each in value]
    if value.__class__ is dict:
        return {key: json(each) for key, each in value.items()}
    if value.__class__ is CelMap:
        raise CelError("bad key type")
    return value


_MESSAGES: dict[str, Callable[[Mapping[str, Value]], Value]] = {
    "Any": _any,
    "BoolValue": _scalar(False),
    "BytesValue": _scalar(b""),
    "DoubleValue": _scalar(0.0),
    "Duration": _duration,
    "FloatValue": _float,
    "Int32Value": _int32,
    "Int64Value": _scalar(0),
    "ListValue": lambda fields: json(fields.get("values") or []),
    "StringValue": _scalar(""),
    "Struct": lambda fields: json(fields.get("fields") or {}),
    "Timestamp": _timestamp,
    "UInt32Value": _uint32,
    "UInt64Value": _scalar(UInt(0)),
    "Value": _value,
}


def construct(name: str, fields: Mapping[str, Value]) -> Value:
    """The value of `google.protobuf.NAME{...}`, or of a patch or a part of one. Raises CelError if it has no value."""
    plain = name.lstrip(".")
    if plain.partition(".")[0] in CONSTRUCTED:
        return Constructed(Type(plain), fields)
    make = _MESSAGES.get(plain.removeprefix(PREFIX))
    if make is None:
        raise CelError(f"unknown type: {name}")
    return make(fields)
