"""Manifests with expressions of the newest library: refused where they are new, replayed where a cluster has them stored.

The rows are answers of a kube-apiserver 1.33.13 to policies that were new to it. All objects with expressions compile in the same
environments (kubernetes/apiserver pkg/cel/environment), so its answers hold for each of them.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from pipeline.manifests.files import manifests_of
from pipeline.stages.mutating.compiled import too_new_expressions
from pipeline.stages.registry import MUTATING, WEBHOOKS
from pipeline.stages.schema.checking import read_definition
from pipeline.stages.schema.definition_check import definition_errors
from pipeline.stages.stage import Stage
from pipeline.stages.webhooks.stage import too_new_conditions
from queries import LakeReader, open_lake
from tests.recording import Log, deployment, take_in

ADMISSION = "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
ROWS = json.loads((Path(__file__).parents[2] / "cases" / "policies_load" / "new_expressions_1_33.json").read_text())
NEW = "isSemver('1.2.3')"


def of_policy(expression: str) -> dict[str, Any]:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": expression}]}
    return {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "versions"}, "spec": spec}


def of_webhook(expression: str) -> dict[str, Any]:
    hook = {
        "name": "versions.example.com",
        "clientConfig": {"url": "https://hook.example.com"},
        "rules": [RULE],
        "matchConditions": [{"name": "versions", "expression": expression}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": "versions"}, "webhooks": [hook]}


def of_mutating(expression: str, text: str = "[JSONPatch{op: 'test', path: '/kind', value: string(%s)}]") -> dict[str, Any]:
    spec = {
        "matchConstraints": {"resourceRules": [RULE]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": text % expression}}],
    }
    return {"apiVersion": ADMISSION, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "versions"}, "spec": spec}


def of_mutating_variable(expression: str) -> dict[str, Any]:
    found = of_mutating("variables.one")
    return {**found, "spec": {**found["spec"], "variables": [{"name": "one", "expression": expression}]}}


def of_definition(expression: str) -> dict[str, Any]:
    # Rules have `self` where policies have `object`.
    rule = expression.replace("object.", "self.")
    names = {"type": "object", "properties": {"name": {"type": "string"}}}
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    ports = {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {"port": {"type": "integer"}}}}
    spec["properties"] = {
        "ports": ports,
        "externalIPs": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 9}},
    }
    schema = {"type": "object", "properties": {"spec": spec, "metadata": names}, "x-kubernetes-validations": [{"rule": rule}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


KINDS = {each.__name__: each for each in (of_policy, of_webhook, of_mutating, of_definition)}


def lake_with(folder: Path, *stored: dict[str, Any]) -> Path:
    log = Log()
    for each in stored:
        plural = f"{each['kind'].lower()}s".replace("policys", "policies")
        log.write("create", {**each, "plural": plural})
    log.write("create", deployment("web", 1))
    return take_in(folder / "lake", log.lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_stored", [False, True])
def test_the_lake_says_whether_an_expression_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_stored: bool, kind: str
) -> None:
    manifest = KINDS[kind](NEW)
    other = {**manifest, "metadata": {"name": f"another.{manifest['metadata']['name']}"}}
    lake, file = lake_with(tmp_path, manifest if is_stored else other), tmp_path / "manifest.json"
    file.write_text(json.dumps(manifest))
    command = ["--lake", str(lake), "replay", "-f", str(file), "--kubernetes-version"]
    assert run([*command, "1.34"]) == 0
    capsys.readouterr()
    assert run([*command, "1.33"]) == (0 if is_stored else 2)
    said = capsys.readouterr().err
    assert ("undeclared reference to 'isSemver'" in said) is ("with the CEL of 1.32" in said) is not is_stored


def errors_of(reader: LakeReader, manifest: dict[str, Any]) -> list[str]:
    (document,) = manifests_of([("manifest.json", json.dumps(manifest))])
    if manifest["kind"] == "CustomResourceDefinition":
        # Rules over these schemas may cost too much as well.
        found = [str(each) for each in definition_errors(read_definition(document), (1, 33))]
        return [each for each in found if "compilation failed" in each]
    stage: Stage[Any, Any] = MUTATING if manifest["kind"] == "MutatingAdmissionPolicy" else WEBHOOKS
    rules = stage.read([document])
    found = list(stage.readiness.uncompilable(rules, (1, 33)))
    if isinstance(rules, tuple):
        return [error for _, error in [*found, *(each for one in rules for each in too_new_conditions(one, (1, 33), reader))]]
    return [error for _, error in [*found, *too_new_expressions(rules.policies, (1, 33), reader)]]


def test_rows_of_a_server(tmp_path: Path) -> None:
    with closing(open_lake(lake_with(tmp_path))) as reader:
        for kind in (of_webhook, of_mutating_variable, of_definition):
            for row in ROWS:
                if kind is of_definition and row["name"] in ("o-fs", "o-named"):
                    continue  # Rules have no authorizer, and their metadata has types.
                found = errors_of(reader, kind(row["expression"]))
                assert bool(found) == (row["code"] == 422), (kind, row, found)


def test_checks_refuse_what_a_replay_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(of_mutating(NEW)))
    assert run(["policy", "check", str(file), "--kubernetes-version", "1.33"]) == 2
    assert run(["policy", "check", str(file), "--kubernetes-version", "1.34"]) == 0
    file.write_text(json.dumps(of_definition(NEW)))
    assert run(["schema", "check", str(file), "--kubernetes-version", "1.33"]) == 2
    assert "with the CEL of 1.32" in capsys.readouterr().out
    file.write_text(json.dumps({**of_definition(NEW), "metadata": {"name": "widgets.example.com", "resourceVersion": "7"}}))
    assert run(["schema", "check", str(file), "--kubernetes-version", "1.33"]) == 0
