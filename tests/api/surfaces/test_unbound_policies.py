"""Policies without a binding, and policies that met no request: every answer says what their counts are worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.cli import run
from tests.recording import Log, deployment, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [%s]}]
  matchConditions: [{name: mine, expression: "%s"}]
  validations: [{expression: "object.spec.replicas < 5"}]
---
"""
BINDING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: bound}
spec: {policyName: bound, validationActions: [Deny]}
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    log = Log()
    log.write("create", deployment("web", 1))
    policies = [
        POLICY % ("loose", "Fail", "deployments", "true"),
        POLICY % ("bound", "Fail", "deployments", "true"),
        POLICY % ("errors", "Ignore", "deployments", "object.spec.absent == 1"),
        POLICY % ("none", "Fail", "deployments", "object.spec.replicas == 9"),
    ]
    (tmp_path / "p.yaml").write_text("".join(policies) + BINDING)
    return ["--lake", str(take_in(tmp_path / "lake", log.lines)), "-f", str(tmp_path / "p.yaml")]


def test_replay_says_what_was_tried_without_a_binding(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*given[:2], "replay", *given[2:], "-o", "json"]) == 0
    (rows,) = [rows for name, rows in json.loads(capsys.readouterr().out).items() if name == "bindings"]
    remarks = {row["policy"]: row["remark"] for row in rows}
    assert remarks["bound"] == ""
    assert remarks["loose"].startswith("no binding is given: it was tried on everything that its rules match")
    assert remarks["none"].endswith("its 0 denials are vacuous: it was asked about no request")
    assert run([*given[:2], "replay", *given[2:]]) == 0
    assert "loose: no binding is given" in capsys.readouterr().out


def test_reports_say_so_and_why_conditions_left_requests_out(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run([*given[:2], "readiness", *given[2:], "-o", "json"])
    reasons = {entry["policy"]: "\n".join(entry["reasons"]) for entry in json.loads(capsys.readouterr().out)["policies"]}
    assert "no binding is given" in reasons["loose"]
    assert "no binding is given" not in reasons["bound"]
    assert "vacuous" in reasons["none"]
    assert "vacuous" not in reasons["loose"]
    assert "matchConditions that were false: mine (1)" in reasons["none"]
    assert "matchConditions that ended with an error, which failurePolicy Ignore passes over: mine (1)" in reasons["errors"]
    assert "matchConditions that were false" not in reasons["errors"]
