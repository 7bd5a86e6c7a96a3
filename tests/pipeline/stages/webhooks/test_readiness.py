"""Readiness of webhooks: tests/cases/webhooks/readiness.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.beside_runs import keep_manifests
from api.cli import run
from api.settings import Settings
from pipeline.readiness.judging import Judgement, judge
from pipeline.readiness.model import Status
from pipeline.report.outcomes import next_step
from tests.querying import QueryClient
from tests.recording import START, recorded, take_in
from tests.yaml_text import load_yaml, load_yaml_all

FILE = Path(__file__).parents[3] / "cases" / "webhooks" / "readiness.yaml"
TOLD: dict[str, Any] = load_yaml(FILE.read_text())
NAME = "names.guard.example.com"
STEP = timedelta(hours=6)


def configuration(fields: Mapping[str, Any]) -> dict[str, Any]:
    hook = {
        "name": NAME,
        "clientConfig": {"service": {"namespace": "guards", "name": "guard"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **TOLD["registered"],
        **{key: value for key, value in fields.items() if key != "configuration"},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": fields.get("configuration", "guard")},
        "webhooks": [hook],
    }


def annotations_of(answer: str) -> dict[str, str]:
    found = {"authorization.k8s.io/decision": "allow"}
    if answer == "failed open":
        found["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] = NAME
    if answer == "would deny":
        found[f"{NAME}/would-deny"] = "the name is reserved"
    return found


def events_of(story: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The namespaces and the webhook come first, then the ConfigMaps of all groups."""
    namespaces = sorted({group["namespace"] for group in story})
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}
        for name in namespaces
    ]
    events = [
        recorded(f"namespace-{index}", START + timedelta(minutes=index), "create", each, user="root")
        for index, each in enumerate(objects)
    ]
    hook = configuration({}) | {"plural": "validatingwebhookconfigurations"}
    events.append(recorded("hook", START + timedelta(hours=-1), "create", hook, user="root"))
    told = [(group, index) for group in story for index in range(group["count"])]
    for at, (group, _) in enumerate(told, 1):
        denied = {}
        if group["answer"] == "denied":
            message = f'admission webhook "{NAME}" denied the request: the name is reserved'
            denied = {"responseStatus": {"metadata": {}, "code": 403, "message": message, "reason": "Forbidden"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"cm-{at}", "namespace": group["namespace"]}}
        event = recorded(f"request-{at}", START + at * STEP, "create", body, user=group["user"], **denied)
        if denied:
            del event["responseObject"]
        events.append(event | {"annotations": annotations_of(group["answer"])})
    return events


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("guarded") / "lake", events_of(TOLD["story"]))


def judged(lake: Path, change: Mapping[str, Any]) -> Judgement:
    return judge(lake, yaml.safe_dump(configuration(change)))


@pytest.mark.parametrize("case", TOLD["cases"], ids=lambda case: case["name"])
def test_readiness_says_what_a_change_of_a_webhook_would_refuse(case: dict[str, Any], lake: Path) -> None:
    (entry,) = judged(lake, case["change"]).report.policies
    expect = case["expect"]
    found = (str(entry.status), entry.exposure.requests_matched, entry.denials.requests, entry.exposure.requests_unknown)
    assert found == tuple(expect[name] for name in ("status", "matched", "denied", "unknown"))
    assert any(expect["reason"] in reason for reason in entry.reasons), entry.reasons
    assert [each.subject for each in entry.exemptions] == expect.get("exemptions", [])


@pytest.mark.parametrize("status", [Status.NOT_READY, Status.NEW_DENIALS])
def test_a_page_says_what_to_do_about_a_server_that_fails(lake: Path, status: Status) -> None:
    """Clients cannot mend a crashed server."""
    (entry,) = judged(lake, {"failurePolicy": "Fail"}).report.policies
    said = next_step(replace(entry, status=status))
    assert "See that the servers of the webhooks answer" in said
    assert "clients" not in said


def test_printed_exemptions_leave_no_denial(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command prints is a manifest, and under it the webhook is ready."""
    file = tmp_path / "guard.yaml"
    file.write_text(yaml.safe_dump(configuration({"failurePolicy": "Fail"})))
    assert run(["--quiet", "--lake", str(lake), "exemptions", "-f", str(file), "-o", "manifests"]) == 0
    (printed,) = load_yaml_all(capsys.readouterr().out)
    (hook,) = printed["webhooks"]
    assert hook["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["legacy"]}]
    }
    (entry,) = judge(lake, yaml.safe_dump(printed)).report.policies
    assert (str(entry.status), entry.exposure.requests_matched) == ("READY", 38)


def test_a_server_may_note_what_it_would_deny(tmp_path: Path) -> None:
    """A noted denial counts as a denial, and an exemption reaches it."""
    lake = take_in(tmp_path / "lake", events_of(TOLD["noted"]))
    (entry,) = judged(lake, {}).report.policies
    expect = TOLD["noted_expect"]
    assert (str(entry.status), entry.denials.requests) == (expect["status"], expect["denied"])
    assert {each.message for each in entry.owners} == {expect["message"]}
    assert [each.subject for each in entry.exemptions] == expect["exemptions"]


def test_roles_have_no_exemptions(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "role.yaml"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "viewer"}, "rules": []}
    file.write_text(yaml.safe_dump(role))
    assert run(["--quiet", "--lake", str(lake), "exemptions", "-f", str(file)]) == 2
    assert "roles have no exemptions" in capsys.readouterr().err


def test_pages_show_calls_an_outage_and_the_reason_of_each_verdict(lake: Path) -> None:
    """The page of a replay, and of one of its requests with its explanation."""
    found = judge(lake, yaml.safe_dump(configuration({"failurePolicy": "Fail"})))
    run_id = found.report.runs["webhooks"]
    keep_manifests(lake, run_id, [configuration({"failurePolicy": "Fail"})])
    with QueryClient(Settings(lake=lake)) as client:
        page = client.page(f"/runs/{run_id}")
        assert "How often the webhooks would be called" in page
        report = client.page(f"/runs/{run_id}/report")
        assert "If their servers were down" in page
        request = client.page(f"/runs/{run_id}/request?audit_id=request-13", is_explained=True)
    assert [each.chart for each in found.report.over_time] == ["Calls over time", "An outage over time"]
    assert all(f"{each.chart} as a table" in report for each in found.report.over_time)
    assert "What the replayed webhooks say" in request
    assert "failed calling webhook" in request
    assert "With the webhooks of this replay" in request
    assert "There is no explanation" not in request
