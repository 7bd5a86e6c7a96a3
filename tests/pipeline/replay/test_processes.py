"""The processes that a replay keeps for the next one."""

from __future__ import annotations

import os

import pytest

from pipeline.replay.processes import end, submit


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
