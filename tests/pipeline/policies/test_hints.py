"""Hints on policies that do what they say, and perhaps not what their writer wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.stages.validating.calibrate import disagreement_table
from pipeline.policies.params import NOT_FOUND
from pipeline.stages.validating.hints import hints_on
from pipeline.stages.validating.load import parse_policy_set
from tests.yaml_text import load_yaml

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "policy-hints.yaml").read_text())


def _policy(case: dict[str, Any], name: str = "p", *, binds: bool = False) -> dict[str, Any]:
    constraints = {"resourceRules": case["rules"]}
    if "selector" in case and not binds:
        constraints["namespaceSelector"] = case["selector"]
    spec = {"matchConstraints": constraints, "validations": [{"expression": case["expression"]}]}
    group = "admissionregistration.k8s.io/v1"
    return {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def _binding(case: dict[str, Any]) -> dict[str, Any]:
    spec = {"policyName": "p", "validationActions": ["Deny"], "matchResources": {"namespaceSelector": case["selector"]}}
    group = "admissionregistration.k8s.io/v1"
    return {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": spec}


def _hints(*manifests: dict[str, Any]) -> list[str]:
    return [*hints_on(parse_policy_set([("policies.yaml", "\n---\n".join(map(json.dumps, manifests)))]))]


@pytest.mark.parametrize("binds", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_hint(case: dict[str, Any], binds: bool) -> None:
    found = _hints(_policy(case, binds=binds), *([_binding(case)] if binds and "selector" in case else []))
    assert len(found) == ("says" in case)
    assert all(case["says"] in text and text.startswith("policies.yaml:") for text in found)


def test_another_policy_may_guard_the_way() -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*/scale"]}
    assert _hints(_policy(CASES[0]), _policy({**CASES[0], "rules": [rule]}, "guard")) == []


def test_a_known_defect_of_servers_is_named_next_to_its_disagreements() -> None:
    names = ("ts", "policy", "binding", "about", "recorded", "replayed", "replayed_messages", "audit_id")
    row = {**dict.fromkeys(names, ""), "recorded_messages": [f"failed to configure binding: {NOT_FOUND}"]}
    other = {**row, "recorded_messages": ["too many"]}
    (note,) = disagreement_table([row, other], None).notes
    assert note.startswith("1 request: the API server found no params where the log shows some")
    assert disagreement_table([other], None).notes == ()
