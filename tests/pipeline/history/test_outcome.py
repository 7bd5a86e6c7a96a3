"""Whether policies were asked, by what was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.history.event import Event
from pipeline.history.outcome import outcome_of
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "history" / "outcomes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_outcome(case: dict[str, Any], build: Any) -> None:
    outcome = outcome_of(Event.from_row(build(**case["event"])))
    assert outcome.admission.value == case["admission"], outcome.reason
