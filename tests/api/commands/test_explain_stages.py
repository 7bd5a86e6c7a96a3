"""`hindcast explain` of webhooks and of mutating policies, given or of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.cli import run
from api.routes.explain import Explained
from api.settings import Settings
from tests.querying import QueryClient
from tests.recording import Log, take_in
from tests.sharing import shared_lake

GROUP = "admissionregistration.k8s.io/v1"
HOOKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: given}
webhooks:
- name: team.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  clientConfig: {url: "https://hooks.example.com/"}
  objectSelector: {matchLabels: {team: a}}
  matchConditions: [{name: owned, expression: "object.data.owner == 'me'"}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: pods.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  clientConfig: {url: "https://hooks.example.com/"}
  sideEffects: None
  admissionReviewVersions: [v1]
"""
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  variables: [{name: owner, expression: "object.data.owner"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'owner': variables.owner}}}"}
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/data/none"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: labels}
spec: {policyName: labels}
"""


def config_map(name: str, labels: dict[str, str], **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def make(path: Path) -> None:
    log = Log(timedelta(minutes=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    hook = {
        "name": "guard.example.com",
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
        "clientConfig": {"url": "https://hooks.example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    metadata = {"name": "guard", "uid": "guard", "resourceVersion": "9"}
    log.write("create", {"apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [hook]})
    log.write("create", config_map("a", {"team": "a"}, owner="me"))
    told = {"code": 403, "message": 'admission webhook "guard.example.com" denied the request: no', "reason": "Forbidden"}
    log.write("create", config_map("b", {"team": "a"}), responseStatus={"metadata": {}, "status": "Failure", **told})
    log.write("create", config_map("c", {"team": "c"}, owner="you"))
    take_in(path, log.lines)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_lake(tmp_path_factory, "explained-stages", make)


@pytest.fixture(scope="module")
def asked(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as client:
        yield client


def explained(lake: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert run(["-q", "--lake", str(lake), "explain", *arguments, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    return {each["binding"] or each["policy"]: each for each in found["policies"]}


def test_a_webhook_names_the_rule_the_selector_and_the_condition_that_decided(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hooks.yaml"
    file.write_text(HOOKS)
    found = explained(lake, capsys, "id-0002", "-f", str(file))
    called, other = found["team.example.com"], found["pods.example.com"]
    assert (called["decision"], other["decision"]) == ("called", "nomatch")
    facts = {each["name"]: each["text"] for each in called["facts"]}
    assert facts["rules"] == "rules[0] matches CREATE v1 configmaps"
    assert facts["object"] == "objectSelector reads team=a"
    assert [(each["decision"], each["parts"][0]["operands"][0]["value"]) for each in called["conditions"]] == [("true", "me")]
    assert other["why"] == "resourceRules[0].resources: 'configmaps' is not in ['pods']"
    assert explained(lake, capsys, "id-0004", "-f", str(file))["team.example.com"]["why"].startswith("objectSelector: team In [a]")
    failed = explained(lake, capsys, "id-0003", "-f", str(file), "--policy", "team.example.com")["team.example.com"]
    assert (failed["decision"], failed["rejects"]) == ("error", True)
    assert "no such key: owner" in failed["message"]
    assert run(["-q", "--lake", str(lake), "explain", "id-0003", "-f", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "given, webhook team.example.com: would deny, because it fails" in printed
    assert "Webhooks that do not match" in printed


def test_a_webhook_of_the_log_shows_what_the_log_says_of_it(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hook,) = explained(lake, capsys, "id-0003", "--stage", "webhooks").values()
    assert hook["decision"] == "called"
    assert {"name": "log", "text": "the log says: denied"} in hook["facts"]


def test_a_mutating_policy_shows_each_value_and_each_change(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ignored errors too: the second mutation fails in both rounds."""
    file = tmp_path / "policies.yaml"
    file.write_text(POLICIES)
    found = explained(lake, capsys, "id-0002", "-f", str(file))
    assert found["mutating"]["decision"] == "changed"
    own = found["labels"]
    assert (own["decision"], own["effect"]) == ("error", "admit")
    assert [each["field"] for each in own["validations"]] == [
        "mutations[0]", "mutations[1]", "mutations[0], second round", "mutations[1], second round",
    ]  # fmt: skip
    assert own["validations"][0]["value"] == {"metadata": {"labels": {"owner": "me"}}}
    assert [(each["field"], each["value"]) for each in own["variables"]] == [("variables.owner", "me")]
    facts = [each["text"] for each in own["facts"] if each["name"].startswith("round")]
    assert facts[0] == 'mutations[0]: add metadata.labels.owner "me"'
    assert facts[1].startswith("mutations[1] fails: JSON Patch: error in remove")
    assert facts[2] == "mutations[0] leaves the object as it is"


def test_a_stage_without_anything_says_so(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "explain", "id-0002", "--stage", "mutating"]) == 3
    assert "give them with -f" in capsys.readouterr().err


def test_http_explains_what_is_posted_by_each_stage(asked: QueryClient) -> None:
    body, sent = f"{HOOKS}---\n{POLICIES}", {"Content-Type": "application/yaml"}
    answer = asked.send("POST", "/requests/lab/id-0002/explain", headers=sent, content=body)
    assert answer.status_code == 200, answer.text
    found = {each["stage"]: {of["policy"]: of["decision"] for of in each["policies"]} for each in answer.json()["explanations"]}
    assert found["webhooks"]["given"] in ("called", "nomatch")
    assert found["mutating"] == {"mutating": "changed", "labels": "error"}
    msgspec.convert(answer.json(), Explained, strict=False)


def test_http_explains_the_webhooks_of_that_time(asked: QueryClient) -> None:
    (found,) = asked.get("/requests/lab/id-0003/explain", stage="webhooks")["explanations"]
    (hook,) = found["policies"]
    assert {"name": "log", "text": "the log says: denied"} in hook["facts"]
    status, error = asked.refused("/requests/lab/id-0003/explain", stage="mutating")
    assert (status, error["code"]) == (409, "not_enough_evidence")
    page = asked.page("/request?cluster=lab&audit_id=id-0003&stage=webhooks", is_explained=True)
    assert "the log says: denied" in page
    assert "With the webhooks that were in force at the time of the request" in page
    assert "stage=mutating" in page


@pytest.mark.parametrize(
    ("manifests", "shown"),
    [
        (HOOKS, ("rules[0] matches CREATE v1 configmaps", "1 webhook does not match it", "What the webhooks saw")),
        (POLICIES, ("add metadata.labels.owner &#34;me&#34;", "What the mutating policies saw")),
    ],
)
def test_a_replay_explains_with_its_manifests(
    lake: Path, asked: QueryClient, tmp_path: Path, manifests: str, shown: tuple[str, ...]
) -> None:
    """Over HTTP and on the page of a request of the replay."""
    file = tmp_path / "given.yaml"
    file.write_text(manifests)
    before = {each.name for each in (lake / "runs").glob("*")}
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file)]) == 0
    (run_id,) = (each.name for each in (lake / "runs").glob("*") if each.name not in before)
    (found,) = asked.get("/requests/lab/id-0002/explain", run=run_id)["explanations"]
    assert any(each["facts"] for each in found["policies"])
    page = asked.page(f"/runs/{run_id}/request?audit_id=id-0002", is_explained=True)
    assert all(words in page for words in shown)
