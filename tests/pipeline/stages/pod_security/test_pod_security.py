"""Pod Security on a made-up cluster: labels, which requests are judged, and the level that each namespace can enforce."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run
from pipeline.runs.window import Window
from pipeline.stages.pod_security.checks.changes import CHANGES
from pipeline.stages.pod_security.checks.table import CHECKS, Level
from pipeline.stages.pod_security.levels import NamespaceLevel, levels_of
from pipeline.stages.pod_security.policy import DEFAULT, LevelVersion, Mode, resolve
from queries import open_lake
from tests.recording import Log, Object, take_in
from tests.yaml_text import load_yaml, load_yaml_all

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[3] / "cases" / "pod_security" / "labels.yaml").read_text())
PREFIX = "pod-security.kubernetes.io/"
GOOD = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
SAFE = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}


def namespace(name: str, **labels: str) -> Object:
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "labels": {PREFIX + key: text for key, text in labels.items()}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {}, "status": {"phase": "Active"}}


def pod(name: str, place: str, container: Mapping[str, Any], image: str = "a:1", version: str = "2", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": place, "uid": name, "resourceVersion": version}
    containers = [{"name": "main", "image": image, **container}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def template(name: str, place: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": place, "uid": name, "resourceVersion": "3"}
    inner = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "a:1"}], **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": inner}}


def told(policy: str, **more: str) -> dict[str, Any]:
    """The annotations of a Pod that was judged."""
    return {"annotations": {f"{PREFIX}enforce-policy": policy, **{PREFIX + key: value for key, value in more.items()}}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = Log()
    for name, labels in (("clean", {}), ("base", {"enforce": "baseline"}), ("host", {}), ("blind", {}), ("empty", {})):
        log.write("create", namespace(name, **labels))
    log.write("create", pod("safe", "clean", GOOD, **SAFE), **told("privileged:latest"))
    log.write("create", pod("plain", "base", {}), **told("baseline:latest"))
    # An update that changes no image is not judged, and leaves nothing.
    log.write("update", pod("plain", "base", {}, version="7", activeDeadlineSeconds=5))
    refused = pod("net", "base", {}, hostNetwork=True)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "Forbidden",
        "message": 'pods "net" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        "code": 403,
    }
    answer = {"answer": status, "responseStatus": status}
    log.write("create", refused, **told("baseline:latest"), **answer)
    log.write("create", template("agent", "host", hostPID=True), groups=["dev"])
    log.write("create", pod("unseen", "blind", {}), level="Metadata", **told("privileged:latest"))
    return take_in(tmp_path_factory.mktemp("pod-security") / "lake", log.lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_labels_give_a_policy(case: Mapping[str, Any]) -> None:
    defaults = dict(DEFAULT)
    for mode, text in case.get("defaults", {}).items():
        level, _, version = text.partition(":")
        defaults[Mode(mode)] = LevelVersion(Level(level), version)
    found = resolve(case["labels"], defaults)
    assert {str(mode): str(policy) for mode, policy in found.policy.items()} == case["policy"]
    assert found.error == case.get("error", "")


def test_each_check_has_a_change() -> None:
    assert set(CHANGES) == {check.id for check in CHECKS}


def exported(lake: Path, path: Path, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The exported verdicts by request and mode."""
    path.unlink(missing_ok=True)
    assert run(["-q", "--lake", str(lake), "replay", *arguments, "--export", str(path)]) == 0
    with pq.ParquetFile(path) as file:
        rows = file.read().to_pylist()
    return {(row["audit_id"], row["binding"]): row for row in rows}


def test_a_level_in_place_of_all_labels(lake: Path, tmp_path: Path) -> None:
    """--only with --level: the words of the API server, and reasons for what is not judged."""
    rows = exported(lake, tmp_path / "a.parquet", "--only", "--level", "restricted")
    plain = rows["id-0006", "enforce"]
    assert (plain["policy"], plain["decision"], plain["effect"], plain["flip"]) == (
        "restricted:latest",
        "deny",
        "deny",
        "newly-denied",
    )
    assert plain["message"].startswith(
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
    )
    assert plain["rule_ref"] == "Namespace/base/metadata.labels[pod-security.kubernetes.io/enforce]"
    assert rows["id-0006", "warn"]["decision"] == "nomatch"  # a refused request is given no warning
    assert rows["id-0006", "audit"]["decision"] == "deny"
    assert rows["id-0006", "audit"]["effect"] == "admit"
    assert rows["id-0005", "enforce"]["decision"] == "admit"
    assert "nor an image" in rows["id-0007", "enforce"]["why"]
    assert rows["id-0008", "enforce"]["flip"] == "still-denied"
    assert (rows["id-0009", "enforce"]["decision"], rows["id-0009", "warn"]["decision"]) == ("nomatch", "deny")
    assert rows["id-0010", "enforce"]["decision"] == "unknown"
    assert "Metadata" in rows["id-0010", "enforce"]["why"]


def test_labels_of_the_log_where_none_are_given(lake: Path, tmp_path: Path) -> None:
    """The recorded annotations come again, and a given namespace changes no other."""
    given = tmp_path / "namespaces.yaml"
    given.write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: clean, labels: {pod-security.kubernetes.io/warn: baseline}}\n"
    )
    rows = exported(lake, tmp_path / "a.parquet", "-f", str(given))
    assert dict(rows["id-0006", "enforce"]["audit_annotations"]) == {f"{PREFIX}enforce-policy": "baseline:latest"}
    assert rows["id-0008", "enforce"]["message"] == "host namespaces (hostNetwork=true)"
    assert rows["id-0005", "warn"]["policy"] == "baseline:latest"
    assert rows["id-0000", "enforce"]["decision"] == "admit"


def test_readiness_asks_about_the_given_namespaces(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the mode enforce refuses, and only given namespaces are asked about."""
    given = tmp_path / "namespaces.yaml"
    given.write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: base, labels: {pod-security.kubernetes.io/enforce: restricted}}\n"
    )
    run(["-q", "--lake", str(lake), "readiness", "-f", str(given), "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    (entry,) = report["policies"]
    assert (entry["stage"], entry["policy"], entry["binding"]) == ("pod-security", "restricted:latest", "enforce")
    assert (entry["denials"]["requests"], entry["exposure"]["requests_unknown"]) == (1, 0)
    assert [(each["namespace"], each["unit"]) for each in entry["owners"]] == [("base", "Pod/plain")]
    # The notes on four Pods, and a refusal. A level that refuses nothing leaves its note on a Pod that is not known, too.
    agreement = entry["fidelity"]
    assert (agreement["compared"], agreement["agreed"], agreement["unknown"]) == (5, 5, 0)


def test_explanation_of_a_refusal(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the labels in force: the label that decided, the check that fails, and the change with which the Pod passes."""
    assert run(["-q", "--lake", str(lake), "explain", "id-0008", "--stage", "pod-security", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    enforce = next(each for each in found["policies"] if each["binding"] == "enforce")
    assert (found["stage"], enforce["policy"], enforce["decision"], enforce["rejects"]) == (
        "pod-security",
        "baseline:latest",
        "deny",
        True,
    )
    assert enforce["message"] == "host namespaces (hostNetwork=true)"
    assert enforce["nearest"] == "hostNetwork, hostPID, hostIPC: remove them"
    assert [(each["name"], each["text"]) for each in enforce["facts"]] == [
        ("rule", f"Namespace/base/metadata.labels[{PREFIX}enforce]"),
        ("check", "hostNamespaces: host namespaces (hostNetwork=true)"),
        ("log", "the log says: deny"),
    ]


def test_explanation_without_a_body_names_what_is_missing(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level that refuses nothing is sure of a Pod that was not recorded, another one is not."""
    given = tmp_path / "namespaces.yaml"
    given.write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: blind, labels: {pod-security.kubernetes.io/enforce: baseline}}\n"
    )
    assert run(["-q", "--lake", str(lake), "explain", "id-0010", "-f", str(given), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    decisions = {each["binding"]: (each["decision"], [one["reason"] for one in each["missing"]]) for each in found["policies"]}
    missing = ["the requested object was not recorded: the audit level was Metadata"]
    assert decisions == {"enforce": ("unknown", missing), "audit": ("admit", []), "warn": ("unknown", missing)}


def levels(lake: Path) -> dict[str, NamespaceLevel]:
    with closing(open_lake(lake)) as reader:
        return {each.namespace: each for each in levels_of(reader, None, Window(), 36)}


def test_levels_of_namespaces(lake: Path) -> None:
    found = levels(lake)
    assert {name: each.level for name, each in found.items()} == {
        "clean": Level.RESTRICTED,
        "base": Level.BASELINE,
        "host": Level.PRIVILEGED,
        "blind": None,
        "empty": None,
    }
    assert str(found["base"].current) == "baseline:latest"
    assert found["blind"].unknown == 1
    (obstacle,) = found["host"].obstacles
    assert obstacle[2:] == (Level.BASELINE, "Deployment/agent", "hostNamespaces", "host namespaces (hostPID=true)", 1, 0)
    assert {each.check for each in found["base"].obstacles} == {
        "allowPrivilegeEscalation",
        "capabilities_restricted",
        "runAsNonRoot",
        "seccompProfile_restricted",
    }


def test_printed_labels_refuse_nothing(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The law of the command: a replay of its manifests denies nothing that was admitted."""
    assert run(["-q", "--lake", str(lake), "pod-security", "-o", "manifests"]) == 0
    printed = capsys.readouterr().out
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in load_yaml_all(printed)}
    assert sorted(labels) == ["base", "blind", "clean", "empty", "host"]
    # A manifest without the label would take it away.
    assert all(f"{PREFIX}enforce" in own for own in labels.values())
    assert [name for name, own in labels.items() if own[f"{PREFIX}enforce"] == "restricted"] == ["clean"]
    (tmp_path / "labels.yaml").write_text(printed)
    rows = exported(lake, tmp_path / "a.parquet", "-f", str(tmp_path / "labels.yaml"))
    assert not [row for row in rows.values() if row["flip"] == "newly-denied"]
    capsys.readouterr()
    assert run(["-q", "--lake", str(lake), "pod-security", "-o", "kubectl"]) == 0
    lines = {line.split()[5]: line for line in capsys.readouterr().out.splitlines()}
    assert sorted(lines) == sorted(labels)
    assert "clean pod-security.kubernetes.io/enforce=restricted " in lines["clean"]
    # Where enforce can go no further, the next step refuses nothing either.
    assert "enforce=" not in lines["blind"]
    assert "pod-security.kubernetes.io/warn=" in lines["blind"]
    assert run(["-q", "--lake", str(lake), "pod-security", "-n", "host", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert run(["-q", "--lake", str(lake), "pod-security", "-n", "elsewhere"]) == 2
