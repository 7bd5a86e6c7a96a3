"""Forty generated clusters, judged for real: each by itself, and an interrupted fleet goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.fleet import FleetReport, Question, judge_fleet
from pipeline.manifests.files import texts_of
from pipeline.readiness.model import Status
from pipeline.readiness.rules import ReadinessRules
from tests.fleet_of import make_fleet, members
from tests.sharing import shared_lake

CLUSTERS = 40
_STOPPED_AFTER = 9
RULES = ReadinessRules(days_min=1, weekdays_min=1, matched_units_min=1)
POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "image-registry.yaml"


class Stopped(Exception):  # noqa: N818  # it is not an error of the fleet
    """Ends a fleet as a user does who interrupts it."""


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All forty clusters, each with some of the workloads: the tests are about the clusters, not about their size."""

    def make(path: Path) -> None:
        small = [replace(each, share=each.share * 0.05, days=3.0) for each in members(CLUSTERS)]
        make_fleet(demo_lake, path, small, done=lambda name: None)

    return shared_lake(tmp_path_factory, "forty", make)


@pytest.fixture(scope="module")
def question() -> Question:
    return Question(tuple(texts_of([POLICY])), rules=RULES, compares=False, remedies=False)


@pytest.fixture(scope="module")
def judged(lake: Path, question: Question) -> tuple[FleetReport, list[str]]:
    """The report of a fleet that was interrupted and asked again, and the clusters in the order in which they were judged."""
    names: list[str] = []

    def stop(done: int, total: int, cluster: str) -> None:
        if done == _STOPPED_AFTER:
            raise Stopped

    with pytest.raises(Stopped):
        judge_fleet(lake, question, begin=stop, judged=lambda cluster, judgement: names.append(cluster))
    assert 0 < len(names) <= _STOPPED_AFTER
    return judge_fleet(lake, question, judged=lambda cluster, judgement: names.append(cluster)), names


def test_every_cluster_counts_once(judged: tuple[FleetReport, list[str]]) -> None:
    report, _ = judged
    (policy,) = report.policies
    assert report.clusters_total == policy.clusters == CLUSTERS
    assert policy.ready + policy.ready_with_exemptions + len(policy.not_ready) + len(policy.unjudged) == CLUSTERS
    assert {each.cluster[-2:] for each in report.apart} >= {"00", "01"}
    assert {each[-2:] for each in policy.not_ready} >= {"06"}, "every workload of this cluster violates the policy"
    assert policy.ready > CLUSTERS / 4


def test_the_worst_cluster_is_first_and_the_first_to_begin_with_is_ready(judged: tuple[FleetReport, list[str]]) -> None:
    report, _ = judged
    denied = [each.cells[0].units_denied for each in report.clusters if each.cells[0].status is Status.NOT_READY]
    assert denied == sorted(denied, reverse=True) != []
    ready = {each.cluster for each in report.clusters if each.cells[0].status is Status.READY}
    assert report.start.cluster in ready


def test_no_cluster_is_judged_twice(judged: tuple[FleetReport, list[str]]) -> None:
    report, names = judged
    assert len(names) == len(set(names))
    assert {each.cluster for each in report.clusters} <= set(names)
