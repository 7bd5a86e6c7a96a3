"""Namespaces that were given with rules stand in for recorded ones, for every stage that looks at namespaces."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from api.cli import run
from pipeline.given import GivenObject, GivenObjects
from pipeline.manifests.files import manifests_of
from pipeline.request import Evidence, Known, Object, Unknown
from pipeline.runs import RunStore
from pipeline.stages.assign import assign
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import START, recorded, take_in

CASES = yaml.safe_load(Path("tests/cases/given_namespaces.yaml").read_text())
_GROUP = "admissionregistration.k8s.io"
_RULE = """
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]"""
_WAVE = """
    namespaceSelector: {matchLabels: {wave: "1"}}"""
_NAMESPACES = """
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {wave: "1"}}
"""
STAGES = {
    "validating": f"""
apiVersion: {_GROUP}/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: none}}
spec:
  matchConstraints: {_RULE}
  validations: [{{expression: "namespaceObject.metadata.labels.team != 'blue'"}}]
---
apiVersion: {_GROUP}/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: none}}
spec:
  policyName: none
  validationActions: [Deny]
  matchResources: {_WAVE}
""",
    "mutating": f"""
apiVersion: {_GROUP}/v1
kind: MutatingAdmissionPolicy
metadata: {{name: none}}
spec:
  matchConstraints: {_RULE}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{{metadata: Object.metadata{{labels: {{'team': namespaceObject.metadata.labels.team}}}}}}"
---
apiVersion: {_GROUP}/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: none}}
spec:
  policyName: none
  matchResources: {_WAVE}
""",
    "webhooks": f"""
apiVersion: {_GROUP}/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: none}}
webhooks:
- name: none.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {{url: "https://none.example.com/"}}
  namespaceSelector: {{matchLabels: {{wave: "1"}}}}
  rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
""",
}
EXPECTED = {
    "validating": {"in-shop": "deny", "in-else": "nomatch"},
    "mutating": {"in-shop": "changed", "in-else": None},
    "webhooks": {"in-shop": "called", "in-else": "nomatch"},
}


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": {"team": "blue"}}}


def config(space: str) -> Object:
    metadata = {"name": "a", "namespace": space, "uid": f"uid-{space}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spaces = ("shop", "else")
    events = [recorded(f"made-{space}", START, "create", namespace(space)) for space in spaces]
    events += [recorded(f"in-{space}", START + timedelta(minutes=1), "create", config(space)) for space in spaces]
    return take_in(tmp_path_factory.mktemp("given"), events)


def decisions(lake: Path, text: str) -> dict[str, str | None]:
    """What the stage of some manifests says of each request, by audit ID."""
    assigned = assign(manifests_of([("rules.yaml", text)]))
    assert assigned.left == ()
    found: dict[str, str | None] = {"in-shop": None, "in-else": None}
    for stage, rules in assigned.rules:
        with closing(open_lake(lake)) as reader:
            plan = stage.plan(reader, rules, Asked())
        summary = stage.run(plan, lake)
        rows = pl.read_parquet(RunStore(lake).run(summary.run_id).verdicts).filter(pl.col("policy") == "none")
        found |= {audit_id: decision for audit_id, decision in rows.select("audit_id", "decision").iter_rows() if decision}
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_a_given_namespace_decides_in_every_stage(stage: str, lake: Path) -> None:
    assert decisions(lake, STAGES[stage] + _NAMESPACES) == EXPECTED[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_without_it_the_recorded_one_decides(stage: str, lake: Path) -> None:
    assert "in-shop" not in {name for name, said in decisions(lake, STAGES[stage]).items() if said not in (None, "nomatch")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_how_it_is_laid_over_the_recorded_one(case: dict[str, Any]) -> None:
    given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", **case["given"]}}
    found = GivenObjects([GivenObject(given, "shop.yaml:1")]).namespace("shop", _recorded(case))
    assert isinstance(found, Known)
    assert found.value is not None
    assert found.value["metadata"]["labels"] == case["seen"]
    assert found.grade == case.get("grade", "exact")
    assert found.source.startswith("shop.yaml:1")


def _recorded(case: dict[str, Any]) -> Evidence[Object | None]:
    if case["recorded"] is None:
        return Unknown("namespace shop is not in the record")
    applied = case.get("applied")
    text = json.dumps({"metadata": applied} if isinstance(applied, dict) else applied)
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": text} if applied is not None else {}
    metadata = {"name": "shop", "annotations": annotations, **case["recorded"]}
    return Known({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, "the log")


def test_a_namespace_that_no_rule_looks_at_changes_nothing() -> None:
    text = STAGES["validating"].replace(_WAVE, " {}").replace("namespaceObject.metadata.labels.team", "object.data.team")
    assigned = assign(manifests_of([("rules.yaml", text + _NAMESPACES)]))
    assert "cannot replay a Namespace of v1" in assigned.words_of_left


@pytest.mark.parametrize("stage", STAGES)
def test_an_explanation_shows_it(stage: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.yaml").write_text(STAGES[stage] + _NAMESPACES)
    assert run(["explain", "in-shop", "-f", str(tmp_path), "--lake", str(lake), "-o", "json"]) == 0
    shown = json.dumps(json.loads(capsys.readouterr().out))
    assert '"wave": "1"' in shown or stage == "mutating"
    assert f'"{EXPECTED[stage]["in-shop"]}"' in shown
