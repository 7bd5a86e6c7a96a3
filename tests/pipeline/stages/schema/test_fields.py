"""Fields that a schema does not know: who sent them, and which stored objects carry them."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runs.window import Window
from pipeline.stages.schema.definition import definition_of
from pipeline.stages.schema.evidence.definitions import KnownDefinition
from pipeline.stages.schema.evidence.fields import UnknownFields, unknown_fields_of
from pipeline.stages.schema.evidence.paths import text_of, unknown_fields
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.pruning import prune
from queries import open_lake
from tests.recording import START, Object, recorded, take_in
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "fields.yaml").read_text())
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
STEP = {"type": "object", "properties": {"run": {"type": "string"}}}
SPEC = {"type": "object", "properties": {"command": {"type": "string"}, "steps": {"type": "array", "items": STEP}}}
DEFINITION = {
    "metadata": {"name": "jobs.lab.example.com"},
    "spec": {
        "group": "lab.example.com",
        "names": {"kind": "Job", "plural": "jobs", "singular": "job", "shortNames": ["jb"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}
KNOWN = KnownDefinition(definition_of(DEFINITION), "crd.yaml:1")


def whole(body: Any, number: int) -> Any:
    if not isinstance(body, dict):
        return body
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": str(number), **body.get("metadata", {})}
    return {"apiVersion": "lab.example.com/v1", "kind": "Job", **body, "metadata": metadata}


def event_of(request: dict[str, Any], number: int) -> Object:
    shown = whole({}, number)
    more: dict[str, Any] = {}
    body = request.get("body")
    if "applied" in request:
        body = {**body, "metadata": {"annotations": {LAST_APPLIED: json.dumps(request["applied"])}}}
    if code := request.get("code"):
        more["responseStatus"] = {"code": code, "status": "Failure", "message": request["message"]}
    event = recorded(f"id-{number}", START + timedelta(hours=number), request["verb"], shown, user=request["user"], **more)
    event["requestURI"] = "/apis/lab.example.com/v1/namespaces/default/jobs/a"
    event["level"] = request.get("level", "RequestResponse")
    for name in ("requestObject", "responseObject"):
        event.pop(name)
    if event["level"] != "Metadata" and body is not None and request["verb"] in ("create", "update", "patch"):
        event["requestObject"] = body if request["verb"] == "patch" else whole(body, number)
    if event["level"] == "RequestResponse" and not code:
        event["responseObject"] = whole(request.get("answer", body), number)
    return event


def answer(tmp_path: Path, requests: list[dict[str, Any]]) -> UnknownFields:
    take_in(tmp_path / "lake", [event_of(request, number) for number, request in enumerate(requests, 1)])
    reader = open_lake(tmp_path / "lake")
    try:
        return unknown_fields_of(reader, KNOWN, Window())
    finally:
        reader.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    found = answer(tmp_path, case["requests"])
    sent: dict[str, dict[str, list[str]]] = {}
    for each in found.fields:
        for sender in each.senders:
            sent.setdefault(each.field, {}).setdefault(str(sender.channel), []).append(sender.user)
    assert {name: {channel: sorted(users) for channel, users in by.items()} for name, by in sent.items()} == case["sent"]
    stored = {
        each.key.name: {
            text_of(path): [str(carried.state), carried.origin.user.username if carried.origin.user else None]
            for path, carried in each.fields.items()
        }
        for each in found.objects
    }
    assert stored == case["stored"]
    assert dict(found.coverage.opaque) == case.get("opaque", {})
    if "samples" in case:
        assert {each.field: each.sample for each in found.fields} == case["samples"]


def test_an_annotation_counts_for_the_request_that_set_it(tmp_path: Path) -> None:
    manifest = {"spec": {"privileged": True}}
    first = {"verb": "create", "user": "mallory", "applied": manifest, "body": {"spec": {}}}
    carried = {"verb": "update", "user": "alice", "applied": manifest, "body": {"spec": {"command": "x"}}}
    (field,) = answer(tmp_path, [first, carried]).fields
    assert [(sender.user, sender.requests) for sender in field.senders] == [("mallory", 1)]


def test_a_request_that_two_channels_show_counts_once(tmp_path: Path) -> None:
    manifest = {"spec": {"privileged": True}}
    (field,) = answer(tmp_path, [{"verb": "create", "user": "mallory", "applied": manifest, "body": manifest}]).fields
    assert field.channels == ["body", "last-applied", "stored"]
    assert field.requests == 1


SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2)
NAMES = st.sampled_from(["a", "b", "c", "metadata", "kind"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12)


def schemas(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.builds(lambda fields: {"type": "object", "properties": fields}, properties),
        st.builds(
            lambda fields: {"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": True}, properties
        ),
        st.builds(lambda fields: {"type": "object", "properties": fields, "x-kubernetes-embedded-resource": True}, properties),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner | st.booleans()),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda items: {"type": "array", "items": items, "x-kubernetes-preserve-unknown-fields": True}, inner),
    )


@given(VALUES, st.recursive(st.just({"type": "string"}), schemas, max_leaves=8))
def test_unknown_fields_are_those_that_pruning_removes(value: Any, schema: dict[str, Any]) -> None:
    props = props_of(schema)
    assert sorted(text_of(path) for path, _ in unknown_fields(value, props)) == prune(copy.deepcopy(value), props)
