"""Configured paths take out the values that they name, wherever an object may lie in a body, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.errors import InputError
from ingest.notes import PREFIX, REDACTED
from ingest.redaction.paths import LAST_APPLIED
from ingest.redaction.redact import KEY_BYTES, Redactor

# How a line carries the note.
ANNOTATION = PREFIX + REDACTED

POD = {"spec": {"containers": [{"env": [{"name": "A", "value": "s3cret"}, {"name": "B"}]}, {}], "n": 12345678901234567890123}}
PATH = "pods:spec.containers.env.value"


def event(body: Any, resource: str = "pods", **fields: Any) -> bytes:
    head = {"auditID": "a", "requestURI": "/x", "objectRef": {"resource": resource}, "requestObject": body}
    return json.dumps({**head, **fields}, separators=(",", ":")).encode()


def cleaned(line: bytes, *paths: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Redactor((), paths=paths or (PATH,), **options).apply(line))
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, POD),
        ("pods:spec.containers.*.env.*.value", POD),
        ("pods:spec.*.env.value", POD),
        ("pods:spec", {"spec": {"deep": "s3cret"}}),
        ("pods:metadata.annotations.example\\.com/token", {"metadata": {"annotations": {"example.com/token": "s3cret"}}}),
        (PATH, {"kind": "PodList", "items": [{}, POD]}),
        (PATH, {"metadata": {"annotations": {LAST_APPLIED: json.dumps(POD)}}, **POD}),
        (PATH, {"items": [{"metadata": {"annotations": {LAST_APPLIED: json.dumps(POD)}}}]}),
    ],
)
def test_a_value_at_a_path_is_replaced(path: str, body: Any) -> None:
    found = cleaned(event(body), path)
    assert "s3cret" not in json.dumps(found)
    assert "REDACTED" in json.dumps(found["requestObject"])
    assert found["annotations"][ANNOTATION] == "requestObject:" + path.partition(":")[2]


def test_everything_beside_it_stays_byte_for_byte() -> None:
    line = event(POD).replace(b"12345678901234567890123", b"1.50e+3")
    assert (
        Redactor((), paths=(PATH,))
        .apply(line)
        .startswith(line[: line.index(b'"s3cret"')] + b'"REDACTED"},{"name":"B"}]},{}],"n":1.50e+3}')
    )


@pytest.mark.parametrize(
    "body", [{"spec": {"containers": []}}, {"spec": {"containers": [{"env": None}]}}, {}, None, {"spec": "s3cret"}]
)
def test_an_event_without_such_a_value_is_the_very_same(body: Any) -> None:
    line = event(body)
    assert Redactor((), paths=(PATH,)).apply(line) is line


def test_other_resources_are_left_alone() -> None:
    line = event(POD, resource="podtemplates")
    assert Redactor((), paths=(PATH,)).apply(line) is line


@pytest.mark.parametrize("body", [[{"op": "add", "path": "/spec/containers/0/env/0/value", "value": "s3cret"}], "s3cret"])
def test_a_body_that_cannot_be_searched_goes_as_a_whole(body: Any) -> None:
    found = cleaned(event(body))
    assert "requestObject" not in found
    assert found["annotations"][ANNOTATION] == "requestObject"


def test_both_bodies_are_searched_and_equal_values_stay_equal_under_a_key() -> None:
    line = event(POD, responseObject=POD)
    found = cleaned(line, mode="hash", key=bytes(KEY_BYTES))
    values = [found[name]["spec"]["containers"][0]["env"][0]["value"] for name in ("requestObject", "responseObject")]
    assert values[0] == values[1]
    assert values[0].startswith("blake2b:")


@pytest.mark.parametrize("text", ["pods", "pods:", ":spec", "pods:spec..x", "pods:a,b", "PODS:spec"])
def test_a_wrong_path_is_named(text: str) -> None:
    with pytest.raises(InputError, match="names no"):
        Redactor((), paths=(text,))
