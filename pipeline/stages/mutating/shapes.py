"""The shapes of objects: which fields they have, and how each part merges.

Built-in kinds come from the OpenAPI documents in `pipeline/openapi`, custom kinds from the schemas of their definitions. Both
follow kube-openapi pkg/schemaconv/openapi.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ...openapi import built_in_documents
from ...request import GroupVersionKind
from ..schema.props import Props

_REFERENCE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# Named types that are read and written as scalars.
_SCALARS: Final = {"Quantity": "quantity", "Time": "time", "MicroTime": "time", "IntOrString": "int-or-string"}
_ANYTHING: Final = ("RawExtension", "FieldsV1")
# Kinds that only subresources have: no OpenAPI document of their own group and version knows them as objects to merge.
_NOT_MERGED: Final = frozenset(["Scale", "Eviction", "TokenRequest"])


@dataclass(frozen=True)
class ListShape:
    """A list. `keys` are those of its entries; without keys an associative list is a set of scalars."""

    element: Shape
    is_associative: bool = False
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapShape:
    """A struct or a map. `others` is the shape of fields that are not listed; None where such fields are not allowed."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    others: Shape | None = None
    is_atomic: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


class Shape:
    """What a value may be: a scalar, a list or a map; anything is all three.

    `go` is the Go type, for the texts of decoding errors; empty where it is not known. A named type is looked up on first use,
    because types refer to each other.
    """

    def __init__(
        self, scalar: str = "", list_: ListShape | None = None, map_: MapShape | None = None, go: str = "", name: str = ""
    ) -> None:
        self.scalar = scalar
        self.list = list_
        self._map = map_
        self.go = go
        self.name = name

    @property
    def map(self) -> MapShape | None:
        """The shape as a map."""
        if self._map is None and self.name:
            self._map = _named(self.name)
        return self._map

    @property
    def is_anything(self) -> bool:
        """Whether any JSON value has this shape."""
        return self is ANYTHING or self is ATOMIC


TEXT, BYTES, FLAG = Shape("string", go="string"), Shape("string", go="bytes"), Shape("boolean", go="bool")
NUMBER, OTHER_SCALAR = Shape("numeric"), Shape("untyped")
ATOMIC = Shape("untyped")
ATOMIC.list = ListShape(ATOMIC)
ATOMIC._map = MapShape(others=ATOMIC, is_atomic=True)
ANYTHING = Shape("untyped", ListShape(ATOMIC))
ANYTHING._map = MapShape(others=ANYTHING)


@cache
def _schemas() -> Mapping[str, Any]:
    return {name: schema for each in built_in_documents() for name, schema in each["components"]["schemas"].items()}


@cache
def _kinds() -> Mapping[GroupVersionKind, str]:
    found = {}
    for name, schema in _schemas().items():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            kind = GroupVersionKind(each["group"], each["version"], each["kind"])
            # Some kinds, such as the options of a deletion, stand in the documents of every group.
            if "metadata" in schema.get("properties", ()) and not name.endswith("List"):
                found[kind] = name
    return found


@cache
def _named(name: str) -> MapShape:
    schema = _schemas()[name]
    fields = {field: _of_schema(each) for field, each in schema.get("properties", {}).items()}
    defaults = {field: each["default"] for field, each in schema.get("properties", {}).items() if "default" in each}
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    return MapShape(fields, None, is_atomic, defaults, frozenset(schema.get("required", ())))


def _of_schema(schema: Mapping[str, Any]) -> Shape:
    """The shape of a field in an OpenAPI document of built-in kinds."""
    for each in schema.get("allOf", ()):
        return _of_schema(each)
    if "$ref" in schema:
        return _of_reference(schema["$ref"].removeprefix(_REFERENCE))
    match schema.get("type"):
        case "array":
            return Shape(list_=_list(schema))
        case "object":
            values = schema.get("additionalProperties")
            is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
            return Shape(map_=MapShape(others=_of_schema(values) if values else ANYTHING, is_atomic=is_atomic))
        case "string":
            return {"": TEXT, "byte": BYTES}.get(schema.get("format", ""), OTHER_SCALAR)
        case "integer":
            return Shape("numeric", go=schema.get("format", ""))
        case "number":
            return Shape("numeric", go="float64")
        case "boolean":
            return FLAG
    return ANYTHING


@cache
def _of_reference(name: str) -> Shape:
    last = name.rpartition(".")[2]
    if last in _ANYTHING:
        return ANYTHING
    return Shape("untyped", go=_SCALARS[last]) if last in _SCALARS else Shape(name=name)


def _list(schema: Mapping[str, Any]) -> ListShape:
    """How a list merges (kube-openapi pkg/schemaconv/smd.go, convertArray)."""
    element = _of_schema(schema["items"])
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return ListShape(element, True)
        case "map":
            return ListShape(element, True, tuple(schema["x-kubernetes-list-map-keys"]))
        case "atomic":
            return ListShape(element)
    if "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return ListShape(element, True, (key,) if key else ())
    return ListShape(element)


def built_in_shape(kind: GroupVersionKind) -> Shape | None:
    """The shape of a built-in kind; None if no document has it."""
    if kind.group == "" and kind.kind in _CONNECT_OPTIONS:
        return Shape(map_=MapShape(_CONNECT_OPTIONS[kind.kind]))
    name = _kinds().get(kind)
    return None if name is None else _of_reference(name)


def metadata_shape() -> Shape:
    """The shape of a built-in kind whose metadata alone are known: all other fields are anything."""
    fields = {"apiVersion": TEXT, "kind": TEXT, "metadata": _of_reference(_META)}
    return Shape(map_=MapShape(fields, ANYTHING))


def merges(kind: GroupVersionKind) -> bool:
    """Whether an ApplyConfiguration can be merged into objects of a kind with a shape."""
    return kind.kind not in _NOT_MERGED and kind.kind not in _CONNECT_OPTIONS


_KIND: Final = {"kind": TEXT, "apiVersion": TEXT}
_STREAMS: Final = {**_KIND, **dict.fromkeys(("stdin", "stdout", "stderr", "tty"), FLAG), "container": TEXT}
_PATH: Final = {**_KIND, "path": TEXT}
# The options of CONNECT requests are in no OpenAPI document as schemas (k8s.io/api core/v1 types.go).
_CONNECT_OPTIONS: Final[dict[str, dict[str, Shape]]] = {
    "PodExecOptions": {**_STREAMS, "command": Shape(list_=ListShape(TEXT))},
    "PodAttachOptions": _STREAMS,
    "PodPortForwardOptions": {**_KIND, "ports": Shape(list_=ListShape(Shape("numeric", go="int32")))},
    "PodProxyOptions": _PATH,
    "ServiceProxyOptions": _PATH,
    "NodeProxyOptions": _PATH,
}


def shape_of_schema(schema: Props) -> Shape:
    """The shape of objects of a custom kind, from the schema of one version of its definition."""
    shape = _of_props(schema, False)
    if shape.map is None:
        return shape
    fields = {**shape.map.fields, "apiVersion": TEXT, "kind": TEXT, "metadata": _of_reference(_META)}
    # A schema without properties keeps every field.
    others = ANYTHING if not schema.properties else shape.map.others
    return Shape(map_=MapShape(fields, others, shape.map.is_atomic))


def _of_props(node: Props, keeps_unknown: bool) -> Shape:
    keeps_unknown = keeps_unknown or bool(node.preserves_unknown_fields)
    match node.type:
        case "object":
            fields = {name: _of_props(each, keeps_unknown) for name, each in node.properties.items()}
            defaults = {name: each.default for name, each in node.properties.items() if each.has_default}
            return Shape(map_=MapShape(fields, _others(node, keeps_unknown), node.map_type == "atomic", defaults))
        case "array":
            element = ANYTHING if node.items is None else _of_props(node.items, keeps_unknown)
            keys = node.list_map_keys if node.list_type == "map" else ()
            return Shape(list_=ListShape(element, node.list_type in ("map", "set"), keys))
        case "string":
            return {"": TEXT, "byte": BYTES}.get(node.format, OTHER_SCALAR)
        case "integer" | "number":
            return NUMBER
        case "boolean":
            return FLAG
    return ANYTHING


def _others(node: Props, keeps_unknown: bool) -> Shape | None:
    values = node.additional_properties
    if values is None:
        return ANYTHING if keeps_unknown or not node.properties else None
    if values.schema is not None:
        return _of_props(values.schema, keeps_unknown)
    return ANYTHING if values.allows else None
