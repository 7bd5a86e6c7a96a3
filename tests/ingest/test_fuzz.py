"""A body that no API server sends harms no other sender. `python -m tests.crash fuzz` tries as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.fuzz import run_fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_spoiled_bodies_cost_no_neighbour(tmp_path: Path, seed: int) -> None:
    found = run_fuzz(tmp_path, bodies=300, seed=seed)
    assert found["complaints"] == []
    assert set(found["answers"]) == {"acknowledged", "not_an_event_list"}
    assert found["quarantined"] > 0
