"""A policy as the page shows it says the same as the one that was replayed, and each expression stands where it is marked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from api.beside_runs import ChartCounts, MomentCount, keep_charts, kept_charts
from api.pages.charts import timeline, timeline_of
from api.pages.manifest import SourceLine, binding_manifest, policy_manifest, source_lines
from ingest.errors import InputError
from pipeline.policies.model import PolicySet
from pipeline.readiness.model import DayCount
from pipeline.runs import RunStore
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from pipeline.stages.validating.plan import _policy_document
from tests.yaml_text import load_yaml

ROOT = Path(__file__).parents[3]


def policy_files() -> Iterator[Path]:
    yield from sorted((ROOT / "api" / "demo" / "policies").glob("*.yaml"))
    yield from sorted((ROOT / "tests" / "cases").rglob("polic*.yaml"))


def shown(policies: PolicySet) -> tuple[list[str], list[tuple[SourceLine, ...]]]:
    document = _policy_document(policies)
    lines = [source_lines(policy_manifest(item)) for item in document["policies"]]
    bindings = [source_lines(binding_manifest(item)) for item in document["bindings"]]
    return ["".join(f"{line.text}\n" for line in found) for found in (*lines, *bindings)], lines


@pytest.mark.parametrize("file", list(policy_files()), ids=lambda file: str(file.relative_to(ROOT)))
def test_the_shown_policy_says_the_same(file: Path) -> None:
    try:
        policies = load_policy_set([file])
    except InputError:
        pytest.skip("no policy that an API server takes")
    texts, _ = shown(policies)
    again = parse_policy_set([("page", "---\n".join(texts))])
    before, after = _policy_document(policies), _policy_document(again)
    assert after["policies"] == before["policies"]
    assert after["bindings"] == before["bindings"]


def test_the_lines_of_a_validation_hold_its_expression_and_nothing_of_the_next() -> None:
    policies = load_policy_set([ROOT / "api" / "demo" / "policies" / "image-registry.yaml"])
    lines = shown(policies)[1][0]
    marked = [line.text for line in lines if line.validation == 0]
    assert marked[0].strip() == "- expression: variables.refused.size() == 0"
    assert load_yaml("\n".join(marked))[0]["reason"] == "Forbidden"
    assert all(line.validation is None for line in lines if "variables:" in line.text or "resourceRules" in line.text)


def test_every_day_of_a_time_without_gaps_has_its_place() -> None:
    days = [DayCount(date(2026, 11, 1), 10, 1, 0), DayCount(date(2026, 11, 4), 30, 0, 2)]
    found = timeline(days)
    assert found is not None
    assert (found.step, found.denied.total, found.matched.total, found.unknown.total) == ("day", 1, 40, 2)
    assert [bar.label for bar in found.matched.bars] == ["2026-11-01: 10", "2026-11-04: 30"]
    first, last = found.matched.bars
    assert last.x == pytest.approx(3 * 100 / 14, abs=0.01)
    assert (first.height, last.height, last.y) == (pytest.approx(100 / 3, abs=0.01), 100, 0)


def test_a_short_time_has_bars_of_seconds() -> None:
    start = datetime(2026, 11, 1, 3, 24, 15, tzinfo=UTC)
    found = timeline_of([MomentCount(start, 10, 1, 0), MomentCount(start + timedelta(seconds=15), 30, 0, 2)], 5)
    assert found is not None
    assert (found.step, found.denied.total, found.matched.total, found.unknown.total) == ("5 seconds", 1, 40, 2)
    assert [bar.label for bar in found.matched.bars] == ["2026-11-01 03:24:15: 10", "2026-11-01 03:24:30: 30"]
    assert found.matched.bars[1].x == pytest.approx(3 * 100 / 14, abs=0.01)
    assert [tick.label for tick in found.ticks] == ["03:24:15 – 03:24:30"]
    assert timeline_of([], 5) is None


def test_a_long_time_is_shown_by_week_and_no_count_gets_lost() -> None:
    days = [DayCount(date.fromordinal(date(2026, 1, 1).toordinal() + day), 5, day % 2, 0) for day in range(200)]
    found = timeline(days)
    assert found is not None
    assert (found.step, len(found.matched.bars)) == ("week", 29)
    assert (found.matched.total, found.denied.total, found.matched.peak) == (1000, 100, 35)
    assert timeline([]) is None


def test_the_counts_behind_charts_are_kept_next_to_their_run(replayed_lake: Path) -> None:
    run_id = next(RunStore(replayed_lake).every()).run_id
    start = datetime(2026, 11, 1, tzinfo=UTC)
    counts: list[ChartCounts] = [("p", None, [MomentCount(start, 3, 1, 0)]), ("p", "b", [])]
    assert kept_charts(replayed_lake, run_id, 7) is None
    keep_charts(replayed_lake, run_id, 7, counts)
    assert kept_charts(replayed_lake, run_id, 7) == counts
    RunStore(replayed_lake).run(run_id).keep("charts-7.json", b"[1]")
    assert kept_charts(replayed_lake, run_id, 7) is None
