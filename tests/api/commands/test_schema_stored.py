"""`hindcast schema dormant` and `stuck`: what a new definition does to stored objects."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.recording import START, Object, recorded, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: privileged-jobs}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [lab.example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [jobs]}]
  validations:
  - expression: "!has(object.spec.privileged) || !object.spec.privileged || 'ops-admins' in request.userInfo.groups"
    message: privileged jobs belong to ops
"""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def definition(spec: Object, prunes: bool = True) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "plural": "customresourcedefinitions",
        "metadata": {"name": "jobs.lab.example.com", "uid": "u-1", "resourceVersion": "1"},
        "spec": {
            "group": "lab.example.com",
            "names": {"kind": "Job", "plural": "jobs", "singular": "job"},
            "scope": "Namespaced",
            "preserveUnknownFields": not prunes,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def job(spec: Object, version: int = 2, **metadata: Any) -> Object:
    named = {"name": "a", "namespace": "shop", "uid": "u-2", "resourceVersion": str(version), **metadata}
    return {"apiVersion": "lab.example.com/v1", "kind": "Job", "metadata": named, "spec": spec}


OLD = definition({"properties": {"shell": {"type": "string"}}}, prunes=False)
PRIVILEGED = {"properties": {"shell": {"type": "string"}, "privileged": {"type": "boolean"}}}


def asked(tmp_path: Path, events: list[Object], new: Object, *arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    take_in(tmp_path / "lake", events)
    (tmp_path / "new.yaml").write_text(json.dumps({name: value for name, value in new.items() if name != "plural"}))
    (tmp_path / "policy.yaml").write_text(POLICY)
    question, *more = arguments
    command = ["-q", "--lake", str(tmp_path / "lake"), "schema", question, "-f", str(tmp_path / "new.yaml"), *more, "-o", "json"]
    assert run(command) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("groups", "verdict"), [(("developers",), "deny"), (("ops-admins",), "admit")])
def test_t000_8_a_field_lies_dormant_until_a_schema_gives_it_power(
    tmp_path: Path, groups: tuple[str, ...], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    created = recorded("id-2", START + timedelta(hours=1), "create", job({"privileged": True}), user="mallory", groups=groups)
    events = [recorded("id-1", START, "create", OLD), created]
    policies = ("--policies", str(tmp_path / "policy.yaml"))
    (row,) = asked(tmp_path, events, definition(PRIVILEGED), "dormant", *policies, capsys=capsys)["dormant"]
    assert (row["object"], row["field"], row["value"], row["writer"]) == ("shop/a", "spec.privileged", "true", "mallory")
    assert row["written"] == "2026-01-01T01:00:00Z"
    assert (row["verdict"], row["policy"]) == (verdict, "privileged-jobs")
    assert row["message"] == ("privileged jobs belong to ops" if verdict == "deny" else "")


def test_t000_8_where_pruning_was_on_nothing_is_dormant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = json.dumps({"spec": {"privileged": True}})
    created = recorded("id-2", START + timedelta(hours=1), "create", job({}, annotations={LAST_APPLIED: sent}), user="mallory")
    events = [recorded("id-1", START, "create", definition({"properties": {}})), created]
    assert asked(tmp_path, events, definition(PRIVILEGED), "dormant", capsys=capsys)["dormant"] == []


def test_the_verdict_is_unknown_without_a_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = recorded("id-2", START + timedelta(hours=1), "get", job({"privileged": True}))
    policies = ("--policies", str(tmp_path / "policy.yaml"))
    events = [recorded("id-1", START, "create", OLD), read]
    (row,) = asked(tmp_path, events, definition(PRIVILEGED), "dormant", *policies, capsys=capsys)["dormant"]
    assert (row["writer"], row["verdict"]) == ("unknown", "unknown")
    assert "no writer of the field is recorded" in row["message"]


def test_the_definition_in_force_must_be_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_in(tmp_path / "lake", [recorded("id-1", START, "create", job({}))])
    (tmp_path / "new.yaml").write_text(json.dumps(definition(PRIVILEGED)))
    assert run(["-q", "--lake", str(tmp_path / "lake"), "schema", "dormant", "-f", str(tmp_path / "new.yaml")]) == 2
    assert "give the definition in force with --against" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "fate", "field"),
    [
        ({"properties": {"shell": {"type": "string", "minLength": 1}}}, "ratcheted", "spec.shell"),
        (
            {"properties": {"shell": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "self.shell != ''"}]},
            "ratcheted",
            "spec",
        ),
    ],
)
def test_an_object_that_only_ratcheting_keeps_editable(
    tmp_path: Path, spec: Object, fate: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [recorded("id-1", START, "create", OLD), recorded("id-2", START + timedelta(hours=1), "create", job({"shell": ""}))]
    (row,) = asked(tmp_path, events, definition(spec), "stuck", capsys=capsys)["stuck"]
    assert (row["object"], row["writes"], row["field"]) == ("shop/a", fate, field)


def test_a_rule_at_the_root_locks_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = definition({"properties": {"shell": {"type": "string"}}})
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "self.spec.shell != ''"}]
    events = [recorded("id-1", START, "create", OLD), recorded("id-2", START + timedelta(hours=1), "create", job({"shell": ""}))]
    (row,) = asked(tmp_path, events, new, "stuck", capsys=capsys)["stuck"]
    assert row["writes"] == "locked"


def test_an_object_of_unknown_content_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [recorded("id-2", START, "create", job({"shell": ""}), level="Metadata")]
    found = asked(tmp_path, events, definition(PRIVILEGED), "stuck", capsys=capsys)
    assert found["stuck"] == []
    assert any(note.startswith("unknown: 1 object: create id-2") for note in found["notes"])


def test_a_definition_that_the_api_server_refuses_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_in(tmp_path / "lake", [recorded("id-1", START, "create", OLD)])
    (tmp_path / "new.yaml").write_text(json.dumps(definition({"properties": {"shell": {"type": "string", "pattern": "+"}}})))
    assert run(["-q", "--lake", str(tmp_path / "lake"), "schema", "stuck", "-f", str(tmp_path / "new.yaml")]) == 2
    error = capsys.readouterr().err
    assert "new.yaml:1: the API server refuses jobs.lab.example.com: " in error
    assert "properties[shell].pattern: Invalid value" in error
