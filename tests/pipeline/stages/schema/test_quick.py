"""Quick checks say yes only where the full functions would find nothing."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.pruning import drop_nulls, prune, set_defaults
from pipeline.stages.schema.quick import tidy_check
from pipeline.stages.schema.values import Validator
from tests.drawing import MANY

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, -1, 2**40, 1.0, 1.5, "", "a", "ab", "2024-01-02", "10.0.0.1"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)
LIMITS = st.sampled_from([0, 1, 2, 1.5, 2**31])
TEXT = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "."]),
        "enum": st.lists(st.sampled_from(["a", "ab", 1]), min_size=1, max_size=2),
        "format": st.sampled_from(["date", "ipv4", "byte", "nonsense"]),
    },
)
NUMBER = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": LIMITS,
        "maximum": LIMITS,
        "exclusiveMinimum": st.booleans(),
        "exclusiveMaximum": st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "enum": st.just([1, 2.0]),
        "format": st.sampled_from(["int32", "int64", "float", "double"]),
    },
)
PLAIN = st.sampled_from(
    [
        {"type": "boolean"},
        {"x-kubernetes-int-or-string": True},
        {"type": "object"},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    ]
)


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=1),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
        },
    )
    values = st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner})
    items = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 2)}
    )
    return st.builds(
        lambda schema, more: {**schema, **more},
        fields | values | items,
        st.fixed_dictionaries({}, optional={"nullable": st.just(True), "not": st.just({"required": ["a"]})}),
    )


def with_more(schema: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    more = st.fixed_dictionaries({}, optional={"nullable": st.just(True), "default": st.sampled_from([1, "a", {}])})
    return st.builds(lambda own, other: {**own, **other}, schema, more)


SCHEMAS = st.recursive(with_more(TEXT | NUMBER | PLAIN), nested, max_leaves=8)


@settings(max_examples=MANY)
@given(SCHEMAS, VALUES)
def test_a_value_that_passes_has_no_error(schema: dict[str, Any], value: Any) -> None:
    validator = Validator(props_of(schema))
    if validator.is_valid(value):
        assert not validator._check(value, "", None).findings


@settings(max_examples=MANY)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_a_tidy_object_stays_as_it_is(fields: dict[str, Any], value: dict[str, Any]) -> None:
    schema = props_of({"type": "object", "properties": fields})
    whole = {**value, "apiVersion": "lab.example.com/v1", "kind": "Job", "metadata": {}}
    if tidy_check(schema)(whole):
        changed = copy.deepcopy(whole)
        assert prune(changed, schema) == []
        drop_nulls(changed, schema)
        set_defaults(changed, schema)
        assert repr(changed) == repr(whole)


def test_usual_values_pass() -> None:
    properties = {
        "text": {"type": "string", "maxLength": 3, "pattern": "^a"},
        "count": {"type": "integer", "format": "int32", "minimum": 0},
        "names": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "fixed": {"type": "string", "default": "x"},
        "empty": {"type": "string", "nullable": True},
    }
    schema = props_of({"type": "object", "properties": properties, "required": ["text"]})
    value = {
        "apiVersion": "lab.example.com/v1",
        "kind": "Job",
        "text": "ab",
        "count": 1,
        "names": ["a", "b"],
        "labels": {"a": "b"},
        "port": "http",
        "more": {"deep": {"null": None}},
        "fixed": "y",
        "empty": None,
    }
    assert Validator(schema).is_valid(value)
    assert tidy_check(schema)(value)
