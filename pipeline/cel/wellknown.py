"""The protobuf messages that every CEL environment knows: each with its type and its fields (cel-go common/types/pb)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .checking.unify import ANY, WRAPPER
from .types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, list_of, map_of


@dataclass(frozen=True)
class Message:
    """`type` is the checker's type of `google.protobuf.NAME{...}`: wrappers are nullable scalars, JSON is dyn."""

    type: Type
    fields: Mapping[str, Type] = field(default_factory=dict)


def _wrapper(inner: Type) -> Message:
    return Message(Type(WRAPPER, (inner,)), {"value": inner})


_OBJECT, _LIST = map_of(STRING, DYN), list_of(DYN)
_TIME = {"seconds": INT, "nanos": INT}
_VALUE = {
    "null_value": INT,
    "number_value": DOUBLE,
    "string_value": STRING,
    "bool_value": BOOL,
    "struct_value": _OBJECT,
    "list_value": _LIST,
}

MESSAGES: dict[str, Message] = {
    f"google.protobuf.{name}": message
    for name, message in {
        "Any": Message(ANY, {"type_url": STRING, "value": BYTES}),
        "BoolValue": _wrapper(BOOL),
        "BytesValue": _wrapper(BYTES),
        "DoubleValue": _wrapper(DOUBLE),
        "Duration": Message(DURATION, _TIME),
        "Empty": Message(Type("google.protobuf.Empty")),
        "FloatValue": _wrapper(DOUBLE),
        "Int32Value": _wrapper(INT),
        "Int64Value": _wrapper(INT),
        "ListValue": Message(_LIST, {"values": _LIST}),
        "StringValue": _wrapper(STRING),
        "Struct": Message(_OBJECT, {"fields": _OBJECT}),
        "Timestamp": Message(TIMESTAMP, _TIME),
        "UInt32Value": _wrapper(UINT),
        "UInt64Value": _wrapper(UINT),
        "Value": Message(DYN, _VALUE),
    }.items()
}
