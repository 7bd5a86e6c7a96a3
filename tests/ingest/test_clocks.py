"""Retention under clocks that jump and senders whose clocks are wrong: no event leaves the lake before its day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.checks.checkup import clock_findings
from api.cli import run
from api.settings import Settings
from api.sink import drainer
from api.sink.drainer import maintain_once
from ingest.lake import Lake
from ingest.maintain import GRACE_SECONDS, compact, remove_retired
from ingest.retention import present_day
from ingest.store import EventStore, Lines

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "ingest" / "present_days.yaml").read_text())


def ts(day: date) -> float:
    return datetime.combine(day, time(12), UTC).timestamp()


def store(lake: Lake, event: Callable[..., bytes], days: list[date]) -> None:
    lines = [event(number, stageTimestamp=f"{day.isoformat()}T01:00:00.000000Z") for number, day in enumerate(days)]
    with lake.writer() as writer, closing(EventStore(writer)) as stored:
        stored.store([Lines("c", "file:x", 1.0, lines)], {}, "x")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_retention_counts_from_a_day_that_is_sure(
    case: dict[str, Any], lake: Lake, event: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if case["days"]:
        store(lake, event, case["days"])
    assert present_day(lake, ts(case["clock"])) == case["present"]
    before = {file.dt for file in lake.manifest.files("events")}
    monkeypatch.setattr(drainer.time, "time", lambda: ts(case["clock"]))
    settings = replace(Settings(), lake=lake.path, retention_days=30, objects_retention_days=30)
    assert maintain_once(lake, settings, lambda: False)
    left = {file.dt for file in lake.manifest.files("events")}
    due = {day.isoformat() for day in case["days"] if case["present"] and (case["present"] - day).days > 30}
    assert before - left == due
    kinds = [finding.kind for finding in clock_findings(lake, datetime.fromtimestamp(ts(case["clock"]), UTC))]
    assert bool(kinds) == case.get("told", False)


def test_files_that_were_retired_by_a_wrong_clock_go_in_their_time(lake: Lake, event: Callable[..., bytes]) -> None:
    day = date(2026, 11, 1)
    for number in range(3):
        store(lake, lambda _, number=number, **more: event(number, **more), [day])
    with lake.writer() as writer:
        compact(writer, ts(date(2031, 11, 1)), files_min=2)
        retired = lake.manifest.retired(float("inf"))
        assert len(retired) == 3
        assert remove_retired(writer, ts(day)) == 0
        assert remove_retired(writer, ts(day) + GRACE_SECONDS + 1) == 3
    assert not [name for name in retired if (lake.path / name).exists()]


def test_a_span_of_expire_counts_from_the_events(lake: Lake, event: Callable[..., bytes]) -> None:
    store(lake, event, [date(2021, 1, day) for day in range(1, 11)])
    assert run(["--quiet", "--lake", str(lake.path), "expire", "--before", "5d"]) == 0
    assert sorted(file.dt for file in lake.manifest.files("events")) == [f"2021-01-{day:02}" for day in range(5, 11)]
    assert run(["--quiet", "--lake", str(lake.path), "expire", "--before", "2021-01-08"]) == 0
    assert len(lake.manifest.files("events")) == 3
