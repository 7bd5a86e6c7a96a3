"""Every command counts a request to an aggregated API once, though two servers logged it; counts of other requests stay."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.aggregated_api import CLIENT, GROUP, inner, outer
from tests.recording import Object
from tests.yaml_text import load_yaml_all

POLICY = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: no-x}}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: [{GROUP}], apiVersions: ["*"], operations: [CREATE], resources: [flunders]}}
  validations:
  - {{expression: object.spec.reference != 'x', message: no x}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: no-x}}
spec: {{policyName: no-x, validationActions: [Deny]}}
"""
HOOK = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: hook}}
webhooks:
- name: hook.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {{service: {{namespace: a, name: b}}}}
  rules:
  - {{apiGroups: [{GROUP}], apiVersions: ["*"], operations: [CREATE], resources: [flunders]}}
"""
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "flunder"}}
ROLE |= {"rules": [{"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["create"]}]}
BINDING = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "flunder"}}
BINDING |= {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunder"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
}
FAILURE = [{"message": "no x", "policy": "no-x", "binding": "no-x", "expressionIndex": 0, "validationActions": ["Audit"]}]
FAILED = {**inner(0)["annotations"], "validation.policy.admission.k8s.io/validation_failure": json.dumps(FAILURE)}
OUTER = [outer(number) for number in range(5)]
INNER = [inner(number, annotations=FAILED) for number in range(5)]
ORDERS = {"one log": [[*OUTER, *INNER]], "outer first": [OUTER, INNER], "inner first": [INNER, OUTER]}


def lake_of(folder: Path, logs: Iterable[list[Object]]) -> Path:
    """A lake after one ingest of each log."""
    for number, log in enumerate(logs):
        file = folder / f"audit-{number}.log"
        file.write_text("".join(json.dumps(event) + "\n" for event in log), encoding="utf-8")
        assert run(["-q", "--lake", str(folder / "lake"), "ingest", str(file), "--cluster", "c"]) == 0
    for name, text in (("policy", POLICY), ("hook", HOOK), ("role", f"{json.dumps(ROLE)}\n---\n{json.dumps(BINDING)}\n")):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "lake"


def answer(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    run(["-q", "--lake", str(lake), *words, "-o", "json"])
    return json.loads(capsys.readouterr().out)


def replayed(lake: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    (row,) = answer(lake, capsys, "replay", "-f", str(lake.parent / "policy.yaml"))["bindings"]
    return {name: row[name] for name in ("matched", "deny", "unknown")}


@pytest.mark.parametrize("order", ORDERS)
def test_every_command_counts_five_requests(tmp_path: Path, order: str, capsys: pytest.CaptureFixture[str]) -> None:
    lake = lake_of(tmp_path, ORDERS[order])
    policy, hook, role = (str(tmp_path / f"{name}.yaml") for name in ("policy", "hook", "role"))
    assert replayed(lake, capsys) == {"matched": 5, "deny": 5, "unknown": 0}
    report = answer(lake, capsys, "readiness", "-f", policy)
    assert (report["events"], report["requests"]) == (5, 5)
    assert answer(lake, capsys, "replay", "-f", role, "--only")["flips"] == [{"flip": "same", "requests": 5}]
    assert answer(lake, capsys, "webhooks", "load", "-f", hook)["load"][0]["calls"] == 5
    (failed,) = answer(lake, capsys, "violations")["failures"]
    assert (failed["failures"], failed["requests"]) == (5, 5)
    (source,) = answer(lake, capsys, "doctor")["sources"]
    assert source["events"] == 5
    capsys.readouterr()
    assert run(["--lake", str(lake), "least-privilege", "--subject", "alice"]) == 0
    assert "replay --only of this file: 5 of 5 requests allowed, 0 refused" in capsys.readouterr().err


@pytest.mark.parametrize("order", ORDERS)
def test_unused_rights_count_uses_once(tmp_path: Path, order: str, capsys: pytest.CaptureFixture[str]) -> None:
    roles = [rbac_write(number, obj) for number, obj in enumerate((ROLE, BINDING))]
    lake = lake_of(tmp_path, [roles, *ORDERS[order]])
    (grant,) = answer(lake, capsys, "least-privilege", "--unused")["grants"]
    assert grant["requests"] == 5


def rbac_write(number: int, obj: Object) -> Object:
    """The recorded create of a role or binding, before all other requests."""
    at = f"2025-12-31T23:00:0{number}.000000Z"
    plural = f"{obj['kind'].lower()}s"
    body = obj | {"metadata": obj["metadata"] | {"uid": f"uid-{plural}", "resourceVersion": "1"}}
    return inner(
        number,
        auditID=f"rbac-{number}",
        requestURI=f"/apis/rbac.authorization.k8s.io/v1/{plural}",
        objectRef={"resource": plural, "name": "flunder", "apiGroup": "rbac.authorization.k8s.io", "apiVersion": "v1"},
        user={"username": "admin", "groups": ["system:masters"]},
        requestReceivedTimestamp=at,
        stageTimestamp=at,
        requestObject=body,
        responseObject=body,
    )


def test_a_pair_that_arrives_between_two_replays_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the first replay kept of files and objects does not bring the outer events back."""
    lake = lake_of(tmp_path, [OUTER])
    assert replayed(lake, capsys) == {"matched": 5, "deny": 0, "unknown": 5}
    lake_of(tmp_path, [INNER[:3]])
    assert replayed(lake, capsys) == {"matched": 5, "deny": 3, "unknown": 2}
    lake_of(tmp_path, [INNER])
    assert replayed(lake, capsys) == {"matched": 5, "deny": 5, "unknown": 0}


def test_a_lake_of_an_earlier_version_says_what_it_counts_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ingest.folding.candidates", lambda table: [])  # earlier versions looked for none, not even in compaction
    monkeypatch.setattr("ingest.maintain.fold_table", lambda table: table)
    lake = lake_of(tmp_path, [OUTER, INNER])
    assert run(["-q", "--lake", str(lake), "compact", "--no-prepare"]) == 0
    monkeypatch.undo()

    def told() -> list[Any]:
        return [each for each in answer(lake, capsys, "doctor")["findings"] if each["kind"] == "counted_twice"]

    assert replayed(lake, capsys)["matched"] == 10
    (found,) = told()
    assert (found["count"], found["cluster"], found["action"]) == (5, "c", "run `hindcast compact`")
    assert run(["-q", "--lake", str(lake), "compact", "--no-prepare"]) == 0
    assert told() == []
    assert replayed(lake, capsys) == {"matched": 5, "deny": 5, "unknown": 0}


CONTROLS = {
    "the extension server's log alone": ([INNER], {"matched": 5, "deny": 5, "unknown": 0}),
    "kube-apiserver's log alone": ([OUTER], {"matched": 5, "deny": 0, "unknown": 5}),
    "a client uses an auditID again": (
        [[inner(0, sourceIPs=[CLIENT]), inner(1, auditID="id-0", sourceIPs=[CLIENT])]],
        {"matched": 2, "deny": 2, "unknown": 0},
    ),
    "two requests of one client at one time": (
        [[inner(0, sourceIPs=[CLIENT]), inner(0, sourceIPs=[CLIENT], stageTimestamp="2026-01-01T00:00:00.016000Z")]],
        {"matched": 2, "deny": 2, "unknown": 0},
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_other_requests_are_counted_as_they_are(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs, wanted = CONTROLS[name]
    assert replayed(lake_of(tmp_path, logs), capsys) == wanted


def test_least_privilege_keeps_the_right_to_impersonate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["system:authenticated"]
    admin = {"user": {"username": "admin", "groups": groups}, "impersonatedUser": {"username": "alice", "groups": groups}}
    lake = lake_of(tmp_path, [INNER, [event | admin for event in OUTER]])
    capsys.readouterr()
    assert run(["--lake", str(lake), "least-privilege", "--subject", "admin"]) == 0
    rules = [rule for each in load_yaml_all(capsys.readouterr().out) for rule in (each or {}).get("rules", ())]
    assert ["impersonate"] in [rule["verbs"] for rule in rules]
