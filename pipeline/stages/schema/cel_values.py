"""A JSON value as rules see it: texts with a format become times, durations or bytes, and fields get their CEL names.

Follows kubernetes/apiserver pkg/cel/common/valuesunstructured.go. Lists of type set or map compare without their order.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from typing import Any, Final

from ...cel.checking.schema_types import escape
from ...cel.evaluation.times import parse_timestamp
from ...cel.syntax.builder import RESERVED
from ...cel.values import CelError, Duration, MapList, SetList, Timestamp, Unknown, Value
from .formats import duration_of
from .props import Props

_META: Final = Props(type="object", properties={"name": Props(type="string"), "generateName": Props(type="string")})
_TEXT: Final = Props(type="string")
_WANTED: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "object": ((dict,), "a map for the provided schema with type=object"),
    "array": ((list,), "an array for the provided schema with type=array"),
    "string": ((str,), "string"),
    "number": ((int, float), "float"),
    "integer": ((int,), "int"),
    "boolean": ((bool,), "bool"),
}
_GO: Final[dict[type, str]] = {
    str: "string",
    int: "int64",
    float: "float64",
    bool: "bool",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}
_CHANGED_TEXTS: Final = frozenset(("duration", "date", "date-time", "byte"))


def with_meta(schema: Props) -> Props:
    """The schema of a resource with the fields that each resource has."""
    values = {name: getattr(schema, name) for name in Props.__slots__}
    properties = {**schema.properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": schema.properties.get("metadata", _META)}
    return Props(**{**values, "properties": properties})


def cel_value(value: Any, schema: Props) -> Value:
    """A value of this schema as a CEL value; Unknown where it holds a value that its schema does not describe."""
    problem = mismatch(value, schema)
    return Unknown(problem) if problem else _converted(value, schema)


def mismatch(value: Any, schema: Props) -> str:
    """Upstream's error for a value that its schema does not describe; empty for all others."""
    if value is None:
        return "" if schema.nullable else "invalid data, got null for schema with nullable=false"
    kind = value.__class__
    if schema.is_int_or_string:
        return "" if kind in (str, int) else "invalid data, expected XIntOrString value to be either a string or integer"
    wanted, words = _WANTED.get(schema.type, ((kind,), ""))
    if kind in wanted:
        return ""
    return (
        f"invalid data, expected {words}"
        if schema.type in ("object", "array")
        else f"invalid data, expected {words}, got {_GO[kind]}"
    )


def _converted(value: Any, schema: Props) -> Value:
    if value is None or schema.is_int_or_string:
        return value
    if schema.is_embedded_resource and schema.type == "object":
        schema = with_meta(schema)
    match schema.type:
        case "object":
            return _object(value, schema)
        case "array":
            items = schema.items
            found = value if items is None else [cel_value(item, items) for item in value]
            match schema.list_type:
                case "set":
                    return SetList(found)
                case "map":
                    return MapList(found, tuple(escape(name) or name for name in schema.list_map_keys))
            return found
        case "string":
            return _text(value, schema.format) if schema.format in _CHANGED_TEXTS else value
        case "number":
            return float(value)
    return value


def _object(value: dict[str, Any], schema: Props) -> Value:
    if schema.properties:
        made: dict[str, Any] = {}
        for name, item in value.items():
            below = schema.properties.get(name)
            if item is None:
                continue  # To a rule, a field that is null is absent.
            made[(escape(name) or name) if below is not None else name] = item if below is None else cel_value(item, below)
            if below is not None and name in RESERVED:
                made[name] = made[f"__{name}__"]  # Rules may write a reserved word either way.
        return made
    values = schema.values
    return value if values is None else {name: cel_value(item, values) for name, item in value.items()}


def _text(value: str, format_: str) -> Value:
    try:
        found: Timestamp | Duration | bytes | None
        if format_ == "byte":
            found = urlsafe_b64decode(value)
        elif format_ == "duration":
            found = duration_of(value)
        else:
            found = parse_timestamp(value if format_ == "date-time" else f"{value}T00:00:00Z")
    except (CelError, binascii.Error):
        found = None
    return Unknown(f"a text that is not of the format {format_}") if found is None else found
