"""The keyword behind a refusal is found, and taken away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.stages.schema.definition import Definition, Version
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.relaxing import relaxed
from pipeline.stages.schema.writing import Operation, decode, object_kind, write

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 2},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "color": {"type": "string", "enum": ["red"]},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 3}},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
        "limits": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 9}},
        "rule": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": "self < 3"}, {"rule": "self != 9", "message": "no nines"}],
        },
    },
    "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size != 4", "fieldPath": ".size", "message": "four is unlucky"}],
}


def defined(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"metadata": {"name": "k"}, "spec": {"versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}


def errors_of(spec: dict[str, Any], value: Any) -> list[dict[str, str]]:
    version = Version("v1", True, True, props_of({"type": "object", "properties": {"spec": spec}}))
    kind = object_kind(Definition("k", "g", "ks", "k", "K", "KList", "Cluster", (version,)), version)
    raw = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": value}
    found = write(kind, Operation.CREATE, decode(kind, raw).value).errors
    return [{"field": each.field, "reason": str(each.reason), "message": each.message} for each in found]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({}, "spec: required size"),
        ({"size": 6}, "spec.size: maximum"),
        ({"size": 0}, "spec.size: minimum"),
        ({"size": 3}, "spec.size: multipleOf"),
        ({"size": 2, "name": "a"}, "spec.name: minLength"),
        ({"size": 2, "name": "abcde"}, "spec.name: maxLength"),
        ({"size": 2, "name": "AB"}, "spec.name: pattern"),
        ({"size": 2, "color": "blue"}, "spec.color: enum"),
        ({"size": 2, "day": "monday"}, "spec.day: format"),
        ({"size": 2, "tags": ["a", "b", "c"]}, "spec.tags: maxItems"),
        ({"size": 2, "tags": ["a", "a"]}, "spec.tags: x-kubernetes-list-type"),
        ({"size": 2, "tags": ["abcd"]}, "spec.tags[]: maxLength"),
        ({"size": 2, "one": {"b": "x"}}, "spec.one: oneOf"),
        ({"size": 2, "limits": {"cpu": 10}}, "spec.limits.cpu: maximum"),
        ({"size": 2, "rule": 5}, "spec.rule: rule self < 3"),
        ({"size": 4}, "spec: rule !has(self.size) || self.size != 4"),
    ],
)
def test_a_keyword_is_found_and_taken_away(value: dict[str, Any], place: str) -> None:
    errors = errors_of(SPEC, value)
    assert errors
    definition = defined(SPEC)
    found = relaxed({"k": definition}, [("k", "v1", 422, json.dumps(errors), 7)])
    assert [(each.place, each.requests) for each in found.dropped] == [(place, 7)]
    (version,) = found.definitions["k"]["spec"]["versions"]
    assert errors_of(version["schema"]["openAPIV3Schema"]["properties"]["spec"], value) == []
    assert definition == defined(SPEC)


def test_a_version_stays_served() -> None:
    definition = defined(SPEC)
    definition["spec"]["versions"][0]["served"] = False
    found = relaxed({"k": definition}, [("k", "v1", 404, "[]", 3)])
    assert [each.words for each in found.dropped] == ["v1, which is not served any more"]
    assert found.definitions["k"]["spec"]["versions"][0]["served"] is True


def test_a_type_is_not_relaxed() -> None:
    errors = errors_of(SPEC, {"size": "x"})
    assert relaxed({"k": defined(SPEC)}, [("k", "v1", 422, json.dumps(errors), 1)]).dropped == ()
