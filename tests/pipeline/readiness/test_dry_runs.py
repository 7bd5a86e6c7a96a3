"""Dry runs have verdicts, and no report counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.readiness.ask import outcomes_of
from pipeline.readiness.build import build_report
from pipeline.readiness.exempting.exemptions import exposed_rows
from pipeline.readiness.rules import ReadinessRules
from pipeline.runs.store import RunStore
from queries import open_lake
from tests.recording import Log, deployment, take_in

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
    report = build_report(reader, lake, plan, summary, None, ReadinessRules())
    (policy,) = report.policies
    assert (policy.exposure.requests_matched, policy.denials.requests) == (3, 1)
    assert "2 dry runs do not count, though policies matched them" in report.caveats
    assert sorted(outcomes_of(reader, lake, summary).select("name").fetchall()) == [("empty",), ("few",), ("many",)]
    assert sum(row.requests for row in exposed_rows(reader, verdicts)["few"]) == 3
    reader.close()
