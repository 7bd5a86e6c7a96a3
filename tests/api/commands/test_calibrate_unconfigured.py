"""A server denies every request of a policy until it knows the kind of its params: its refusals say so, and no replay disagrees."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.recording import Log, Object, deployment, take_in

ADMISSION = "admissionregistration.k8s.io/v1"
DENIED = "deployments.apps \"%s\" is forbidden: ValidatingAdmissionPolicy '%s'%s denied request: %s"
UNKNOWN_KIND = "failed to configure policy: failed to find resource referenced by paramKind: 'gov.corp.test/v1, Kind=QuotaSet'"
RULES = {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]}


def policy(name: str, expression: str, **spec: Any) -> list[Object]:
    """A policy and its binding, which only audits."""
    named = {"metadata": {"name": name, "resourceVersion": "1"}, "apiVersion": ADMISSION}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": RULES,
        "validations": [{"expression": expression, "message": "no"}],
        **spec,
    }
    bound: dict[str, Any] = {"policyName": name, "validationActions": ["Audit"]}
    if "paramKind" in spec:
        bound["paramRef"] = {"name": "own", "namespace": "shop", "parameterNotFoundAction": "Allow"}
    else:
        bound["validationActions"] = ["Deny", "Audit"]
    plural = {"plural": "validatingadmissionpolicies"}
    return [
        {**named, **plural, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**named, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    log = Log(timedelta(seconds=5))
    names = {"plural": "quotasets", "kind": "QuotaSet", "singular": "quotaset", "listKind": "QuotaSetList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    definition = {"group": "gov.corp.test", "scope": "Namespaced", "names": names, "versions": versions}
    found = {"name": "quotasets.gov.corp.test", "uid": "u", "resourceVersion": "1"}
    log.write(
        "create",
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": found, "spec": definition},
    )
    kept = {"name": "own", "namespace": "shop", "uid": "p", "resourceVersion": "1"}
    log.write("create", {"apiVersion": "gov.corp.test/v1", "kind": "QuotaSet", "metadata": kept, "spec": {"most": 5}})
    kind = {"apiVersion": "gov.corp.test/v1", "kind": "QuotaSet"}
    for each in (
        *policy("cap", "object.spec.replicas < params.spec.most", paramKind=kind),
        *policy("other", "object.spec.replicas < 9"),
    ):
        log.write("create", each)
    asked = {"annotations": {"authorization.k8s.io/decision": "allow"}}
    for name, replicas, refusal in (
        ("before", 9, DENIED % ("before", "other", " with binding 'other'", "no")),  # the first denial alone is told
        ("few", 1, DENIED % ("few", "cap", "", UNKNOWN_KIND)),
        ("many", 7, DENIED % ("many", "cap", "", UNKNOWN_KIND)),
        ("later", 1, None),
    ):
        answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": refusal, "code": 422}
        status = {"responseStatus": {"metadata": {}, "status": "Failure", "message": refusal, "reason": "Invalid", "code": 422}}
        failure = [
            {"message": "no", "policy": "other", "binding": "other", "expressionIndex": "0", "validationActions": ["Deny", "Audit"]}
        ]
        notes = {**asked["annotations"]}
        if name == "before":
            notes["validation.policy.admission.k8s.io/validation_failure"] = json.dumps(failure)
        more = {"annotations": notes, **({**status, "answer": answer} if refusal else {})}
        log.write("create", deployment(name, replicas), **more)
    return take_in(tmp_path / "lake", log.lines)


def test_refusals_for_an_unknown_kind_are_evidence(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "calibrate", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["disagreements"] == []
    counts = {(row["policy"], row["binding"]): (row["agreed"], row["disagreed"], row["unknown"]) for row in found["agreement"]}
    assert counts["cap", None] == (0, 0, 3)
    assert counts["cap", "cap"] == (1, 0, 0)
    assert counts["other", "other"][1] == 0
