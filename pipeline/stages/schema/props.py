"""The schema of one node, as CustomResourceDefinitions write it: apiextensions JSONSchemaProps with every field decoded.

Unknown keywords are dropped, as the API server drops them. A field of a wrong type is an error in the words of Go's JSON decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

Raw: TypeAlias = Mapping[str, Any]
T = TypeVar("T")
_WHERE = "JSONSchemaProps"
_INT64 = 2**63


class DecodeError(Exception):
    """A document that cannot be read as its type. `str()` is what the API server says after `cannot be handled as ...: `."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `x-kubernetes-validations`."""

    rule: str = ""
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """`additionalProperties`: a schema, or a boolean."""

    allows: bool = True
    schema: Props | None = None


@dataclass(frozen=True, slots=True)
class Props:
    """One node of a schema. Texts are empty and other fields None where they are not set; `has_default` tells a default from none.

    `several_items` holds the schemas of the form of `items` that is a list. The fields from `id` to `has_definitions` are those
    that no structural schema has.
    """

    type: str = ""
    description: str = ""
    title: str = ""
    format: str = ""
    nullable: bool = False
    has_default: bool = False
    default: Any = None
    example: Any = None
    external_docs: Any = None
    maximum: float | None = None
    exclusive_maximum: bool = False
    minimum: float | None = None
    exclusive_minimum: bool = False
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool = False
    multiple_of: float | None = None
    enum: tuple[Any, ...] | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required: tuple[str, ...] = ()
    items: Props | None = None
    several_items: tuple[Props, ...] = ()
    all_of: tuple[Props, ...] = ()
    any_of: tuple[Props, ...] = ()
    one_of: tuple[Props, ...] = ()
    not_: Props | None = None
    properties: Mapping[str, Props] = field(default_factory=dict)
    additional_properties: Values | None = None
    preserves_unknown_fields: bool | None = None
    is_embedded_resource: bool = False
    is_int_or_string: bool = False
    list_type: str | None = None
    list_map_keys: tuple[str, ...] = ()
    map_type: str | None = None
    rules: tuple[Rule, ...] = ()
    id: str = ""
    schema: str = ""
    ref: str | None = None
    has_pattern_properties: bool = False
    dependencies: Mapping[str, Props | None] | None = None
    additional_items: Values | None = None
    definitions: Mapping[str, Props] = field(default_factory=dict)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def values(self) -> Props | None:
        """The schema of the values of a map."""
        return None if self.additional_properties is None else self.additional_properties.schema

    def nodes(self) -> Iterator[Props]:
        """This node and all nodes within it."""
        yield self
        within = [
            *self.all_of,
            *self.any_of,
            *self.one_of,
            *self.properties.values(),
            *self.several_items,
            *self.definitions.values(),
        ]
        within += [each for each in (self.items, self.not_, self.values) if each is not None]
        for each in within:
            yield from each.nodes()


class _Reader:
    """Reads the fields of one raw node. `at` is the Go path of the node, without keys and indices."""

    def __init__(self, raw: Any, at: str) -> None:
        if not isinstance(raw, Mapping):
            raise _mismatch(raw, f"Go value of type {_WHERE}" if not at else f"Go struct field {_WHERE}.{at}", "v1.JSONSchemaProps")
        self.raw = raw
        self.at = at

    def path(self, name: str) -> str:
        return f"{self.at}.{name}" if self.at else name

    def scalar(self, name: str, kind: type[T], go: str, otherwise: T) -> T:
        value = self.raw.get(name)
        if value is None:
            return otherwise
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise _mismatch(value, f"Go struct field {_WHERE}.{self.path(name)}", go, show=True)
        if kind is int and isinstance(value, float):
            value = int(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _mismatch(value, f"Go struct field {_WHERE}.{self.path(name)}", go)
        return value

    def text(self, name: str) -> str:
        return self.scalar(name, str, "string", "")

    def flag(self, name: str) -> bool:
        return self.scalar(name, bool, "bool", False)

    def optional(self, name: str, kind: type[T], go: str) -> T | None:
        return None if self.raw.get(name) is None else self.scalar(name, kind, go, kind())

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.listed(name, "[]string")
        for each in found:
            if each is not None and not isinstance(each, str):
                raise _mismatch(each, f"Go struct field {_WHERE}.{self.path(name)}", "string")
        return tuple(each or "" for each in found)

    def listed(self, name: str, go: str) -> list[Any]:
        value = self.raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise _mismatch(value, f"Go struct field {_WHERE}.{self.path(name)}", go)
        return value

    def schema(self, name: str) -> Props | None:
        value = self.raw.get(name)
        return None if value is None else props_of(value, self.path(name))

    def schemas(self, name: str) -> tuple[Props, ...]:
        return tuple(props_of(each or {}, self.path(name)) for each in self.listed(name, "[]v1.JSONSchemaProps"))

    def named(self, name: str, read: Callable[[Any, str], T]) -> dict[str, T]:
        value = self.raw.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _mismatch(value, f"Go struct field {_WHERE}.{self.path(name)}", "map[string]v1.JSONSchemaProps")
        return {each: read(schema if schema is not None else {}, self.path(name)) for each, schema in value.items()}

    def values(self, name: str) -> Values | None:
        value = self.raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool):
            return Values(value)
        if not isinstance(value, Mapping):
            raise DecodeError("boolean or JSON schema expected")
        return Values(True, props_of(value, ""))


def _mismatch(value: Any, where: str, go: str, show: bool = False) -> DecodeError:
    kinds: dict[type, str] = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}
    shown = f"{kinds.get(type(value), 'value')} {value}" if show else kinds.get(type(value), "value")
    return DecodeError(f"json: cannot unmarshal {shown} into {where} of type {go}")


def props_of(raw: Any, at: str = "") -> Props:
    """The node that a schema in JSON describes. `at` is its place for error texts. Raises DecodeError."""
    reader = _Reader(raw, at)
    items = raw.get("items")
    enum = raw.get("enum")
    default = raw.get("default")
    properties, values = reader.named("properties", props_of), reader.values("additionalProperties")
    one = None if items is None or isinstance(items, list) else props_of(items)
    return Props(
        type=reader.text("type"),
        description=reader.text("description"),
        title=reader.text("title"),
        format=reader.text("format"),
        nullable=reader.flag("nullable"),
        has_default=default is not None,
        default=default,
        example=raw.get("example"),
        external_docs=raw.get("externalDocs"),
        maximum=reader.optional("maximum", float, "float64"),
        exclusive_maximum=reader.flag("exclusiveMaximum"),
        minimum=reader.optional("minimum", float, "float64"),
        exclusive_minimum=reader.flag("exclusiveMinimum"),
        max_length=reader.optional("maxLength", int, "int64"),
        min_length=reader.optional("minLength", int, "int64"),
        pattern=reader.text("pattern"),
        max_items=reader.optional("maxItems", int, "int64"),
        min_items=reader.optional("minItems", int, "int64"),
        unique_items=reader.flag("uniqueItems"),
        multiple_of=reader.optional("multipleOf", float, "float64"),
        enum=None if enum is None else tuple(reader.listed("enum", "[]v1.JSON")),
        max_properties=reader.optional("maxProperties", int, "int64"),
        min_properties=reader.optional("minProperties", int, "int64"),
        required=reader.texts("required"),
        items=one,
        several_items=tuple(props_of(each) for each in items) if isinstance(items, list) else (),
        all_of=reader.schemas("allOf"),
        any_of=reader.schemas("anyOf"),
        one_of=reader.schemas("oneOf"),
        not_=reader.schema("not"),
        properties=properties,
        additional_properties=values,
        preserves_unknown_fields=reader.optional("x-kubernetes-preserve-unknown-fields", bool, "bool"),
        is_embedded_resource=reader.flag("x-kubernetes-embedded-resource"),
        is_int_or_string=reader.flag("x-kubernetes-int-or-string"),
        list_type=reader.optional("x-kubernetes-list-type", str, "string"),
        list_map_keys=reader.texts("x-kubernetes-list-map-keys"),
        map_type=reader.optional("x-kubernetes-map-type", str, "string"),
        rules=tuple(_rule(each or {}, reader.path("x-kubernetes-validations")) for each in reader.listed(*_RULES)),
        id=reader.text("id"),
        schema=reader.text("$schema"),
        ref=reader.optional("$ref", str, "string"),
        has_pattern_properties=bool(reader.named("patternProperties", props_of)),
        dependencies=reader.named("dependencies", _dependency) if raw.get("dependencies") is not None else None,
        additional_items=reader.values("additionalItems"),
        definitions=reader.named("definitions", props_of),
        raw=_whole(raw, properties, one, values),
    )


def _whole(raw: Raw, properties: Mapping[str, Props], items: Props | None, values: Values | None) -> Raw:
    """The schema in JSON, where a field without a schema has an empty one."""
    whole = dict(raw)
    if properties:
        whole["properties"] = {name: each.raw for name, each in properties.items()}
    if items is not None:
        whole["items"] = items.raw
    if values is not None and values.schema is not None:
        whole["additionalProperties"] = values.schema.raw
    return whole


_RULES = ("x-kubernetes-validations", "v1.ValidationRules")


def _dependency(raw: Any, at: str) -> Props | None:
    return None if isinstance(raw, list) else props_of(raw, at)


def _rule(raw: Any, at: str) -> Rule:
    reader = _Reader(raw, at)
    return Rule(
        reader.text("rule"),
        reader.text("message"),
        reader.text("messageExpression"),
        reader.optional("reason", str, "v1.FieldValueErrorReason"),
        reader.text("fieldPath"),
        reader.optional("optionalOldSelf", bool, "bool"),
    )
