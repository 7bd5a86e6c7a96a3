"""Evaluation of policies, case by case: tests/cases/policies/*/{policy,cases}.yaml.

A case names one policy of its folder and gives a request, a world, and every row that is expected, in order. A row is
`INDEX DECISION` (INDEX `all` for the row of the whole) and the fields that matter; the others must have their plain value.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel.library.authorizer import Answer
from pipeline.cel.values import Unknown as CelUnknown
from pipeline.policies.compile import compile_policy
from pipeline.policies.dispatch import compile_set, evaluate_request
from pipeline.policies.inputs import named_namespace
from pipeline.policies.messages import denial_message
from pipeline.policies.model import PolicySet
from pipeline.policies.verdict import PolicyVerdict
from pipeline.stages.validating.decode import binding_from_object, policy_from_object
from pipeline.stages.validating.load import load_policy_set
from pipeline.stages.validating.told import denials, failure_annotation, policy_annotations, warning, warning_headers, warnings
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[2] / "cases" / "policies"
CASES = [
    pytest.param(folder, case, id=f"{folder.name}: {case['name']}")
    for folder in sorted(FOLDER.iterdir())
    for case in load_yaml((folder / "cases.yaml").read_text())
]
PLAIN = {
    "message": "",
    "reason": "",
    "code": None,
    "why": "",
    "evidence": "exact",
    "param": None,
    "annotations": {},
    "bypasses": False,
}


def policy_set(folder: Path, name: str) -> PolicySet:
    everything = load_policy_set([folder / "policy.yaml"])
    policies = tuple(policy for policy in everything.policies if policy.name == name)
    assert policies, f"{folder.name} has no policy {name}"
    return PolicySet(policies, everything.bindings_of(policies[0]), everything.objects)


def shown(row: PolicyVerdict, binding: str | None) -> dict[str, Any]:
    """A row in the form of the case files."""
    index = "all" if row.expression_index is None else row.expression_index
    fields = {
        "row": f"{index} {row.decision}",
        "effect": None if row.effect is None else str(row.effect),
        "message": row.message,
        "reason": row.reason,
        "code": row.code,
        "why": row.why,
        "evidence": row.evidence,
        "param": f"{row.param_namespace or ''}/{row.param_name or ''}" if row.param_name or row.param_namespace else None,
        "annotations": dict(row.audit_annotations),
        "bypasses": row.bypasses_actions,
    }
    if binding is None:
        fields["binding"] = row.binding
    return fields


def full(expected: dict[str, Any]) -> dict[str, Any]:
    """An expected row with the values that go without saying."""
    decision = expected["row"].split()[1]
    effect = decision if decision in ("admit", "deny") else None
    plain: dict[str, Any] = PLAIN | {"effect": effect, "reason": "Invalid" if decision == "deny" and "message" in expected else ""}
    if decision == "unknown":
        plain["evidence"] = "insufficient"
    row = plain | expected
    if row["effect"] == "deny" and row["code"] is None and row["message"] != "":
        row["code"] = 422
    return row


@pytest.mark.parametrize(("folder", "case"), CASES)
def test_case(folder: Path, case: dict[str, Any], cases: Any) -> None:
    case = cases.expanded(case)
    policies = policy_set(folder, case["policy"])
    request, world = cases.request(case["request"]), cases.world(case.get("world") or {})
    allowed = case.get("allowed")
    authorize = None if allowed is None else lambda user, asked: Answer(str(asked) in allowed)
    compiled = compile_set(policies, tuple(case.get("version", (1, 36))))
    rows = evaluate_request(compiled, request, world, authorize)
    bindings = {row.binding for row in rows}
    binding = bindings.pop() if len(bindings) == 1 and "binding" not in (case["expect"] or [{}])[0] else None
    expected = [full(row) for row in case["expect"]]
    found = [shown(row, binding or "" if "binding" not in each else None) for row, each in zip(rows, expected, strict=False)]
    assert found == expected
    assert len(rows) == len(expected), rows[len(expected) :]
    # The same request again: nothing may have been kept that changes the answer.
    assert evaluate_request(compiled, request, world, authorize) == rows
    if "denied" in case:
        assert [denial_message(request, row) for row in denials(rows)] == case["denied"]
    if "warned" in case:
        assert [warning(row) for row in warnings(rows)] == case["warned"]
    if "headers" in case:
        assert warning_headers(rows) == case["headers"]
    for version, text in (case.get("recorded") or {}).items():
        assert failure_annotation(rows, tuple(map(int, version.split(".")))) == text
    if "annotated" in case:
        assert policy_annotations(rows) == case["annotated"]


@pytest.mark.parametrize(("failures", "recorded"), [(1, 1), (50, 50), (51, 50)])
def test_from_1_37_fifty_failures_are_recorded(failures: int, recorded: int, cases: Any) -> None:
    validations = [{"expression": "object.a == 1", "message": f"number {number}"} for number in range(failures)]
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    policy = policy_from_object({"metadata": {"name": "p"}, "spec": spec}, "")
    binding = binding_from_object({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Audit"]}}, "")
    rows = evaluate_request(compile_set(PolicySet((policy,), (binding,))), cases.request({"object": {"a": 2}}), cases.world({}))
    newest, older = (json.loads(failure_annotation(rows, version) or "[]") for version in ((1, 37), (1, 36)))
    assert [entry["message"] for entry in newest] == [f"number {number}" for number in range(recorded)]
    assert older == newest[:1]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ({"name": "x", "selector": {}}, "paramRef.name and paramRef.selector are mutually exclusive"),
        ({"namespace": "shop"}, "one of name or selector must be provided"),
    ],
)
def test_a_reference_that_the_api_would_not_take(reference: dict[str, Any], problem: str, cases: Any) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    spec = {"paramKind": kind, "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    policy = policy_from_object({"metadata": {"name": "p"}, "spec": spec}, "")
    bound = {"policyName": "p", "validationActions": ["Audit"], "paramRef": {**reference, "parameterNotFoundAction": "Allow"}}
    binding = binding_from_object({"metadata": {"name": "b"}, "spec": bound}, "")
    request = cases.request({"namespace": "shop", "name": "web", "object": {}})
    (row,) = evaluate_request(compile_set(PolicySet((policy,), (binding,))), request, cases.world({}))
    assert row.message == f"failed to configure binding: {problem}"
    assert row.rejects


def test_reads_are_traced_through_variables() -> None:
    policy = policy_from_object(
        {
            "metadata": {"name": "traced"},
            "spec": {
                "variables": [
                    {"name": "spec", "expression": "object.kind == 'Pod' ? object.spec : object.spec.template.spec"},
                    {"name": "all", "expression": "variables.spec.containers + variables.spec.?initContainers.orValue([])"},
                    {"name": "unused", "expression": "object.status"},
                ],
                "validations": [{"expression": "variables.all.all(c, c.image.startsWith('a/')) && size(variables.all) > 0"}],
            },
        },
        "",
    )
    assert compile_policy(policy).reads.paths() == [
        "object.kind{}",
        "object.spec.containers[*].image",
        "object.spec.initContainers[*].image",
        "object.spec.template.spec.containers[*].image",
        "object.spec.template.spec.initContainers[*].image",
    ]


def test_of_a_namespace_that_is_not_recorded_the_name_is_known() -> None:
    value = named_namespace("shop", "not recorded")
    assert value["metadata"]["name"] == "shop"
    assert {type(value["metadata"][field]) for field in ("labels", "annotations", "creationTimestamp")} == {CelUnknown}
    assert type(value["spec"]) is type(value["status"]) is type(named_namespace("", "not recorded")) is CelUnknown
