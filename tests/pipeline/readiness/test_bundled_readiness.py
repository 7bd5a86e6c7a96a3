"""Figures of the demonstration's verdicts, recomputed with SQL over the views by other means than the report's own queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.readiness import verdicts_of
from pipeline.readiness.build import build_report
from pipeline.readiness.counting.fidelity import fidelity_of
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.validating.agreement import recorded_agreement
from pipeline.stages.validating.compare import compare_with_log
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import LakeReader, open_lake
from tests.reporting import about_of
from tests.sharing import STRETCHED_DELAY

ROOT = Path(__file__).parents[3]


@dataclass
class Bundled:
    reader: LakeReader
    verdicts: Path
    report: Report

    def policy(self, name: str) -> PolicyReadiness:
        return next(entry for entry in self.report.policies if entry.policy == name)

    def sql(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        """`$verdicts` stands for the file of the run's verdicts."""
        return self.reader.arrow(text.replace("$verdicts", f"'{self.verdicts}'"), parameters).to_pylist()


@pytest.fixture(scope="module")
def bundled(stretched_lake: Path) -> Iterator[Bundled]:
    reader = open_lake(stretched_lake)
    bound = run_replay(plan_replay_from_log(reader, change_delay=STRETCHED_DELAY), stretched_lake)
    compare_with_log(reader, verdicts_of(stretched_lake, bound))
    fidelity = fidelity_of(recorded_agreement(reader.connection))
    plan = plan_replay(reader, load_policy_set([ROOT / "api" / "demo" / "policies"]))
    summary = run_replay(plan, stretched_lake)
    report = build_report(reader, stretched_lake, about_of(plan, summary), fidelity, ReadinessRules())
    yield Bundled(reader, verdicts_of(stretched_lake, summary), report)
    reader.close()


@pytest.mark.parametrize("name", ["deny-external-ips", "disruption-budgets", "host-namespaces", "image-registry"])
def test_exposure_and_denials_follow_from_the_views(bundled: Bundled, name: str) -> None:
    (row,) = bundled.sql(
        """
        WITH judged AS (
            SELECT cluster, audit_id, ts, bool_or(effect = 'deny') AS denied,
                bool_or(decision = 'unknown') AND NOT coalesce(bool_or(effect = 'deny'), false) AS unknown
            FROM read_parquet($verdicts) WHERE policy = $policy AND decision <> 'nomatch' GROUP BY ALL
        )
        SELECT count(*) AS matched, count(*) FILTER (denied) AS denied, count(*) FILTER (unknown) AS unknown,
            count(DISTINCT user_name) AS users, count(DISTINCT user_name) FILTER (denied) AS denied_users,
            min(r.ts) AS first_ts, max(r.ts) FILTER (denied) AS last_denied
        FROM judged AS j JOIN requests AS r USING (cluster, audit_id, ts)
        WHERE r.request_uri NOT LIKE '%dryRun=All%'
        """,
        policy=name,
    )
    entry = bundled.policy(name)
    exposure, denials = entry.exposure, entry.denials
    assert (exposure.requests_matched, exposure.requests_unknown, exposure.users) == (row["matched"], row["unknown"], row["users"])
    assert exposure.requests_judged == row["matched"] - row["unknown"]
    assert (denials.requests, denials.users, denials.last_ts) == (row["denied"], row["denied_users"], row["last_denied"])
    assert exposure.first_ts == row["first_ts"]
    assert sum(day.matched for day in entry.days) == sum(each.matched for each in entry.namespaces) == row["matched"]
    assert sum(owner.requests for owner in entry.owners) == row["denied"]
    assert entry.owners_total == len(entry.owners)


def test_units_of_services_are_the_services(bundled: Bundled) -> None:
    (row,) = bundled.sql(
        """
        SELECT count(DISTINCT (r.namespace, object_name(r.name, r.verb, r.response_object))) AS units
        FROM (SELECT DISTINCT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE policy = 'deny-external-ips') AS v
        JOIN requests AS r USING (cluster, audit_id, ts)
        """
    )
    assert bundled.policy("deny-external-ips").exposure.units_judged == row["units"]


def test_units_of_pods_are_what_made_them(bundled: Bundled) -> None:
    """Most Pods are named in no link beyond their ReplicaSet; the Deployment follows from the ReplicaSet's own record."""
    rows = bundled.sql("SELECT DISTINCT unit FROM outcomes WHERE policy = 'host-namespaces'")
    kinds = {row["unit"].partition("/")[0] for row in rows}
    assert {"Deployment", "StatefulSet", "DaemonSet", "CronJob"} <= kinds
    assert "ReplicaSet" not in kinds


def test_fidelity_is_that_of_the_resources(bundled: Bundled) -> None:
    (row,) = bundled.sql(
        """
        SELECT count(*) FILTER (result = 'agreed') AS agreed, count(*) FILTER (result IN ('agreed', 'disagreed')) AS compared
        FROM compared JOIN requests AS r USING (cluster, audit_id, ts)
        WHERE r.resource = 'services' AND r.subresource IS NULL
        """
    )
    found = bundled.policy("deny-external-ips").fidelity
    assert (found.agreed, found.compared) == (row["agreed"], row["compared"])
    assert found.compared > 50
    assert found.own_compared == 0  # it was never bound
    assert bundled.policy("image-registry").fidelity.own_compared > 50


def test_what_was_hidden_was_really_denied_by_somebody_else(bundled: Bundled) -> None:
    entry = bundled.policy("image-registry")
    rows = bundled.sql(
        """
        SELECT d.policy, count(*) AS requests
        FROM (
            SELECT DISTINCT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE policy = 'image-registry' AND effect = 'deny'
        ) AS v
        JOIN denials AS d USING (cluster, audit_id, ts)
        WHERE d.policy IS DISTINCT FROM 'image-registry' GROUP BY ALL
        """
    )
    assert rows
    assert {(each.name, each.requests) for each in entry.hidden} == {(row["policy"], row["requests"]) for row in rows}


def test_every_owner_says_who_and_what_would_help(bundled: Bundled) -> None:
    owners = bundled.policy("deny-external-ips").owners
    assert {owner.difference for owner in owners} == {"remove spec.externalIPs[0]"}
    assert {owner.team for owner in owners} == {"data", "payments", "platform", "shop"}
    tools = {owner.user: (owner.identity, owner.tool) for owner in owners}
    assert tools["system:serviceaccount:gitops:applier"] == ("GitOps tool", "Flux")
    assert tools["carol"] == ("user", "")
    pods = [owner for owner in bundled.policy("image-registry").owners if owner.user.endswith("replicaset-controller")]
    assert all([step.partition("/")[0] for step in owner.chain] == ["Pod", "ReplicaSet", "Deployment"] for owner in pods)
    assert any("registry.corp.example/" in owner.difference for owner in pods)
