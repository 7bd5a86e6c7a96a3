"""The seam between stages and everything that reads their verdicts."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.runs.export import export
from pipeline.runs.flips import count_flips, flips
from pipeline.stages import names
from pipeline.stages.assign import assign
from pipeline.stages.registry import DEFAULT, STAGES, VALIDATING, stage_of
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import Log, deployment, take_in


def loaded() -> ModuleType:
    """The toy stage's folder, as a program that adds a stage of its own would load it."""
    name, file = "toy_stage", Path(__file__).parent / "toy" / "stage.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOY: Any = loaded().Toy()


def test_options_name_the_stages_of_the_registry() -> None:
    assert DEFAULT.name == names.DEFAULT
    assert list(names.IN_LOG) == [stage.name for stage in STAGES if stage.readiness.in_log]


@pytest.fixture
def own_lake(demo_lake: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_lake, tmp_path / "lake"))


MANIFESTS = """
apiVersion: toy.example.com/v1
kind: ReadBudget
metadata: {name: few-pods}
spec: {resource: pods, limit: "500"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: any}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], resources: [pods], operations: [CREATE]}]}
  validations: [{expression: "true"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: default}
"""


def test_each_manifest_goes_to_the_stage_of_its_kind_and_what_no_stage_reads_is_named() -> None:
    given = assign(manifests_of([("given.yaml", MANIFESTS)]), (*STAGES, TOY))
    assert {stage.name for stage, _ in given.rules} == {"validating", "toy"}
    assert [document.where() for document in given.left] == ["given.yaml:7"]
    assert "a Deployment of apps/v1 (given.yaml:7)" in given.words_of_left


def test_a_manifest_without_a_kind_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"given\.yaml:2: kind is required"):
        assign(manifests_of([("given.yaml", "---\napiVersion: v1\nmetadata: {name: x}\n")]))


def test_a_stage_is_found_by_its_name() -> None:
    assert stage_of("validating") is VALIDATING
    assert {stage.name for stage in STAGES} == {stage.name for stage in STAGES if stage.kinds}


def test_a_toy_stage_needs_one_folder_and_one_row(own_lake: Path) -> None:
    ((_, rules),) = [each for each in assign(manifests_of([("given.yaml", MANIFESTS)]), (*STAGES, TOY)).rules if each[0] is TOY]
    reader = open_lake(own_lake)
    plan = TOY.plan(reader, rules, Asked())
    lists = reader.sql("SELECT count(*) FROM requests WHERE verb = 'list' AND resource = 'pods'").fetchall()[0][0]
    assert plan.requests == lists > 0
    done: list[int] = []
    summary = TOY.run(plan, own_lake, 1, lambda now, planned: done.append(now), RunKind.REPLAY)
    assert done[-1] == summary.evaluated == summary.verdicts == lists
    verdicts = RunStore(own_lake).run(plan.run_id).verdicts
    first = verdicts.read_bytes()
    found = flips(reader, verdicts)
    assert sum(count_flips(found).values()) == lists
    assert found[0].rule_ref == "ReadBudget/few-pods/spec.limit"
    RunStore(own_lake).run(plan.run_id).discard()
    TOY.run(plan, own_lake, 1, None, RunKind.REPLAY)
    assert verdicts.read_bytes() == first
    assert TOY.run(plan, own_lake, 1, None, RunKind.REPLAY) == summary
    reader.close()


def test_an_export_holds_the_verdicts_of_all_stages_and_one_row_per_request(own_lake: Path, tmp_path: Path) -> None:
    given = assign(manifests_of([("given.yaml", MANIFESTS)]), (*STAGES, TOY))
    reader = open_lake(own_lake)
    verdicts = []
    for stage, rules in given.rules:
        plan = stage.plan(reader, rules, Asked())
        stage.run(plan, own_lake, 1, None, RunKind.REPLAY)
        verdicts.append(RunStore(own_lake).run(plan.run_id).verdicts)
    file = tmp_path / "out.parquet"
    rows = export(reader, verdicts, file, sources={"ValidatingAdmissionPolicy/any": "given.yaml"})
    reader.close()
    found = pq.read_table(file).to_pylist()
    assert len(found) == rows
    assert {row["stage"] for row in found} == {"validating", "toy"}
    whole = [row for row in found if row["stage"] == "validating" and row["policy"] is None]
    of_policy = {(row["cluster"], row["audit_id"], row["ts"], row["pass"]) for row in found if row["policy"] == "any"}
    assert {(row["cluster"], row["audit_id"], row["ts"], row["pass"]) for row in whole} == of_policy
    assert all((row["rule_ref"], row["binding"]) == (None, None) for row in whole)
    assert {row["rule_ref"] for row in found if row["policy"] == "any" and row["expression_index"] is None} == {
        "given.yaml#ValidatingAdmissionPolicy/any"
    }
    assert not any(row["flip"] for row in found if row["policy"] == "any")
    assert sorted(tmp_path.iterdir()) == [own_lake, file]


REPLICAS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]}
  validations: [{expression: "object.spec.replicas < 5"}]
"""
REFUSED_LATER = {
    "quota": (
        403,
        "Forbidden",
        'deployments.apps "quota" is forbidden: exceeded quota: q, requested: count=1, used: 1, limited: 1',
    ),
    "exists": (409, "AlreadyExists", 'deployments.apps "exists" already exists'),
    "webhook": (400, "BadRequest", 'admission webhook "w.example.com" denied the request: no'),
}


@pytest.mark.parametrize("name", ["fine", *REFUSED_LATER])
def test_a_request_that_another_stage_refused_is_not_newly_denied(tmp_path: Path, name: str) -> None:
    log = Log()
    more: dict[str, Any] = {}
    if name in REFUSED_LATER:
        code, reason, message = REFUSED_LATER[name]
        status = {"metadata": {}, "code": code, "status": "Failure", "reason": reason, "message": message}
        more = {"responseStatus": status, "responseObject": {"kind": "Status", "apiVersion": "v1", **status}}
    log.write("create", deployment(name, 9), **more)
    lake = take_in(tmp_path / "lake", log.lines)
    ((stage, rules),) = assign(manifests_of([("given.yaml", REPLICAS)]), STAGES).rules
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, rules, Asked())
        stage.run(plan, lake, 1, None, RunKind.REPLAY)
        export(reader, [RunStore(lake).run(plan.run_id).verdicts], tmp_path / "out.parquet")
    (whole,) = [row for row in pq.read_table(tmp_path / "out.parquet").to_pylist() if row["policy"] is None]
    assert (whole["decision"], whole["recorded"]) == ("deny", "admit")
    assert whole["flip"] == ("newly-denied" if name == "fine" else "still-denied")


def test_a_kind_of_another_group_is_told_with_the_group_that_a_stage_reads() -> None:
    given = assign(manifests_of([("chain.yaml", "{apiVersion: hindcast.io/v1alpha1, kind: AuthorizerChain, metadata: {name: c}}")]))
    assert given.words_of_left.endswith("; a stage reads AuthorizerChain of the group hindcast")
