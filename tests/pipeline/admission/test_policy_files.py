"""Reading policy files: what is refused, with file and line, and what is defaulted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.errors import InputError
from pipeline.admission.policies import (
    Action,
    NotFoundAction,
    load_policy_set,
    parse_policy_set,
    policy_from_object,
    refused_expressions,
)
from pipeline.matching import EVERYTHING

REFUSED = yaml.safe_load((Path(__file__).parents[2] / "cases" / "policies_load" / "refused.yaml").read_text())
PLAIN = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: plain
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  validations:
  - expression: "true"
"""
BINDING = """\
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: bound}
spec: {policyName: plain, validationActions: [Warn, Audit], paramRef: {name: x}, matchResources: {}}
"""


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in REFUSED])
def test_refused(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        parse_policy_set([("p.yaml", case["file"])])
    assert str(caught.value) == case["error"]


def test_resources_before_the_wildcard_that_covers_them_are_taken() -> None:
    assert parse_policy_set([("p.yaml", PLAIN.replace("[pods]", '[pods/status, "pods/*", "*", "*/scale"]'))]).policies


def test_expressions_that_an_api_server_would_not_take() -> None:
    text = PLAIN.replace("  validations:", "  variables: [{name: a, expression: object.a}]\n  matchConditions:\n%s\n  validations:")
    conditions = "\n".join(
        f"  - {{name: {name}, expression: {text}}}" for name, text in (("b", "variables.a == 1"), ("c", "object.c"))
    )
    (policy,) = parse_policy_set([("p.yaml", text % conditions)]).policies
    found = [(each.source, each.error.partition(": ERROR")[0]) for each in refused_expressions(policy, (1, 36))]
    assert found == [
        ("p.yaml:12", "must evaluate to bool but got dyn"),
        ("p.yaml:11", "a match condition has no variables: compilation failed"),
    ]


def test_defaults_are_those_of_the_api() -> None:
    policies = parse_policy_set([("p.yaml", PLAIN), ("b.yaml", BINDING)])
    (policy,), (binding,) = policies.policies, policies.bindings
    assert policy.failure_policy == "Fail"
    assert policy.match_constraints is not None
    assert policy.match_constraints.match_policy == "Equivalent"
    assert policy.match_constraints.namespace_selector == policy.match_constraints.object_selector == EVERYTHING
    assert policy.match_constraints.resource_rules[0].scope == "*"
    assert (policy.source, policy.validations[0].source) == ("p.yaml:1", "p.yaml:10")
    assert binding.validation_actions == (Action.WARN, Action.AUDIT)
    # Only v1alpha1 has a default for it.
    assert binding.param_ref is not None
    assert binding.param_ref.not_found_action is NotFoundAction.DENY
    assert binding.match_resources is not None
    assert binding.match_resources.match_policy == "Equivalent"
    assert policies.bindings_of(policy) == (binding,)


def test_folders_lists_json_and_params(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.yaml").write_text(PLAIN + "---\n---\n")
    (folder / "list.json").write_text(
        '{"apiVersion": "v1", "kind": "List",\n "items": [\n\t{"apiVersion": "v1", "kind": "ConfigMap"}]}'
    )
    (folder / "notes.txt").write_text("not read")
    policies = load_policy_set([folder])
    assert [policy.name for policy in policies.policies] == ["plain"]
    assert [given.object for given in policies.objects] == [{"apiVersion": "v1", "kind": "ConfigMap"}]
    with pytest.raises(InputError, match="no such file or folder"):
        load_policy_set([tmp_path / "absent"])


def test_scalars_are_read_as_kubectl_reads_them() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\n"
    text += "data: {day: 2026-11-21, time: 12:30, big: 1e3, hex: 0x1F, flag: yes, 1: one, dotted: 1.5}\n"
    (given,) = parse_policy_set([("c.yaml", text)]).objects
    assert given.object["data"] == {
        "day": "2026-11-21",
        "time": "12:30",
        "big": 1000.0,
        "hex": 31,
        "flag": True,
        "1": "one",
        "dotted": 1.5,
    }


def test_a_recorded_policy_is_not_validated_again() -> None:
    recorded = {"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"validations": [], "fromTheFuture": {}}}
    policy = policy_from_object(recorded, "responseObject")
    assert (policy.resource_version, policy.match_constraints, policy.source) == ("7", None, "responseObject")
