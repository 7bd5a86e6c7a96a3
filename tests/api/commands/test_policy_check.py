"""`hindcast policy check`: the type-check warnings that a cluster would write into the status of policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.cli import run

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sizes}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, deployments/scale]}
    - {apiGroups: [shop.example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}
  validations:
  - expression: object.replicas > 1
"""
WIDGET = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}
"""
ISSUE = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"


def checked(files: list[str | Path], capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["-q", "policy", "check", *map(str, files), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_a_warning_has_the_text_of_the_status(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (warning,) = checked([policy], capsys)["warnings"]
    assert warning["field_ref"] == "spec.validations[0].expression"
    assert warning["warning"] == f"apps/v1, Kind=Deployment: {ISSUE}"


def test_resources_that_were_not_checked_are_listed_with_the_reason(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["resource"]: (row["checked"], row["why"]) for row in checked([policy], capsys)["unchecked"]}
    assert rows == {
        "apps/v1 deployments/scale": ("no", "subresource"),
        "shop.example.com/v1 widgets": ("unknown", "no schema known"),
    }


def test_a_definition_among_the_files_gives_its_schema(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "widget.yaml").write_text(WIDGET)
    (warning,) = checked([policy, tmp_path / "widget.yaml"], capsys)["warnings"]
    assert warning["warning"] == f"apps/v1, Kind=Deployment: {ISSUE}\nshop.example.com/v1, Kind=Widget: {ISSUE}"


def test_an_openapi_document_gives_schemas(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = {"group": "shop.example.com", "version": "v1", "kind": "Widget"}
    document = {
        "paths": {"/apis/shop.example.com/v1/widgets": {"get": {"x-kubernetes-group-version-kind": kind}}},
        "components": {"schemas": {"Widget": {"type": "object", "x-kubernetes-group-version-kind": [kind]}}},
    }
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (warning,) = checked([policy, "--openapi", tmp_path / "openapi.json"], capsys)["warnings"]
    assert "shop.example.com/v1, Kind=Widget" in warning["warning"]


@pytest.mark.parametrize(("text", "problem"), [("{", ":1: found"), ("[]", "found no components.schemas")])
def test_a_wrong_openapi_document_is_named(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (tmp_path / "openapi.json").write_text(text)
    assert run(["-q", "policy", "check", str(policy), "--openapi", str(tmp_path / "openapi.json")]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert "kubectl get --raw" in error


MUTATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}
"""


def test_mutating_policies_are_compiled_and_no_warning_is_promised(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "mutating.yaml"
    other.write_text(MUTATING)
    assert run(["policy", "check", str(other)]) == 0
    assert "mutating policies that compile: 1; API servers write no type-check warnings for them" in capsys.readouterr().out
    assert len(checked([policy, other], capsys)["warnings"]) == 1
    other.write_text(MUTATING.replace("Object{", "Objec{"))
    assert run(["policy", "check", str(other)]) == 2
    assert "mutating.yaml:10: compilation failed" in capsys.readouterr().err
    other.write_text(MUTATING)
    assert run(["policy", "cost", str(other)]) == 2
    assert "`hindcast replay -f` and `hindcast readiness -f` judge mutating policies" in capsys.readouterr().err
