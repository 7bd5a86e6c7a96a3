"""What the server answered tells of policies whose inputs nobody recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.schema import EVENTS
from pipeline.admission.policies import PolicySet, binding_from_object, compile_set, evaluate_request, policy_from_object
from pipeline.history import Event, LogHistory, LogVersions, admission_requests
from pipeline.replay.answer import Answer, settled

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "replay" / "answers.yaml").read_text(encoding="utf-8"))
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
        "flags": [],
    }
    return Event.from_row(row)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_answer_settles_what_it_proves(case: dict[str, Any]) -> None:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, **case["policy"]}
    policy = policy_from_object({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}, "case")
    bound = {"policyName": "p", "validationActions": case["actions"]}
    binding = binding_from_object({"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": bound}, "case")
    version = tuple(case.get("version", (1, 36)))
    compiled = compile_set(PolicySet((policy,), (binding,)), version, unbound=False)
    event = event_of({**case, "code": 201} if case.get("code") == 500 else case)
    requests = admission_requests(event, LogVersions())
    assert isinstance(requests, list)
    rows = evaluate_request(compiled, requests[0], LogHistory.from_rows([], []).at("c", START))
    assert all(row.evidence == "insufficient" for row in rows)
    found = settled(rows, compiled.policies[0], Answer(event_of(case), version))
    assert [[row.expression_index, row.decision, row.message, row.evidence] for row in found] == case["rows"]
    assert dict(found[0].audit_annotations) == case.get("audit_annotations", {})
