"""`hindcast ingest --snapshot`: as of when lists are taken, and the words about it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from api.checks.snapshot_time import kinds_by_name
from api.cli import run
from queries import open_lake

NEWEST = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def pod(version: int, at: str = "2026-11-02T09:00:00Z") -> dict[str, Any]:
    metadata = {
        "name": "p",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-01T00:00:00Z",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"conditions": [{"lastTransitionTime": at}]}}


def wrote(audit_id: str, version: int, at: str) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/pods/p/status",
        "verb": "patch",
        "user": {"username": "kubelet"},
        "objectRef": {"resource": "pods", "namespace": "shop", "name": "p", "apiVersion": "v1", "subresource": "status"},
        "responseStatus": {"code": 200},
        "responseObject": pod(version, at),
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
    }


@pytest.fixture
def take_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Takes lists in, given by file name, and returns the moment and the notes."""

    def take(lists: dict[str, Any], *options: str, cluster: str = "c") -> tuple[datetime, list[str]]:
        folder = tmp_path / "snapshot"
        folder.mkdir(exist_ok=True)
        for name, value in lists.items():
            (folder / name).write_text(json.dumps(value))
            os.utime(folder / name, (NEWEST.timestamp() + 90 * 86400,) * 2)
        lake = str(tmp_path / "lake")
        assert run(["-q", "--lake", lake, "ingest", "--snapshot", str(folder), "--cluster", cluster, "-o", "json", *options]) == 0
        answer = json.loads(capsys.readouterr().out)
        return datetime.fromisoformat(answer["snapshot"][0]["taken_ts"]), answer.get("notes", [])

    return take


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of cluster c with three writes. The last one changes nothing."""
    writes = [("a", 10, "09:30:00"), ("b", 20, "09:40:00"), ("c", 10, "09:50:00")]
    lines = [json.dumps(wrote(name, version, f"2026-11-02T{at}.000000Z")) for name, version, at in writes]
    (tmp_path / "audit.jsonl").write_text("\n".join(lines))
    assert run(["-q", "--lake", str(tmp_path / "lake"), "ingest", str(tmp_path / "audit.jsonl"), "--cluster", "c"]) == 0
    capsys.readouterr()


def a_list(*items: Any, version: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": list(items)}


def test_a_copied_file_is_as_old_as_the_newest_time_in_it(take_in: Any) -> None:
    taken, notes = take_in({"pods.json": a_list(pod(10, "2026-11-02T09:30:00Z"))})
    assert taken == NEWEST
    assert "cluster c as of 2026-11-02T09:30:00Z (the newest time in the objects; no older than that): 1 Pod" in notes
    assert any(note.startswith("warning: the lake has no events of cluster c") for note in notes)


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("value", "expected", "why"),
    [
        (a_list(pod(10), version="15"), "09:30:00+00:00", "the log dates resourceVersion 15 of the lists)"),
        (a_list(pod(10), version="30"), "09:40:00+00:00", "the log dates resourceVersion 30 of the lists; no older than that"),
        (a_list(pod(10)), "09:30:00+00:00", "the log dates resourceVersion 10 of the newest object; no older than that"),
        (a_list(pod(9)), "09:00:00+00:00", "the newest time in the objects"),
    ],
)
def test_the_log_dates_resource_versions(take_in: Any, value: Any, expected: str, why: str) -> None:
    taken, notes = take_in({"pods.json": value})
    assert taken == datetime.fromisoformat(f"2026-11-02T{expected}")
    assert why in notes[0]


@pytest.mark.usefixtures("log")
def test_the_same_files_again_keep_their_moment(take_in: Any) -> None:
    files = {"pods.json": a_list(pod(10), version="15")}
    given, _ = take_in(files, "--at", "2026-11-02T09:35:00Z")
    again, notes = take_in(files)
    assert again == given
    assert "as when these files were taken in before" in notes[0]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("at", "cluster", "warning"),
    [
        ("2026-11-02T07:00:00Z", "c", "it lies 2 hours before the log"),
        ("2026-11-05T09:50:00Z", "c", "it lies 3 days after the log"),
        ("2026-11-02T08:50:00Z", "c", "the lists show what happened later, at 2026-11-02T09:00:00Z"),
        ("2026-11-02T09:35:00Z", "prod-1", "the lake has no events of cluster prod-1; it has events of c"),
    ],
)
def test_a_doubtful_moment_or_cluster_is_said(take_in: Any, at: str, cluster: str, warning: str) -> None:
    _, notes = take_in({"pods.json": a_list(pod(10))}, "--at", at, cluster=cluster)
    assert any(note.startswith(f"warning: {warning}") for note in notes)


@pytest.mark.usefixtures("log")
def test_a_moment_within_the_log_needs_no_warning(take_in: Any) -> None:
    _, notes = take_in({"pods.json": a_list(pod(10), version="15")})
    assert len(notes) == 1


def test_an_empty_list_is_of_the_kind_that_its_file_name_speaks_of(take_in: Any, tmp_path: Path) -> None:
    files = {name: a_list() for name in ("jobs.json", "prod-configmaps.json", "deployments.apps.json", "stuff.json", "more.json")}
    _, notes = take_in(files, "--at", "2026-11-02T09:35:00Z")
    assert [note for note in notes if "empty" in note] == [
        "2 lists are empty and do not say which kind they would list: more.json, stuff.json; "
        "name the file after the resource, as in namespaces.json"
    ]
    reader = open_lake(tmp_path / "lake")
    kinds = reader.sql("SELECT DISTINCT api_version, kind FROM object_lists WHERE kind <> 'List' ORDER BY kind").fetchall()
    reader.close()
    assert kinds == [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("batch/v1", "Job")]


def test_a_file_name_may_speak_of_a_custom_kind(take_in: Any, tmp_path: Path) -> None:
    spec = {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "versions": [{"name": "v2"}]}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}}
    take_in({"crds.json": a_list({**crd, "spec": spec})}, "--at", "2026-11-02T09:35:00Z")
    reader = open_lake(tmp_path / "lake")
    kind_of = kinds_by_name(reader)
    reader.close()
    assert kind_of("widgets") == ("example.com/v2", "Widget")
    assert kind_of("pods") == ("v1", "Pod")
    assert kind_of("something") is None
