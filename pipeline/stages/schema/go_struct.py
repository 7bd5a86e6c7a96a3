"""Internal structs of the API server as its messages print them: every field by its Go name, in Go's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .field_errors import go_json
from .props import Props, Rule, Values


def _struct(fields: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields) + "}"


def _many(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]" if texts else "null"


def _named(schemas: Any) -> str:
    fields = [f"{go_json(name)}:{schema_struct(schemas[name])}" for name in sorted(schemas)]
    return "{" + ",".join(fields) + "}" if fields else "null"


def _is_set(value: Any) -> bool:
    """Whether a field of a struct differs from its zero: a number behind a pointer is set even if it is 0."""
    return value is not None and value is not False and value != ""


def rule_struct(rule: Rule) -> str:
    """A rule as JSON of the Go struct."""
    return _struct(
        [
            ("Rule", go_json(rule.rule)),
            ("Message", go_json(rule.message)),
            ("MessageExpression", go_json(rule.message_expression)),
            ("Reason", go_json(rule.reason)),
            ("FieldPath", go_json(rule.field_path)),
            ("OptionalOldSelf", go_json(rule.optional_old_self)),
        ]
    )


def _values(values: Values | None) -> str:
    if values is None:
        return "null"
    return _struct(
        [("Allows", go_json(values.allows)), ("Schema", "null" if values.schema is None else schema_struct(values.schema))]
    )


def schema_fields(node: Props) -> list[tuple[str, str, bool]]:
    """The fields of a schema's Go struct: name, JSON, and whether it is set."""
    items = "null"
    if node.items is not None or node.several_items:
        one = "null" if node.items is None else schema_struct(node.items)
        items = _struct([("Schema", one), ("JSONSchemas", _many([schema_struct(each) for each in node.several_items]))])
    junctors = [_many([schema_struct(each) for each in each_of]) for each_of in (node.all_of, node.one_of, node.any_of)]
    keyed: list[tuple[str, Any]] = [
        ("ID", node.id),
        ("Schema", node.schema),
        ("Ref", node.ref),
        ("Description", node.description),
        ("Type", node.type),
        ("Nullable", node.nullable),
        ("Format", node.format),
        ("Title", node.title),
        ("Default", node.default),
        ("Maximum", node.maximum),
        ("ExclusiveMaximum", node.exclusive_maximum),
        ("Minimum", node.minimum),
        ("ExclusiveMinimum", node.exclusive_minimum),
        ("MaxLength", node.max_length),
        ("MinLength", node.min_length),
        ("Pattern", node.pattern),
        ("MaxItems", node.max_items),
        ("MinItems", node.min_items),
        ("UniqueItems", node.unique_items),
        ("MultipleOf", node.multiple_of),
        ("Enum", None if node.enum is None else list(node.enum)),
        ("MaxProperties", node.max_properties),
        ("MinProperties", node.min_properties),
        ("Required", list(node.required) or None),
    ]
    structs = [
        ("Items", items),
        ("AllOf", junctors[0]),
        ("OneOf", junctors[1]),
        ("AnyOf", junctors[2]),
        ("Not", "null" if node.not_ is None else schema_struct(node.not_)),
        ("Properties", _named(node.properties)),
        ("AdditionalProperties", _values(node.additional_properties)),
        ("PatternProperties", "null"),
        ("Dependencies", "null"),
        ("AdditionalItems", _values(node.additional_items)),
        ("Definitions", _named(node.definitions)),
    ]
    rest: list[tuple[str, Any]] = [
        ("ExternalDocs", node.external_docs),
        ("Example", node.example),
        ("XPreserveUnknownFields", node.preserves_unknown_fields),
        ("XEmbeddedResource", node.is_embedded_resource),
        ("XIntOrString", node.is_int_or_string),
        ("XListMapKeys", list(node.list_map_keys) or None),
        ("XListType", node.list_type),
        ("XMapType", node.map_type),
    ]
    rules = ("XValidations", _many([rule_struct(each) for each in node.rules]))
    found = [(name, go_json(value), _is_set(value)) for name, value in keyed]
    found += [(name, text, text != "null") for name, text in structs]
    found += [(name, go_json(value), _is_set(value)) for name, value in rest]
    return [*found, (*rules, rules[1] != "null")]


def schema_struct(node: Props) -> str:
    """A schema as JSON of the Go struct."""
    return _struct([(name, text) for name, text, _ in schema_fields(node)])
