"""The processes that a replay keeps for the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.runs import processes
from pipeline.runs.processes import default_workers, end, submit


def asked(*names: str) -> list[str | None]:
    """What a kept process finds in its environment."""
    return [future.result() for future in submit(1, os.getenv, [(name,) for name in names])]


def test_they_reach_stores_as_the_environment_says_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for region in ("north", "south", "south"):
        monkeypatch.setenv("AWS_REGION", region)
        assert asked("AWS_REGION") == [region]
    end()


def test_they_are_kept_while_stores_are_reached_in_the_same_way() -> None:
    first, again = (submit(1, os.getpid, [()])[0].result() for _ in range(2))
    assert first == again
    end()


def test_a_small_lake_is_not_worth_a_second_process(demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert default_workers(demo_lake) == default_workers(tmp_path) == 1
    monkeypatch.setattr(processes, "EVENTS_PER_WORKER", 6_000)
    assert default_workers(demo_lake) == 3
    monkeypatch.setattr(processes, "EVENTS_PER_WORKER", 10)
    assert default_workers(demo_lake) == 4
