"""`hindcast replay --chain` over a small lake: one answer per request."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api.cli import run
from tests.recording import START, recorded, take_in

_API = "admissionregistration.k8s.io/v1"
_TEAM = "has(object.metadata.labels) && 'team' in object.metadata.labels"
STEP = timedelta(minutes=1)


def rule(*operations: str, resource: str = "configmaps") -> dict[str, Any]:
    return {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": [*operations], "resources": [resource]}]}


def mutating(name: str, expression: str, *operations: str, resource: str = "configmaps") -> list[dict[str, Any]]:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {"matchConstraints": rule(*operations, resource=resource), "mutations": [mutation], "reinvocationPolicy": "Never"}
    return [
        {
            "apiVersion": _API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", **spec},
        },
        {"apiVersion": _API, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name}},
    ]


def requirement(name: str, expression: str) -> list[dict[str, Any]]:
    spec = {"matchConstraints": rule("CREATE", "UPDATE"), "validations": [{"expression": expression, "message": "no team"}]}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": bound},
    ]


DEFAULT = mutating("add-team", "Object{metadata: Object.metadata{labels: {'team': 'none'}}}", "CREATE")
REQUIRED = requirement("need-team", _TEAM)
NO_ROOT = "Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsNonRoot: true}}}"


def config(name: str, **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata | ({"labels": labels} if labels else {}),
        "data": {"a": "b"},
    }


def pod(**labels: str) -> dict[str, Any]:
    metadata = {"name": "old", "namespace": "shop", "uid": "uid-old", "resourceVersion": "7", "labels": labels}
    container = {"name": "app", "image": "web:1", "resources": {}, "imagePullPolicy": "IfNotPresent"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}}
    exists = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409, "reason": "AlreadyExists"}
    exists["message"] = 'configmaps "a" already exists'
    status = {key: exists[key] for key in ("metadata", "status", "message", "reason", "code")}
    again = {**recorded("exists", START + 3 * STEP, "create", config("a")), "responseObject": exists, "responseStatus": status}
    events = [
        recorded("shop", START, "create", shop),
        recorded("plain", START + STEP, "create", config("a")),
        recorded("labelled", START + 2 * STEP, "create", config("b", team="blue")),
        again,
        recorded("pod", START + 4 * STEP, "create", pod()),
        recorded("pod-label", START + 5 * STEP, "update", pod(a="b")),
    ]
    return take_in(tmp_path_factory.mktemp("chain"), events)


def replayed(lake: Path, folder: Path, manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    (folder / "folder.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    out = folder / "answers.parquet"
    arguments = [
        "replay",
        "--chain",
        "-f",
        str(folder / "folder.json"),
        "--lake",
        str(lake),
        "--export",
        str(out),
        "--with-objects",
    ]
    assert run(arguments) == 0
    return {row["audit_id"]: row for row in pl.read_parquet(out).to_dicts()}


def decided(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["decision"], row["code"], json.loads(row["detail"] or "{}").get("decided_by", "")


def test_a_default_and_its_requirement_let_everything_pass(lake: Path, tmp_path: Path) -> None:
    found = replayed(lake, tmp_path, [*DEFAULT, *REQUIRED])
    assert decided(found["plain"]) == ("allow", 201, "")
    assert found["plain"]["flip"] == "changed"
    assert json.loads(found["plain"]["object"])["metadata"]["labels"] == {"team": "none"}
    assert found["labelled"]["flip"] == "changed"
    assert found["pod"]["flip"] == "same"


def test_the_requirement_alone_refuses_before_the_store_does(lake: Path, tmp_path: Path) -> None:
    found = replayed(lake, tmp_path, REQUIRED)
    assert decided(found["plain"]) == ("deny", 422, "validating-policy:need-team")
    assert found["plain"]["flip"] == "newly-denied"
    assert found["labelled"]["flip"] == "same"
    assert decided(found["exists"]) == ("deny", 422, "validating-policy:need-team")


def test_a_name_that_exists_is_refused_last(lake: Path, tmp_path: Path) -> None:
    found = replayed(lake, tmp_path, [*DEFAULT, *REQUIRED])
    assert decided(found["exists"]) == ("deny", 409, "store")
    assert found["exists"]["message"] == 'configmaps "a" already exists'


def test_a_mutation_at_update_refuses_each_update_of_an_older_pod(lake: Path, tmp_path: Path) -> None:
    found = replayed(lake, tmp_path, mutating("no-root", NO_ROOT, "CREATE", "UPDATE", resource="pods"))
    assert decided(found["pod-label"]) == ("deny", 422, "validation")
    assert found["pod-label"]["message"].startswith('Pod "old" is invalid: spec: Forbidden: pod updates may not change fields')
    assert '+  "RunAsNonRoot": true,' in found["pod-label"]["message"]
    at_create = replayed(lake, tmp_path, mutating("no-root", NO_ROOT, "CREATE", resource="pods"))
    assert at_create["pod-label"]["flip"] == "same"


def test_it_says_what_it_does_not_have(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.json").write_text(json.dumps(config("a")))
    command = ["replay", "--chain", "-f", str(tmp_path / "folder.json"), "--lake", str(lake)]
    assert run(command) == 2
    assert "found no rule of admission" in capsys.readouterr().err
    (tmp_path / "folder.json").write_text(json.dumps(REQUIRED[0]))
    assert run([*command, "--only"]) == 2
    assert "leave out --only" in capsys.readouterr().err
    assert run([*command, "--against", str(tmp_path)]) == 2
    assert "leave out --against" in capsys.readouterr().err


def test_the_tables_say_what_a_reader_wants_to_know(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*DEFAULT, *REQUIRED]}))
    assert run(["replay", "--chain", "-f", str(tmp_path / "folder.json"), "--lake", str(lake), "-o", "json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    answers = {row["answer"]: row["requests"] for row in tables["answers"]} if isinstance(tables, dict) else tables
    assert "changed" in json.dumps(answers)
    assert "metadata.labels" in json.dumps(tables)


def explained(lake: Path, folder: Path, manifests: list[dict[str, Any]], audit_id: str, capsys: pytest.CaptureFixture[str]) -> Any:
    (folder / "folder.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    capsys.readouterr()
    arguments = ["explain", audit_id, "--chain", "-f", str(folder / "folder.json"), "--lake", str(lake), "-o", "json"]
    assert run(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    return [(step["policy"], step["decision"]) for step in found["policies"]]


def test_an_explanation_walks_through_the_steps(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = explained(lake, tmp_path, [*DEFAULT, *REQUIRED], "plain", capsys)
    passed = [
        ("mutating-policy:add-team", "changed"),
        ("validation", "admit"),
        ("validating-policy", "admit"),
        ("answer", "changed"),
    ]
    assert both == passed
    assert explained(lake, tmp_path, REQUIRED, "plain", capsys) == [("validating-policy:need-team", "deny")]
    assert explained(lake, tmp_path, REQUIRED, "labelled", capsys) == [("answer", "admit")]
    older = explained(lake, tmp_path, mutating("no-root", NO_ROOT, "UPDATE", resource="pods"), "pod-label", capsys)
    assert older == [("mutating-policy:no-root", "changed"), ("validation", "deny")]
