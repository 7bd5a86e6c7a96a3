"""Readiness of mutating policies that deny nothing and do harm: in each format, in a gate, and on the page of the replay."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from api.settings import Settings
from tests.querying import QueryClient
from tests.recording import Log, deployment, take_in
from tests.sharing import shared_lake
from tests.walking import Pages, main

GROUP = "admissionregistration.k8s.io/v1"
CONTROLLER = "system:serviceaccount:kube-system:scaler"
ONE_MORE = "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]"
FIVE = "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]"


def policy(
    name: str, patch: str, operations: tuple[str, ...] = ("CREATE", "UPDATE"), kind: str = "jsonPatch"
) -> list[dict[str, Any]]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": [*operations], "resources": ["deployments"]}
    patch_type = f"{kind[0].upper()}{kind[1:]}".replace("JsonPatch", "JSONPatch")
    spec = {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": patch_type, kind: {"expression": patch}}],
    }
    return [
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name}},
    ]


def make(path: Path) -> None:
    """Twelve Deployments over as many days; a controller writes the replicas of the first one again and again."""
    log = Log(timedelta(days=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    for number in range(12):
        log.write("create", deployment(f"web-{number}", 3))
    for version in range(2, 6):
        log.write("update", deployment("web-0", 2, resourceVersion=str(version)), user=CONTROLLER)
    take_in(path, log.lines)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_lake(tmp_path_factory, "mutating-readiness", make)


def judged(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *manifests: dict[str, Any]) -> dict[str, Any]:
    """The policies of the report, by name; the manifests stay in `policies.yaml`."""
    (tmp_path / "policies.yaml").write_text(yaml.safe_dump_all(manifests))
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(tmp_path / "policies.yaml"), "-o", "json"]) == 0
    return {row["policy"]: row for row in json.loads(capsys.readouterr().out)["policies"]}


def test_a_policy_that_raises_replicas_at_each_update_is_not_ready(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In JSON, on the terminal, in Markdown and HTML, and in a gate; each shows a changed place."""
    entry = judged(lake, tmp_path, capsys, *policy("more", ONE_MORE))["more"]
    assert entry["status"] == "NOT READY"
    (text,) = entry["objections"]
    assert text == entry["reasons"][0]
    assert text.startswith("not idempotent: of 16 requests the policy changes its own result again; for example spec.replicas: 2 ")
    assert "2 becomes 3 in request id-0016" in text
    command = ["-q", "--lake", str(lake), "readiness", "-f", str(tmp_path / "policies.yaml")]
    for name in ("report.md", "report.html"):
        assert run([*command, "--report-file", str(tmp_path / name)]) == 0
        assert "not idempotent: of 16 requests" in (tmp_path / name).read_text()
    assert run(command) == 0
    assert "not idempotent" in " ".join(capsys.readouterr().out.split())
    assert run(["-q", "--lake", str(lake), "gate", "-f", str(tmp_path / "policies.yaml")]) == 1
    assert "not idempotent" in " ".join(capsys.readouterr().out.split())


def test_a_policy_that_never_meets_its_own_result_is_not_refused_for_it(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = judged(lake, tmp_path, capsys, *policy("more", ONE_MORE, ("CREATE",)))["more"]
    assert entry["status"] != "NOT READY"
    assert entry["objections"] == []
    assert any("not idempotent: of 12 requests" in text and "does not meet its own result" in text for text in entry["reasons"])


def test_fields_that_a_later_write_removes_are_a_reason(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label = "Object{metadata: Object.metadata{labels: {'team': 'a'}}}"
    created = judged(lake, tmp_path, capsys, *policy("label", label, ("CREATE",), "applyConfiguration"))["label"]
    assert any("lost on reapply: of 12 requests" in text and "metadata.labels" in text for text in created["reasons"])
    always = judged(lake, tmp_path, capsys, *policy("label", label, kind="applyConfiguration"))["label"]
    assert not any("lost on reapply" in text for text in always["reasons"])


def test_a_fight_with_a_controller_is_a_reason(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = judged(lake, tmp_path, capsys, *policy("five", FIVE))["five"]
    (text,) = (each for each in entry["reasons"] if each.startswith("fight: "))
    assert text.startswith(f"fight: {CONTROLLER} writes values again and again on one object that the policy changes each time (4 ")
    assert entry["objections"] == []


def test_policies_whose_order_decides_are_not_ready(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = FIVE.replace("5", "4")
    found = judged(lake, tmp_path, capsys, *policy("five", FIVE), *policy("four", four))
    for name in ("five", "four"):
        assert found[name]["status"] == "NOT READY"
        assert any(text.startswith("order decides: of 16 requests") for text in found[name]["objections"])


def test_the_page_of_the_replay_shows_the_changes(lake: Path) -> None:
    with QueryClient(Settings(lake=lake)) as client:
        job = client.replayed(yaml.safe_dump_all(policy("more", ONE_MORE)))
        words = main(Pages(client).page(f"/runs/{job['run_id']}"))
    assert "What each policy changes" in words
    assert "spec.replicas" in words
    assert "Not idempotent" in words
