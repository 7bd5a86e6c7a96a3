"""Who refused a request is the same with and without redaction: tests/cases/ingest/refusals.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.decode import decode_events
from ingest.notes import WORDING
from ingest.redaction.redact import Redactor
from pipeline.history.event import Event
from pipeline.history.outcome import reach_of_event
from pipeline.stages.authorization.questions import refusal_of
from tests.canaries import raw
from tests.recording import START
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[1] / "cases/ingest/refusals.yaml").read_text())
GROUPS = {
    "certificatesigningrequests": "certificates.k8s.io",
    "clustertrustbundles": "certificates.k8s.io",
    "roles": "rbac.authorization.k8s.io",
    "clusterroles": "rbac.authorization.k8s.io",
    "validatingadmissionpolicies": "admissionregistration.k8s.io",
}


def refused(case: dict[str, Any]) -> bytes:
    """An event of the level Metadata in the field order of the API server."""
    resource, _, subresource = case["of"].partition("/")
    place = {"resource": resource, "namespace": "n", "name": "s", "apiGroup": GROUPS.get(resource), "apiVersion": "v1"}
    reference = {**place, "subresource": subresource}
    reason = {401: "Unauthorized", 409: "Conflict", 422: "Invalid"}.get(case["code"], "Forbidden")
    status = {"metadata": {}, "status": "Failure", "message": case["message"], "reason": reason, "code": case["code"]}
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "a",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/n/{resource}/s",
        "verb": case.get("verb", "list"),
        "user": {"username": "jo"},
        "objectRef": {name: value for name, value in reference.items() if value},
        "responseStatus": status,
        "requestReceivedTimestamp": "2026-11-01T00:00:00.000000Z",
        "stageTimestamp": "2026-11-01T00:00:00.000000Z",
    }
    if "decision" in case:
        event["annotations"] = {"authorization.k8s.io/decision": case["decision"]}
    return raw(event)


def read(line: bytes) -> Event:
    (row,) = decode_events([line], "c", START, "webhook").table.to_pylist()
    return Event.from_row({**row, "annotations": dict(row["annotations"])})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_who_refused_is_the_same_with_and_without_redaction(case: dict[str, Any]) -> None:
    line = refused(case)
    redactor = Redactor([case.get("redacts", "secrets"), "certificatesigningrequests"])
    redacted = redactor.apply(line)
    for event in map(read, (line, redacted, redactor.apply(redacted))):
        assert refusal_of(event) == case.get("lacks")
        assert reach_of_event(event).stopped == case["stopped"]
    assert reach_of_event(read(line)) == reach_of_event(read(redacted))
    if "hidden" in case:
        assert case["hidden"] in case["message"]
        assert case["hidden"].encode() not in redacted


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_redacted_text_of_an_earlier_version_is_never_read_as_another(case: dict[str, Any]) -> None:
    """Lakes of earlier versions lack the note on wordings: then the stage is the same, or it is unknown."""
    redacted = read(Redactor([case.get("redacts", "secrets"), "certificatesigningrequests"]).apply(refused(case)))
    kept = {name: value for name, value in redacted.notes.items() if name != WORDING}
    event = msgspec.structs.replace(redacted, notes=kept)
    assert (event.notes == redacted.notes) is (event.message == case["message"])
    reach, whole = reach_of_event(event), reach_of_event(read(refused(case)))
    assert reach == whole or reach.at("policies") in ("unknown", whole.at("policies"))
