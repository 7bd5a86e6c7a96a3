"""Reading policy files: what is refused, with file and line, and what is defaulted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import InputError
from pipeline.matching import EVERYTHING
from pipeline.policies.model import Action, NotFoundAction, Policy
from pipeline.policies.refusing import refused_expressions
from pipeline.stages.validating.decode import policy_from_object
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from tests.yaml_text import load_yaml

REFUSED = load_yaml((Path(__file__).parents[2] / "cases" / "policies_load" / "refused.yaml").read_text())
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


SCALARS = load_yaml((Path(__file__).parents[2] / "cases" / "policies_load" / "scalars.yaml").read_text())


@pytest.mark.parametrize("case", [pytest.param(case, id=case["text"]) for case in SCALARS])
def test_plain_scalars(case: dict[str, Any]) -> None:
    (given,) = parse_policy_set([("c.yaml", f"apiVersion: v1\nkind: ConfigMap\ndata: {{a: {case['text']}}}\n")]).objects
    assert (given.object["data"]["a"], type(given.object["data"]["a"])) == (case["value"], type(case["value"]))


def test_what_would_end_the_process_or_fill_the_memory_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    for text, found in ((bomb, "p.yaml:7: stands for more than 5,000,000 values"), ("[" * 100_000, "p.yaml:1: nested deeper")):
        with pytest.raises(InputError, match=found):
            parse_policy_set([("p.yaml", text)])


def test_json_as_kubectl_takes_it() -> None:
    policy = {**load_yaml(PLAIN), "metadata": {"name": "plain", "labels": {"mood": "\U0001f600"}}}
    numbers = '"one": 1.0, "low": -1234567890123456789, "big": 92233720368547758070'
    param = f'{{\n\t"apiVersion": "v1", "kind": "ConfigMap", "data": {{"half": "\\ud800", {numbers}}}}}'
    found = parse_policy_set([("p.json", "\n".join((json.dumps(policy), param)))])
    assert [policy.name for policy in found.policies] == ["plain"]
    assert found.objects[0].object["data"] == {"half": "\ufffd", "one": 1, "low": -1234567890123456789, "big": 9.223372036854776e19}
    assert found.objects[0].source == "p.json:2"
    with pytest.raises(InputError, match=r"p.json:1: key 'kind' is there twice"):
        parse_policy_set([("p.json", '{"kind": "A",\t"kind": "\\ud83d\\ude00"}')])


def test_the_items_of_a_list_of_one_kind_are_of_it() -> None:
    item = {key: value for key, value in load_yaml(PLAIN).items() if key in ("metadata", "spec")}
    listed = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyList", "items": [item]}
    assert [policy.name for policy in parse_policy_set([("p.json", json.dumps(listed))]).policies] == ["plain"]


def test_files_that_are_there_twice_are_read_once_and_links_to_nothing_are_told(tmp_path: Path) -> None:
    # A mounted ConfigMap: the files are links into a hidden folder.
    hidden = tmp_path / "policies" / "..data"
    hidden.mkdir(parents=True)
    (hidden / "a.yaml").write_bytes(b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode())
    (tmp_path / "policies" / "a.yaml").symlink_to(hidden / "a.yaml")
    assert len(load_policy_set([tmp_path / "policies", hidden / "a.yaml"]).policies) == 1
    lost = tmp_path / "policies" / "b.yaml"
    for target in ("nowhere", "b.yaml"):
        lost.symlink_to(target)
        with pytest.raises(InputError, match=r"b.yaml: cannot be read: "):
            load_policy_set([tmp_path / "policies"])
        lost.unlink()
    lost.write_bytes(b"kind: A\nnote: \xe4")
    with pytest.raises(InputError, match=r"b.yaml:2: found the byte 0xe4, wanted UTF-8"):
        load_policy_set([lost])


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


NEW = json.loads((Path(__file__).parents[2] / "cases" / "policies_load" / "new_expressions_1_33.json").read_text())


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in NEW])
def test_new_expressions_are_taken_as_a_server_of_1_33_took_them(row: dict[str, Any]) -> None:
    """The rows are answers of a kube-apiserver 1.33.13 to policies that were new to it."""
    policies = parse_policy_set([("p.yaml", PLAIN.replace('"true"', json.dumps(row["expression"])))]).policies
    errors = [each.error.rpartition("\na server of 1.33")[0] or each.error for each in refused_expressions(policies[0], (1, 33))]
    assert errors == ([row["message"]] if row["code"] == 422 else [])


def test_expressions_that_a_cluster_has_stored_compile_with_its_own_cel() -> None:
    def policy_of(expression: str, text: str = PLAIN) -> Policy:
        return parse_policy_set([("p.yaml", text.replace('"true"', expression))]).policies[0]

    policy, other = policy_of("isSemver('1.2.3')"), policy_of("isSemver('1.2')")
    read = policy_of("isSemver('1')", PLAIN.replace("name: plain", "name: plain\n  resourceVersion: '7'"))
    assert "a server of 1.33 compiles new expressions with the CEL of 1.32" in refused_expressions(policy, (1, 33))[0].error
    assert refused_expressions(policy, (1, 34)) == refused_expressions(policy, (1, 33), lambda: [policy]) == ()
    assert refused_expressions(policy, (1, 33), lambda: [other]) != ()
    assert refused_expressions(read, (1, 33)) == ()
    assert refused_expressions(read, (1, 33), lambda: [policy]) != ()


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
        "big": 1000,
        "hex": 31,
        "flag": True,
        "1": "one",
        "dotted": 1.5,
    }


def test_a_recorded_policy_is_not_validated_again() -> None:
    recorded = {"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"validations": [], "fromTheFuture": {}}}
    policy = policy_from_object(recorded, "responseObject")
    assert (policy.resource_version, policy.match_constraints, policy.source) == ("7", None, "responseObject")
