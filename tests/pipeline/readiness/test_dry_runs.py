"""Dry runs have verdicts, and no report counts them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from api.cli import run
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.readiness.ask import outcomes_of
from pipeline.readiness.build import build_report
from pipeline.readiness.rules import ReadinessRules
from pipeline.runs.store import RunStore
from pipeline.stages.registry import STAGES
from queries import open_lake
from tests.recording import START, Log, deployment, recorded, take_in
from tests.reporting import about_of, proposing

STAGES_CASES = Path(__file__).parents[2] / "cases" / "stages"

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, DELETE], resources: [deployments]}]
  validations: [{expression: "object != null && object.spec.replicas < 5"}]
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = Log()
    log.write("create", deployment("tried", 9), requestURI="/apis/apps/v1/namespaces/shop/deployments?dryRun=All")
    log.write("create", deployment("many", 9))
    log.write("create", deployment("few", 1))
    options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}
    log.write("delete", deployment("few", 1), requestObject=options)
    log.write("create", deployment("empty", 1), requestURI="/apis/apps/v1/namespaces/shop/deployments?dryRun=")
    return take_in(tmp_path_factory.mktemp("dry") / "lake", log.lines)


def test_dry_runs_do_not_count(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    reader = open_lake(lake)
    plan = plan_replay(reader, load_policy_set([tmp_path / "p.yaml"]))
    summary = run_replay(plan, lake)
    verdicts = RunStore(lake).run(summary.run_id).verdicts
    counted = reader.sql(f"SELECT count(DISTINCT audit_id) FROM read_parquet('{verdicts}')").fetchall()
    assert counted == [(5,)]  # every one has a verdict
    report = build_report(reader, lake, about_of(plan, summary), None, ReadinessRules())
    (policy,) = report.policies
    assert (policy.exposure.requests_matched, policy.denials.requests) == (3, 1)
    assert "2 dry runs do not count, though policies matched them" in report.caveats
    assert sorted(outcomes_of(reader, lake, summary).select("name").fetchall()) == [("empty",), ("few",), ("many",)]
    (choice,) = proposing(reader, lake, plan, summary).propose(None).choices
    assert (choice.exposed.requests, choice.exposed.denied_requests) == (3, 1)
    reader.close()


WRITES = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop", "uid": "c"}, "data": {"a": "b"}},
    deployment("web", 9),
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "p"}, "spec": {"containers": []}},
    {
        "apiVersion": "shop.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "shop", "uid": "w"},
        "spec": {"size": 70, "color": "green"},
    },
]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose writes are dry runs, but for those of a namespace and a definition."""
    log = Log(timedelta(days=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}}, user="system:admin")
    log.write("create", next(yaml.safe_load_all((STAGES_CASES / "schema.yaml").read_text())), user="system:admin")
    for each in WRITES * 2:
        path = recorded("", START, "create", each)["requestURI"]
        log.write("create", each, requestURI=f"{path}?dryRun=All")
    return take_in(tmp_path_factory.mktemp("tried") / "lake", log.lines)


@pytest.mark.parametrize("stage", [stage.name for stage in STAGES])
def test_no_stage_counts_dry_runs(stage: str, tried: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the manifests make of them: no request, no denial and no reason; a caveat says how many there were."""
    assert run(["-q", "--lake", str(tried), "readiness", "-f", str(STAGES_CASES / f"{stage}.yaml"), "-o", "json"]) in (0, 3)
    report = json.loads(capsys.readouterr().out)
    (counts,) = {int(text.split()[0]) for text in report["caveats"] if "dry runs do not count, though " in text}
    assert counts in (2, 4, 6, 8)
    for row in report["policies"]:
        assert row["denials"]["requests"] == 0
        assert row["exposure"]["requests_matched"] <= (2 if stage in ("authorization", "conditions") else 0)
        assert not row.get("objections")
        assert not any("0 of 2 recorded outcomes" in text or "lost on reapply" in text for text in row["reasons"])


def test_advice_on_a_definition_counts_no_dry_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A widget that is too large was made, and two were tried."""
    log, definition = Log(timedelta(days=1)), STAGES_CASES / "schema.yaml"
    before = next(yaml.safe_load_all(definition.read_text()))
    before["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 99
    log.write("create", before, user="system:admin")
    metadata = {**WRITES[3]["metadata"], "generation": 1}
    widget = {**WRITES[3], "metadata": metadata, "spec": {"size": 70, "color": "red", "replicas": 1}}
    path = "/apis/shop.example.com/v1/namespaces/shop/widgets"
    for query in ("", "?dryRun=All", "?dryRun=All"):
        log.write("create", widget, requestURI=f"{path}{query}")
    lake = take_in(tmp_path / "lake", log.lines)
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(definition), "--no-calibrate", "-o", "json"]) in (0, 3)
    (row,) = json.loads(capsys.readouterr().out)["policies"]
    assert row["denials"]["requests"] == 1
    assert [text for text in row["reasons"] if "maximum" in text and text.endswith("(1)")]
