"""`hindcast explain`: why policies decide as they do about one recorded request. The cases are in cases/readiness/explain.yaml."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from queries import open_lake
from tests.recording import START, Object, deployment, recorded, take_in
from tests.yaml_text import load_yaml

CASES: dict[str, Any] = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "explain.yaml").read_text())


def _namespace(name: str, env: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": env}}}


def _pod(name: str, image: str = "good/x", namespace: str = "shop", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    env = [{"name": "DB_PASSWORD", "value": "t0p-s3cret"}]
    containers = {"containers": [{"name": "a", "image": "good/a", "env": env}], "initContainers": [{"name": "b", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": containers}


def _events() -> list[Object]:
    web = deployment("web", 2)
    patched = deployment("web", 9, resourceVersion="2")
    requests: list[tuple[str, str, Object, dict[str, Any]]] = [
        ("ns-shop", "create", _namespace("shop", "prod"), {}),
        ("ns-dev", "create", _namespace("dev", "dev"), {}),
        ("created", "create", web, {}),
        ("patched", "patch", patched, {}),
        ("by-system", "create", deployment("own", 9), {"user": "system:apiserver"}),
        ("no-body", "create", deployment("hidden", 9), {"level": "Metadata"}),
        ("bad-pod", "create", _pod("bad", "evil/x", note="hush-hush"), {}),
        ("good-pod", "create", _pod("good"), {}),
        ("dev-pod", "create", _pod("bad", "evil/x", "dev"), {}),
        ("skipped-pod", "create", _pod("skipped", "evil/x", skip="yes"), {}),
        ("twice", "create", _pod("one"), {}),
        ("twice", "create", _pod("two"), {}),
        ("refused", "create", _pod("three"), {"responseStatus": {"metadata": {}, "code": 401, "message": "Unauthorized"}}),
    ]
    events = [recorded(name, START + timedelta(minutes=n), verb, obj, **more) for n, (name, verb, obj, more) in enumerate(requests)]
    refused_patch = events[3]
    refused_patch["requestURI"] = "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl"
    refused_patch["requestObject"] = {"spec": {"replicas": 9}}
    refused_patch["responseObject"] = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "code": 422}
    status = {"metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422}
    told = "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'b' denied request: no"
    refused_patch["responseStatus"] = {**status, "message": told}
    refused_patch["annotations"] = {"authorization.k8s.io/decision": "allow"}
    return events


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("explain") / "lake", _events())


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "policies.yaml"
    path.write_text(CASES["policies"])
    return path


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_an_explanation(case: dict[str, Any], lake: Path, policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-f", str(policies), "--policy", case["policy"], *(f"--redact={path}" for path in case.get("redact", ()))]
    given += ["-o", "wide"] if case.get("wide") else []
    assert run(["-q", "--lake", str(lake), "explain", case["audit_id"], *given]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    position = 0
    for line in case["lines"]:
        found = words.find(" ".join(line.split()), position)
        assert found >= 0, f"{line!r} does not follow in:\n{shown}"
        position = found
    assert not [text for text in case.get("absent", ()) if text in shown]


@pytest.mark.parametrize("case", CASES["errors"], ids=lambda case: case["says"])
def test_what_cannot_be_explained_says_why(
    case: dict[str, Any], lake: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--{name}={case[name]}" for name in ("policy", "cluster") if name in case]
    assert run(["-q", "--lake", str(lake), "explain", case["audit_id"], "-f", str(policies), *given]) == case["code"]
    assert case["says"] in capsys.readouterr().err


def test_the_time_tells_two_requests_of_one_audit_id_apart(lake: Path, policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-f", str(policies), "--at", f"{START + timedelta(minutes=11):%Y-%m-%dT%H:%M:%SZ}", "-o", "json"]
    assert run(["-q", "--lake", str(lake), "explain", "twice", *given]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    assert found["name"] == "two"


def test_without_policies_those_of_the_time_explain(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = open_lake(demo_lake)
    audit_id, said = reader.sql("SELECT audit_id, message FROM violations WHERE policy = 'image-registry' ORDER BY ts").fetchall()[
        0
    ]
    reader.close()
    asked = ["-q", "--lake", str(demo_lake), "explain", audit_id, "--policy", "image-registry", "-o", "yaml"]
    assert run(asked) == 0
    (found,) = load_yaml(capsys.readouterr().out)["explanations"]
    denied = [entry for entry in found["policies"] if entry["decision"] == "deny"]
    assert said in [entry["message"] for entry in denied]


def test_the_gate_shows_the_object_that_a_patch_was_judged_as(
    lake: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["-q", "--lake", str(lake), "gate", "-f", str(policies), "--no-calibrate", "--workers", "1", "-o", "json"]
    assert run(asked) == 1
    entries = json.loads(capsys.readouterr().out)["policies"]
    shown = {item["audit_id"]: item["object"] for entry in entries for item in entry["counterexamples"]}
    assert shown["patched"] == {"spec": {"replicas": 9}}


def test_it_names_whom_a_pod_comes_back_to(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Deployment, the team, the last writer who is no controller, and the change in the template that this person edits."""
    policy = Path(__file__).parents[3] / "api" / "demo" / "policies" / "image-registry.yaml"
    assert run(["-q", "--lake", str(demo_lake), "explain", "96e0d5c7", "-f", str(policy), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    who = found["responsible"]
    assert [step.partition("/")[0] for step in who["chain"]] == ["Pod", "ReplicaSet", "Deployment"]
    assert who["chain"][-1] == "Deployment/search-216"
    assert (who["team"], who["writer"]) == ("shop", "system:serviceaccount:ci:deployer")
    (entry,) = found["policies"]
    assert entry["nearest"].startswith("set spec.containers[0].image to ")
    assert entry["there"].startswith("set spec.template.spec.containers[0].image to ")
    assert run(["-q", "--lake", str(demo_lake), "explain", "96e0d5c7", "-f", str(policy)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "made by Deployment/search-216, through ReplicaSet/search-216-6cd85f65c6 " in text
    assert "last writer system:serviceaccount:ci:deployer, of Deployment/search-216 at " in text
    assert "that is set spec.template.spec.containers[0].image to " in text
