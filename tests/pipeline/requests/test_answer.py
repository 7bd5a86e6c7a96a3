"""The answer of the server decides about policies with inputs that were not recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.decode import decode_events
from ingest.redaction.redact import Redactor
from ingest.schema import EVENTS
from ingest.server.words import server_words
from pipeline.history import Event, LogHistory, LogVersions, admission_requests
from pipeline.policies.dispatch import compile_set, evaluate_request
from pipeline.policies.model import PolicySet
from pipeline.policies.verdict import PolicyVerdict
from pipeline.stages.validating.answer import Answer, settled
from pipeline.stages.validating.decode import binding_from_object, policy_from_object
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "replay" / "answers.yaml").read_text(encoding="utf-8"))
START = datetime(2026, 1, 1, tzinfo=UTC)
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}


def event_of(case: dict[str, Any]) -> Event:
    annotations = {} if case.get("drops_annotations") else {"authorization.k8s.io/decision": "allow", **case.get("annotations", {})}
    if "failures" in case:
        annotations["validation.policy.admission.k8s.io/validation_failure"] = json.dumps(case["failures"])
    code, message = case.get("code", 201), None
    if "denied" in case:
        policy, binding, text = case["denied"]
        code = 422
        message = (
            f"secrets \"s\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {text}"
        )
    row = {
        **dict.fromkeys(EVENTS.names),
        "cluster": "c",
        "audit_id": "a",
        "stage": "ResponseComplete",
        "level": "Metadata",
        "ts": START,
        "stage_ts": START,
        "verb": "create",
        "request_uri": "/api/v1/namespaces/shop/secrets",
        "user_name": "alice",
        "user_groups": [],
        "api_version": "v1",
        "resource": "secrets",
        "namespace": "shop",
        "name": "s",
        "code": code,
        "status_message": message,
        "annotations": annotations,
        "notes": {},
        "flags": [],
    }
    return Event.from_row(row)


def rows_of(case: dict[str, Any], event: Event) -> list[PolicyVerdict]:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, **case["policy"]}
    policy = policy_from_object({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}, "case")
    bound = {"policyName": "p", "validationActions": case["actions"]}
    binding = binding_from_object({"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": bound}, "case")
    version = tuple(case.get("version", (1, 36)))
    compiled = compile_set(PolicySet((policy,), (binding,)), version, unbound=False)
    requests = admission_requests(event_of({**case, "code": 201} if case.get("code") == 500 else case), LogVersions())
    assert isinstance(requests, list)
    rows = evaluate_request(compiled, requests[0], LogHistory.from_rows([], []).at("c", START))
    assert all(row.evidence == "insufficient" for row in rows)
    return settled(rows, compiled.policies[0], Answer(event, version))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_answer_settles_what_it_proves(case: dict[str, Any]) -> None:
    found = rows_of(case, event_of(case))
    assert [[row.expression_index, row.decision, row.message, row.evidence] for row in found] == case["rows"]
    assert dict(found[0].audit_annotations) == case.get("audit_annotations", {})


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_answer_whose_texts_were_taken_out_settles_the_same(case: dict[str, Any]) -> None:
    event = event_of(case)
    status = {"code": event.code, **({"message": event.message} if event.message else {})}
    raw = {
        "auditID": "a",
        "stage": "ResponseComplete",
        "level": "Metadata",
        "stageTimestamp": "2026-01-01T00:00:00Z",
        "requestURI": event.request_uri,
        "verb": event.verb,
        "objectRef": {"resource": "secrets", "namespace": "shop", "name": "s", "apiVersion": "v1"},
        "responseStatus": status,
        "annotations": dict(event.annotations),
    }
    (row,) = decode_events([Redactor().apply(json.dumps(raw).encode())], "c", START, "webhook").table.to_pylist()
    found = rows_of(case, Event.from_row(row))
    if case.get("audit_annotations"):
        # The value is not known any more; what was found of it is.
        assert [row.decision for row in found] == ["unknown", *(wanted[1] for wanted in case["rows"][1:])]
        return
    assert [[row.expression_index, row.decision, row.evidence] for row in found] == [
        [row[0], row[1], row[3]] for row in case["rows"]
    ]
    assert [row.message for row in found] == [server_words(row[2]) for row in case["rows"]]
