"""One write under one schema: what is dropped and defaulted, refused or ratcheted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.manifests.documents import read_documents
from pipeline.stages.schema.definition import Definition, Version
from pipeline.stages.schema.formats import format_check
from pipeline.stages.schema.objects import Outcome, object_findings
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.pruning import drop_nulls, prune, set_defaults
from pipeline.stages.schema.writing import ObjectKind, Operation, UndecodableError, decode, object_kind, write
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "writes.yaml").read_text())
HEAD = {"apiVersion": "lab.example.com/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "default"}}


def kind_of(schema: dict[str, Any], has_status: bool = False) -> ObjectKind:
    version = Version("v1", served=True, storage=True, schema=props_of(schema), has_status=has_status)
    names = ("jobs.lab.example.com", "lab.example.com", "jobs", "job", "Job", "JobList", "Namespaced")
    return object_kind(Definition(*names, (version,)), version)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_write(case: dict[str, Any]) -> None:
    kind = kind_of(case["schema"], case.get("has_status", False))
    old = None if "old" not in case else decode(kind, {**HEAD, **case["old"]}, is_stored=True).value
    decoded = decode(kind, {**HEAD, **case["new"]})
    operation = Operation(case.get("operation", "create" if old is None else "update"))
    found = write(kind, operation, decoded.value, old)
    assert list(decoded.unknown) == case.get("dropped", [])
    assert sorted(map(str, found.errors)) == sorted(case.get("errors", ()))
    assert sorted(map(str, found.warnings)) == sorted(case.get("warnings", ()))
    assert bool(found.undecided) == case.get("undecided", False)
    if "stored" in case:
        assert {name: value for name, value in found.value.items() if name not in HEAD} == case["stored"]


@pytest.mark.parametrize(
    ("name", "text", "is_valid"),
    [
        ("date", "2024-02-30", False),
        ("date-time", "2024-01-02 03:04:05Z", False),
        ("duration", "3 days", True),
        ("duration", "10", False),
        ("ipv4", "010.0.0.1", True),
        ("ipv6", "::ffff:1.2.3.4", True),
        ("cidr", "010.0.0.0/8", True),
        ("byte", "", False),
        ("ssn", "078051120", False),
        ("uuid4", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", False),
        ("k8s-short-name", "A", False),
    ],
)
def test_formats(name: str, text: str, is_valid: bool) -> None:
    check = format_check(name)
    assert check is not None
    assert check(text) == is_valid


def test_a_format_counts_from_its_version_on() -> None:
    assert format_check("k8s-short-name", (1, 33)) is None
    assert format_check("unheard-of") is None


def test_metadata_of_a_wrong_type_cannot_be_read() -> None:
    with pytest.raises(UndecodableError, match=r"cannot unmarshal number into Go struct field ObjectMeta\.labels of type string"):
        decode(kind_of({"type": "object"}), {**HEAD, "metadata": {"name": "a", "labels": {"a": 1}}})


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
LEAVES = st.fixed_dictionaries({"type": st.sampled_from(("string", "integer", "boolean"))}, optional={"nullable": st.booleans()})
SCHEMAS = st.recursive(
    LEAVES | st.just({"type": "integer", "default": 3}) | st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda each: {"type": "object", "properties": each}, st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
    ),
    max_leaves=6,
)
ROOTS = st.builds(lambda each: {"type": "object", "properties": each}, st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=3))


@given(ROOTS, OBJECTS)
def test_decoding_twice_is_decoding_once(schema: dict[str, Any], value: dict[str, Any]) -> None:
    node = props_of(schema)
    prune(value, node)
    assert prune(value, node) == []
    drop_nulls(value, node)
    set_defaults(value, node)
    once = copy.deepcopy(value)
    drop_nulls(value, node)
    set_defaults(value, node)
    assert value == once


@given(ROOTS, OBJECTS)
def test_an_object_that_is_written_again_unchanged_stays_valid(schema: dict[str, Any], value: dict[str, Any]) -> None:
    kind = kind_of(schema)
    new = decode(kind, {**HEAD, **value}).value
    created = write(kind, Operation.CREATE, new)
    again = write(kind, Operation.UPDATE, created.value, created.value)
    if not created.errors:
        assert (again.errors, again.value) == ((), created.value)


def test_the_objects_of_files() -> None:
    text = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobs.lab.example.com}
spec:
  group: lab.example.com
  scope: Namespaced
  names: {plural: jobs, kind: Job}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {count: {type: integer, default: 3}, s: {type: string}}}}
---
apiVersion: lab.example.com/v1
kind: Job
metadata: {name: good}
spec: {s: a, junk: 1}
---
apiVersion: lab.example.com/v1
kind: Job
metadata: {name: bad}
spec:
  s: 5
"""
    found = [
        (each.where, each.object, each.outcome, each.field) for each in object_findings(read_documents(text, "a.yaml"), (1, 36))
    ]
    assert found == [
        ("a.yaml:21", "Job/good", Outcome.DROPPED, "spec.junk"),
        ("a.yaml:21", "Job/good", Outcome.DEFAULT, "spec.count"),
        ("a.yaml:27", "Job/bad", Outcome.REFUSED, "spec.s"),
    ]
