"""`hindcast webhooks`: what recorded webhooks did; and the tables of a replay of webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.recording import Log, take_in

MUTATION, PATCH = "mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/"
SET = {"configuration": "a", "webhook": "set.example.com"}
FILE = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: names.guard.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [configmaps]}]
  clientConfig: {service: {namespace: guard, name: guard}}
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", "uid": name}}


def refused(code: int, message: str) -> dict[str, Any]:
    return {"responseStatus": {"metadata": {}, "code": code, "message": message, "status": "Failure"}}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    log = Log()
    called = json.dumps({**SET, "mutated": True})
    patch = json.dumps({**SET, "patch": [{"op": "add", "path": "/data", "value": {}}] * 2, "patchType": "JSONPatch"})
    log.write(
        "create",
        config_map("a"),
        annotations={
            f"{MUTATION}round_0_index_0": called,
            f"{MUTATION}round_1_index_0": json.dumps({**SET, "mutated": False}),
            f"{PATCH}round_0_index_0": patch,
            "set.example.com/why": "because",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "open.example.com",
        },
    )
    denial = 'admission webhook "set.example.com" denied the request: no'
    attempt = {f"{MUTATION}round_0_index_0": json.dumps({**SET, "mutated": False})}
    log.write("create", config_map("b"), annotations=attempt, **refused(403, denial))
    log.write("create", config_map("c"), **refused(403, 'admission webhook "names.guard.example.com" denied the request: no'))
    failure = 'Internal error occurred: failed calling webhook "names.guard.example.com": failed to call webhook: EOF'
    log.write("create", config_map("d"), **refused(500, failure))
    log.write("create", config_map("e"))
    return take_in(tmp_path / "lake", log.lines)


def test_each_webhook_has_what_its_traces_show(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "webhooks", "-o", "json"]) == 0
    rows = {row["webhook"]: row for row in json.loads(capsys.readouterr().out)["webhooks"]}
    names = ("phase", "requests", "attempts", "second", "mutated", "patches", "operations", "denied", "failed_open",
             "failed_closed", "annotated")  # fmt: skip
    assert {webhook: tuple(row[name] for name in names) for webhook, row in rows.items()} == {
        "set.example.com": ("mutating", 2, 3, 1, 1, 1, 2, 1, 0, 0, 1),
        "open.example.com": ("validating", 1, 1, 0, 0, 0, 0, 0, 1, 0, 0),
        "names.guard.example.com": ("validating", 2, 2, 0, 0, 0, 0, 1, 0, 1, 0),
    }
    assert rows["set.example.com"]["configuration"] == "a"
    assert run(["-q", "--lake", str(lake), "webhooks"]) == 0
    # Of the five requests, a mutating webhook refused one before validating webhooks, and one shows no trace.
    assert "1 of 4 requests that came to validating webhooks (25.0%) show no trace" in capsys.readouterr().out


def test_a_replay_of_webhooks_counts_calls_and_exports_them(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hooks.yaml"
    file.write_text(FILE)
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (row,) = printed["webhooks"]
    assert (row["webhook"], row["called"], row["calls"], row["unreached"], row["traced"]) == ("names.guard.example.com", 4, 4, 1, 2)
    assert [(each["decision"], each["passes"]) for each in printed["not_called"]] == [("unreached", 1)]
    file.write_text(FILE.replace("sideEffects: None", "sideEffects: Some"))
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file)]) == 2
    assert "hooks.yaml:9: webhooks[0].sideEffects must be None or NoneOnDryRun" in capsys.readouterr().err


def test_load_and_outage_are_printed_and_drawn(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "hooks.yaml", tmp_path / "load.html"
    file.write_text(FILE)
    asked = ["-q", "--lake", str(lake), "webhooks"]
    assert run([*asked, "load", "-f", str(file), "--latency-ms", "100", "--report-file", str(page), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (row,) = printed["load"]
    assert (row["calls"], row["most"], row["p99"]) == (4, 1, 0)
    assert {each["dimension"] for each in printed["causes"]} == {"resource", "user", "namespace"}
    assert "names.guard.example.com" in page.read_text()
    assert run([*asked, "down", "-f", str(file), "--down", "2026-01-01T00:00:00Z..2026-01-02T00:00:00Z", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(each["refused"], each["already"]) for each in printed["down"]] == [(2, 2)]
    assert [(each["seconds"], each["requests"]) for each in printed["waiting"]] == [(10, 4)]
    for wrong, said in (
        (["--down", "yesterday"], "--down: 'yesterday' is not FROM..TO"),
        (["--webhook", "x"], "--webhook 'x': no given webhook has this name"),
    ):
        assert run([*asked, "down", "-f", str(file), *wrong]) == 2
        assert said in capsys.readouterr().err


def test_without_files_the_log_shows_the_webhooks(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This log shows no configuration, so there is no load; an outage needs one."""
    assert run(["-q", "--lake", str(lake), "webhooks", "load", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["load"] == []
    assert run(["-q", "--lake", str(lake), "webhooks", "down"]) == 3
    assert "the log shows no webhook configuration in force" in capsys.readouterr().err


def hooks(**policies: str) -> str:
    """A configuration with a webhook for each resource, and its failurePolicy."""
    value = yaml.safe_load(FILE)
    (one,) = value["webhooks"]
    rule = one["rules"][0]
    value["webhooks"] = [
        {**one, "name": f"{resource}.guard.example.com", "failurePolicy": policy, "rules": [{**rule, "resources": [resource]}]}
        for resource, policy in policies.items()
    ]
    return yaml.safe_dump(value)


@pytest.mark.parametrize("limit", [[], ["--limit", "0"], ["--limit", "1"]])
def test_an_outage_shows_refused_requests_first_and_all_of_them(
    tmp_path: Path, limit: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Sixty parts of the cluster write unchecked objects, and one user is refused."""
    log = Log()
    for number in range(60):
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}", "namespace": "kube-system"}}
        log.write("create", value, user=f"u{number}")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "p"}}
    log.write("create", pod, user="alice")
    lake, file = take_in(tmp_path / "lake", log.lines), tmp_path / "hooks.yaml"
    file.write_text(hooks(configmaps="Ignore", pods="Fail"))
    assert run(["-q", "--lake", str(lake), "webhooks", "down", "-f", str(file), "-o", "json", *limit]) == 0
    causes = json.loads(capsys.readouterr().out)["causes"]
    assert len(causes) == (1 if limit[1:] == ["1"] else 61)
    assert (causes[0]["user"], causes[0]["refused"]) == ("alice", 1)


def test_load_and_outage_say_which_webhooks_the_requests_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A webhook is replaced: load counts the calls of both, and an outage those of the later one."""
    log = Log()
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    before, after = (yaml.safe_load(hooks(**{name: "Fail"})) for name in ("configmaps", "pods"))
    for number, each in enumerate((before, after)):
        each["metadata"] = {"name": "guard", "uid": "guard", "resourceVersion": str(10 + number)}
    log.write("create", before)
    log.write("create", config_map("a"))
    log.write("update", after)
    log.write("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "p"}})
    lake = take_in(tmp_path / "lake", log.lines)
    asked = ["-q", "--lake", str(lake), "webhooks"]
    assert run([*asked, "load", "-o", "json"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert {row["webhook"] for row in loaded["load"]} == {"configmaps.guard.example.com", "pods.guard.example.com"}
    assert "each request meets the webhooks that the log shows in force at its time" in loaded["notes"]
    assert run([*asked, "down", "-o", "json"]) == 0
    down = json.loads(capsys.readouterr().out)
    assert [row["webhook"] for row in down["down"]] == ["pods.guard.example.com"]
    assert any(note.startswith("failurePolicy and timeouts are those in force at the end of the outage") for note in down["notes"])
    assert any("1 call of 1 webhook not in force then" in note for note in down["notes"])
    during = ["--down", "2026-01-01T00:00:00Z..2026-01-01T02:30:00Z"]
    assert run([*asked, "down", *during, "-o", "json"]) == 0
    assert [row["webhook"] for row in json.loads(capsys.readouterr().out)["down"]] == ["configmaps.guard.example.com"]
