"""The CEL types of data that a schema describes: OpenAPI v3 and the structural schemas of CustomResourceDefinitions.

Follows SchemaDeclType of kubernetes/apiserver pkg/cel/common/schemas.go. Fields get escaped names. Values whose type the
schema leaves open cannot be read at all. Every value has bounds on its size, which cost estimates use. Sizes are those of a request
of 3 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..syntax.builder import RESERVED
from ..types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, ObjectType, Type, list_of, map_of

REQUEST_BYTES_MAX = 3 * 1024 * 1024
# The shortest JSON of a value, in bytes, and for times the longest (pkg/cel/limits.go).
_STRING_BYTES, _BOOL_BYTES, _NUMBER_BYTES, _EMPTY_BYTES = 2, 4, 1, 2
_TIMES: dict[str, tuple[Type, int, int]] = {
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}
_SCALARS = {"boolean": (BOOL, _BOOL_BYTES), "number": (DOUBLE, _NUMBER_BYTES), "integer": (INT, _NUMBER_BYTES)}
_ROOT_FIELDS = ("kind", "apiVersion")
_METADATA_FIELDS = ("name", "generateName")
_TEXT: Mapping[str, Any] = {"type": "string"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True)
class SchemaType:
    """The declared type of a value: `bytes_min` is its shortest JSON, `elements_max` its longest text or most elements.

    Objects have `fields`; lists and maps have an `element`, the type of their elements or values.
    """

    type: Type
    bytes_min: int
    elements_max: int | None = None
    fields: Mapping[str, SchemaType] = field(default_factory=dict)
    element: SchemaType | None = None

    @property
    def is_object(self) -> bool:
        """Whether it is an object with declared fields; `object` is the name of objects that have no name yet."""
        return self.element is None and self.type.name not in _PLAIN

    def object_types(self) -> Iterator[ObjectType]:
        """This object and all objects within it, to be declared together."""
        if self.element is not None:
            yield from self.element.object_types()
        elif self.is_object:
            yield ObjectType(self.type.name, {name: each.type for name, each in self.fields.items()})
            for each in self.fields.values():
                yield from each.object_types()


_PLAIN = frozenset(each.name for each in (BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP))


def schema_type(schema: Mapping[str, Any], name: str, is_resource_root: bool = True) -> SchemaType | None:
    """The type of the values that a schema describes, None if it cannot be exposed to CEL.

    Objects are named by their path: `name`, `name.spec`, `name.spec.parts.@idx`. References must have been resolved. The root of a
    resource always has kind, apiVersion and metadata with name and generateName.
    """
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return SchemaType(DYN, 1, _text_max(schema, REQUEST_BYTES_MAX - 2))
    if is_resource_root:
        schema = _with_root_fields(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        extra = schema.get("additionalProperties")
        return _map(schema, extra, name) if isinstance(extra, Mapping) else _object(schema, name)
    if kind == "string":
        return _string(schema)
    if kind in _SCALARS:
        type_, bytes_min = _SCALARS[kind]
        return SchemaType(type_, bytes_min)
    return None


def _nested(schema: Mapping[str, Any], name: str) -> SchemaType | None:
    return schema_type(schema, name, bool(schema.get("x-kubernetes-embedded-resource")))


def _list(schema: Mapping[str, Any], name: str) -> SchemaType | None:
    items = schema.get("items")
    element = _nested(items, f"{name}.@idx") if isinstance(items, Mapping) else None
    if element is None:
        return None
    most = _limit(schema, "maxItems", (REQUEST_BYTES_MAX - 2) // (element.bytes_min + 1))
    return SchemaType(list_of(element.type), _EMPTY_BYTES, most, element=element)


def _map(schema: Mapping[str, Any], values: Mapping[str, Any], name: str) -> SchemaType | None:
    element = _nested(values, f"{name}.@elem")
    if element is None:
        return None
    most = _limit(schema, "maxProperties", (REQUEST_BYTES_MAX - 2) // (element.bytes_min + 6))
    return SchemaType(map_of(STRING, element.type), _EMPTY_BYTES, most, element=element)


def _object(schema: Mapping[str, Any], name: str) -> SchemaType:
    required = frozenset(schema.get("required") or ())
    fields: dict[str, SchemaType] = {}
    bytes_min = _EMPTY_BYTES
    for key, property_ in (schema.get("properties") or {}).items():
        escaped = escape(key)
        # A field whose name cannot be escaped counts only for the size.
        found = _nested(property_, f"{name}.{escaped or key}")
        if found is None:
            continue
        if escaped is not None:
            fields[escaped] = found
        if key in required and property_.get("default") is None:
            bytes_min += len(key.encode()) + found.bytes_min + 4
    return SchemaType(Type(name), bytes_min, fields=fields)


def _string(schema: Mapping[str, Any]) -> SchemaType:
    format_ = schema.get("format")
    if format_ in _TIMES:
        type_, shortest, longest = _TIMES[format_]
        return SchemaType(type_, shortest, longest)
    if format_ == "byte":
        return SchemaType(BYTES, _STRING_BYTES, _limit(schema, "maxLength", REQUEST_BYTES_MAX - 2))
    texts = [value for value in schema.get("enum") or () if isinstance(value, str)]
    longest = max((len(text.encode()) for text in texts), default=0) if schema.get("enum") else REQUEST_BYTES_MAX - 2
    return SchemaType(STRING, _STRING_BYTES, _text_max(schema, longest))


def _limit(schema: Mapping[str, Any], key: str, otherwise: int) -> int:
    written = schema.get(key)
    return otherwise if written is None else max(0, int(written))


def _text_max(schema: Mapping[str, Any], otherwise: int) -> int:
    """The longest text in bytes: maxLength counts code points, each of at most four."""
    return otherwise if schema.get("maxLength") is None else _limit(schema, "maxLength", 0) * 4


def _with_root_fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself if it has the fields of a resource, else the schema with minimal fields instead of its own."""
    properties = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    named = metadata.get("properties") or {}
    if (
        all((properties.get(key) or {}).get("type") == "string" for key in _ROOT_FIELDS)
        and metadata.get("type") == "object"
        and all((named.get(key) or {}).get("type") == "string" for key in _METADATA_FIELDS)
    ):
        return schema
    minimal = {"type": "object", "properties": dict.fromkeys(_METADATA_FIELDS, _TEXT)}
    return {**schema, "properties": {**properties, **dict.fromkeys(_ROOT_FIELDS, _TEXT), "metadata": minimal}}


def escape(name: str) -> str | None:
    """The name of a property in CEL syntax; None if no such name exists (apiserver pkg/cel/escaping.go)."""
    if not re.fullmatch(r"[A-Za-z_./\-][A-Za-z0-9_./\-]*", name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found.group()], name)


def resolved(schema: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The schema with every `$ref` replaced by its target; a definition within itself becomes an object without fields.

    `definitions` are by the text of the reference. Raises KeyError for a reference without a target. Follows PopulateRefs of
    apiserver pkg/cel/openapi/resolver/refs.go, where references may also stand in allOf.
    """
    return _resolved(schema, definitions, frozenset())


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]], open_: frozenset[str]) -> Mapping[str, Any]:
    reference = _reference(schema)
    if reference is not None:
        if reference in open_:
            return {"type": "object"}
        schema, open_ = definitions[reference], open_ | {reference}
    result = dict(schema)
    if isinstance(schema.get("properties"), Mapping):
        result["properties"] = {key: _resolved(each, definitions, open_) for key, each in schema["properties"].items()}
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), Mapping):
            result[key] = _resolved(schema[key], definitions, open_)
    return result


def _reference(schema: Mapping[str, Any]) -> str | None:
    if "$ref" in schema:
        return str(schema["$ref"])
    return next((found for part in schema.get("allOf") or () if (found := _reference(part)) is not None), None)
