"""`hindcast webhooks migrate`: a webhook and the policy that shall replace it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.cli import run
from api.settings import Settings
from pipeline.policies.model import FailurePolicy
from pipeline.stages.webhooks.steps import Seen, steps
from tests.querying import QueryClient
from tests.recording import Log, take_in

HOOK = "names.guard.example.com"
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: reserved}
spec:
  failurePolicy: Ignore
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: "!object.metadata.name.startsWith('PREFIX')", message: this name is reserved}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: reserved}
spec: {policyName: reserved, validationActions: [Audit]}
"""


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", "uid": name}, "data": data}


def denied(message: str) -> dict[str, Any]:
    told = f'admission webhook "{HOOK}" denied the request: {message}'
    return {"responseStatus": {"metadata": {}, "code": 403, "message": told, "status": "Failure", "reason": "Forbidden"}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namespace, a webhook, four denials of reserved names and three other writes; one name is denied once and allowed once."""
    log = Log(timedelta(seconds=10))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write("create", config_map("reserved-before"))
    hook = {
        "name": HOOK,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
        "clientConfig": {"url": "https://guard.example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    metadata = {"name": "guard", "uid": "guard", "resourceVersion": "9"}
    group = "admissionregistration.k8s.io/v1"
    log.write("create", {"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [hook]})
    for name in ("a", "b", "moody"):
        log.write("create", config_map(name))
    for number in range(4):
        log.write("create", config_map(f"reserved-{number}"), **denied("this name is reserved" if number else "no"))
    log.write("delete", config_map("moody"))
    log.write("create", config_map("moody"), **denied("not today"))
    return take_in(tmp_path_factory.mktemp("migrate") / "lake", log.lines)


def asked(lake: Path, file: Path, capsys: pytest.CaptureFixture[str], prefix: str, *more: str) -> dict[str, Any]:
    file.write_text(POLICY.replace("PREFIX", prefix))
    assert run(["-q", "--lake", str(lake), "webhooks", "migrate", HOOK, "-f", str(file), "-o", "json", *more]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_policy_that_says_the_same_agrees_but_for_moods(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(lake, tmp_path / "policy.yaml", capsys, "reserved-")
    cells = {(each["cell"], each["message"]): (each["requests"], each["same_message"]) for each in found["agreement"]}
    assert cells == {
        ("policy looser", "not today"): (1, None),
        ("both deny", "this name is reserved"): (4, 3),
        ("both allow", ""): (3, None),
    }
    (pair,) = found["pairs"]
    assert (pair["name"], pair["allowed"], pair["denied"]) == ("moody", "id-0005", "id-0011")
    assert [each["done"] for each in found["steps"]] == [True, *[False] * 6]


def test_a_policy_with_a_typo_is_looser(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(lake, tmp_path / "policy.yaml", capsys, "reserved_")
    assert [(each["cell"], each["message"], each["requests"], each["example"]) for each in found["agreement"]][:3] == [
        ("policy looser", "this name is reserved", 3, "id-0007"),
        ("policy looser", "no", 1, "id-0006"),
        ("policy looser", "not today", 1, "id-0011"),
    ]
    assert run(["-q", "--lake", str(lake), "webhooks", "migrate", HOOK, "-f", str(tmp_path / "policy.yaml")]) == 0
    printed = capsys.readouterr().out
    assert "5 disagreements in 8 requests that both decided, 5 of them denials of the webhook" in printed
    assert "the webhook is no function of the request: 1 times" in printed
    assert "equivalent" not in printed


def test_a_reservation_of_names_becomes_a_policy(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """T002-10: four denials, before the webhook has moods. A policy says the same, and one with a typo does not."""
    until = ("--until", "2026-01-01T00:01:35Z")
    found = asked(lake, tmp_path / "policy.yaml", capsys, "reserved-", *until)
    assert {each["cell"]: each["requests"] for each in found["agreement"]} == {"both deny": 4, "both allow": 3}
    found = asked(lake, tmp_path / "policy.yaml", capsys, "reserved_", *until)
    looser = [each for each in found["agreement"] if each["cell"] == "policy looser"]
    assert sum(each["requests"] for each in looser) == 4
    assert all(each["example"] for each in looser)


def test_a_wrong_question_is_refused(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    for arguments, said in (
        (["migrate", "-f", str(file)], "`migrate` needs a webhook name; list them with `hindcast webhooks`"),
        (["load", "x"], "`load` takes no webhook name, found 'x'"),
        (["migrate", "x.example.com", "-f", str(file)], f"the log shows no webhook 'x.example.com'; choose of {HOOK}"),
    ):
        assert run(["-q", "--lake", str(lake), "webhooks", *arguments]) == 2
        assert said in capsys.readouterr().err


FAIL, IGNORE, AUDIT, DENY = FailurePolicy.FAIL, FailurePolicy.IGNORE, frozenset({"Audit"}), frozenset({"Deny", "Audit"})
STATES = [
    ("only the webhook", Seen(FAIL, None, frozenset(), 3, 0), 1),
    ("a policy without a binding", Seen(FAIL, IGNORE, frozenset(), 3, 0), 2),
    ("a policy that disagrees", Seen(FAIL, IGNORE, AUDIT, 3, 1), 2),
    ("a policy that agrees", Seen(FAIL, IGNORE, AUDIT, 3, 0), 3),
    ("enforced, and the webhook still denies", Seen(FAIL, FAIL, DENY, 3, 0), 4),
    ("enforced, and the webhook is silent", Seen(FAIL, FAIL, DENY, 0, 0), 5),
    ("the webhook may fail", Seen(IGNORE, FAIL, DENY, 0, 0), 6),
    ("the webhook is gone", Seen(None, FAIL, DENY, 0, 0), 7),
    ("the webhook is gone before the policy agrees", Seen(None, IGNORE, AUDIT, 0, 2), 2),
]


@pytest.mark.parametrize(("seen", "number"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_the_step_of_a_migration(seen: Seen, number: int) -> None:
    reached, found = steps(seen)
    assert reached == number
    assert all(bool(each.missing) is not each.done for each in found)


CONFIGURATION = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: names.guard.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [configmaps, services]}]
  clientConfig: {url: "https://guard.example.com/"}
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def test_recorded_answers_count_for_an_edited_webhook(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the creation before the webhook existed has no answer; a version before comes from the log."""
    file = tmp_path / "hooks.yaml"
    file.write_text(CONFIGURATION)
    asked = ["-q", "--lake", str(lake)]
    assert run([*asked, "readiness", "-f", str(file), "-o", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert (entry["exposure"]["requests_matched"], entry["exposure"]["requests_unknown"], entry["denials"]["requests"]) == (9, 1, 0)
    moment = "2026-01-01T01:00:00Z"
    assert run([*asked, "replay", "-f", str(file), "--against-log", moment, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert run([*asked, "replay", "-f", str(file), "--export", str(tmp_path / "all.parquet")]) == 0
    rows = duckdb.sql(f"SELECT recorded, count(*) FROM '{tmp_path / 'all.parquet'}' GROUP BY ALL ORDER BY ALL").fetchall()
    assert rows == [("admitted", 3), ("denied", 5), (None, 1)]


def test_the_page_of_a_replay_shows_the_load(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hooks.yaml"
    file.write_text(CONFIGURATION)
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(file), "-o", "json"]) == 0
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    with QueryClient(Settings(lake=lake)) as client:
        response = client.send("GET", f"http://127.0.0.1:7444/runs/{run_id}")
    text = response.text
    assert response.status_code == 200, text
    assert "How often the webhooks would be called" in text
    assert "9 calls, most of them around 2026-01-01 00:0" in text
    assert "names.guard.example.com" in text
    assert 'class="bars' in text
    assert "Calls over time as a table" in text
    assert "the table below has the same counts" in text
