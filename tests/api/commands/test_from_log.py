"""Webhooks and mutating policies that `replay` takes from the log, as of one moment."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.recording import START, Log, take_in
from tests.sharing import shared_lake
from tests.yaml_text import load_yaml_all

GROUP = "admissionregistration.k8s.io/v1"
EARLY, LATE = ((START + timedelta(minutes=minutes)).isoformat() for minutes in (3.5, 20))
PLURAL = {"plural": "mutatingadmissionpolicies"}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def hook(resource: str, version: int) -> dict[str, Any]:
    own = {
        "name": "guard.example.com",
        "rules": [RULE | {"resources": [resource]}],
        "clientConfig": {"url": "https://hooks.example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    metadata = {"name": "guard", "uid": "guard", "resourceVersion": str(version)}
    return {"apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [own]}


def policy(value: str, version: int) -> dict[str, Any]:
    change = f"Object{{metadata: Object.metadata{{labels: {{'team': '{value}'}}}}}}"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
    }
    metadata = {"name": "labels", "uid": "labels", "resourceVersion": str(version)}
    return {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec}


def unbound(kind: str, version: int) -> dict[str, Any]:
    """A policy that would refuse every request, and that nothing binds."""
    value = policy("z", version)
    value["metadata"] = {"name": "unbound", "uid": f"unbound-{kind}", "resourceVersion": str(version)}
    if kind == "ValidatingAdmissionPolicy":
        value["spec"] = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "false"}]}
    else:
        value["spec"]["matchConditions"] = [{"name": "error", "expression": "object.missing.field"}]
    return value | {"kind": kind, "plural": f"{kind[:-1].lower()}ies"}


def bound_guard() -> list[dict[str, Any]]:
    value = unbound("ValidatingAdmissionPolicy", 30)
    value["metadata"] = {"name": "guard", "uid": "guard-policy", "resourceVersion": "30"}
    value["spec"]["validations"] = [{"expression": "object.metadata.name != 'two'"}]
    head = {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding"}
    metadata = {"name": "guard", "uid": "guard-binding", "resourceVersion": "31"}
    return [value, {**head, "metadata": metadata, "spec": {"policyName": "guard", "validationActions": ["Deny"]}}]


def make(path: Path) -> None:
    binding = {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "labels", "uid": "binding"}}
    log = Log(timedelta(minutes=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write("create", hook("secrets", 1))
    log.write("create", policy("a", 2) | PLURAL)
    log.write("create", binding | {"spec": {"policyName": "labels"}})
    for name in ("one", "two"):
        metadata = {"name": name, "namespace": "shop", "uid": name}
        log.write("create", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    log.write("update", hook("configmaps", 8))
    log.write("update", policy("b", 9) | PLURAL)
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        log.write("create", unbound(kind, 20))
    for each in bound_guard():
        log.write("create", each)
    take_in(path, log.lines)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_lake(tmp_path_factory, "from-log", make)


def replayed(lake: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["-q", "--lake", str(lake), "replay", *arguments, "-o", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(("moment", "requests"), [(EARLY, 0), (LATE, 2)])
def test_webhooks_are_those_of_the_moment(lake: Path, capsys: pytest.CaptureFixture[str], moment: str, requests: int) -> None:
    plan = replayed(lake, capsys, "--from-log", moment, "--stage", "webhooks", "--plan")
    (group,) = plan["bindings"]
    assert (group["policy"], group["binding"], group["requests"]) == ("guard", "guard.example.com", requests)


def test_mutating_policies_of_the_log_are_replayed_and_kept_next_to_the_run(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set((lake / "runs").glob("*"))
    found = replayed(lake, capsys, "--from-log", LATE, "--stage", "mutating")
    assert [(row["policy"], row["changed"]) for row in found["policies"]] == [("labels", 2)]
    (made,) = set((lake / "runs").glob("*")) - before
    kept = list(load_yaml_all((made / "manifests.yaml").read_text()))
    assert [each["kind"] for each in kept] == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
    assert "'team': 'b'" in str(kept[0])


def test_a_policy_that_nothing_bound_is_not_in_force(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the log neither a mutating nor a validating one is replayed; a file may bind it."""
    found = replayed(lake, capsys, "--from-log", LATE)
    assert {(row["policy"], row["deny"]) for row in found["bindings"]} == {("guard", 1)}
    file = tmp_path / "binding.yaml"
    head = {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "new"}}
    file.write_text(yaml.safe_dump(head | {"spec": {"policyName": "unbound", "validationActions": ["Deny"]}}))
    found = replayed(lake, capsys, "-f", str(file), "--from-log", LATE)
    assert {(row["policy"], row["deny"]) for row in found["bindings"]} == {("unbound", 2)}


def test_a_version_before_may_be_that_of_the_log(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its policy is the one of the same name at that time, and no request is denied newly."""
    file = tmp_path / "policy.yaml"
    binding = {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "labels"}}
    file.write_text(yaml.safe_dump_all([policy("c", 1), binding | {"spec": {"policyName": "labels"}}]))
    found = replayed(lake, capsys, "-f", str(file), "--against-log", EARLY)
    assert {row["policy"]: row["newly_denied"] for row in found["requests"]} == {"labels": 0, "mutating": 0}


def odd(value: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A stored object with a part that no API server writes, under a name of its own."""
    return {**value, **changes, "metadata": {"name": "odd", "uid": f"odd-{value['kind']}"}}


@pytest.fixture(scope="module")
def odd_lake(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake with two objects more that cannot be read."""
    copied = tmp_path_factory.mktemp("odd") / "lake"
    shutil.copytree(lake, copied, symlinks=True)
    log = Log(timedelta(minutes=1))
    log.write("create", odd(hook("configmaps", 1), webhooks=[{"name": "odd.example.com", "rules": "x"}]))
    log.write("create", odd(policy("c", 1), spec={"mutations": 1}) | PLURAL)
    events = [{**event, "auditID": f"odd-{number}"} for number, event in enumerate(log.lines)]
    return take_in(copied, events, "odd.jsonl")


@pytest.mark.parametrize(("stage", "judged"), [("webhooks", "guard"), ("mutating", "labels")])
def test_an_odd_recorded_object_is_named_and_the_others_are_judged(
    odd_lake: Path, capsys: pytest.CaptureFixture[str], stage: str, judged: str
) -> None:
    assert run(["-q", "--lake", str(odd_lake), "replay", "--from-log", LATE, "--stage", stage, "-o", "json"]) == 4
    said = capsys.readouterr()
    assert f'"{judged}"' in said.out
    kind = "ValidatingWebhookConfiguration" if stage == "webhooks" else "MutatingAdmissionPolicy"
    assert f"left out: {kind} odd is unknown: " in said.err


def test_an_odd_recorded_object_stops_only_what_asks_for_it(
    odd_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["-q", "--lake", str(odd_lake)]
    assert run([*start, "webhooks", "down"]) == 4
    assert "odd is unknown" in capsys.readouterr().err
    for value, code in ((hook("pods", 1), 0), (odd(hook("pods", 1)), 3)):
        value["metadata"] = {"name": value["metadata"]["name"]}
        (tmp_path / "hook.yaml").write_text(yaml.safe_dump(value))
        assert run([*start, "replay", "-f", str(tmp_path / "hook.yaml"), "--against-log", LATE]) == code
    assert "odd is unknown" in capsys.readouterr().err


def test_without_a_readable_object_the_answer_is_missing_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(timedelta(minutes=1))
    log.write("create", odd(hook("configmaps", 1), webhooks=1))
    lake = take_in(tmp_path / "lake", log.lines)
    assert run(["-q", "--lake", str(lake), "replay", "--from-log", LATE, "--stage", "webhooks"]) == 3
    assert "ValidatingWebhookConfiguration odd is unknown: " in capsys.readouterr().err


def test_mistakes_name_the_next_step(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["-q", "--lake", str(lake), "replay"]
    assert run([*start, "--from-log", "2020-01-01T00:00:00Z", "--stage", "mutating"]) == 3
    assert "neither log nor snapshots tell of a mutating policy in force" in capsys.readouterr().err
    assert run([*start, "-f", str(lake), "--stage", "webhooks"]) == 2
    assert "--stage webhooks is for --from-log without -f" in capsys.readouterr().err
