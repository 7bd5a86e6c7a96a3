"""What leaves for a CI log: tests/cases/readiness/redaction.yaml, and what holds of every object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.explaining.redaction import REDACTED, Redaction
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "redaction.yaml").read_text())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    assert Redaction(tuple(case.get("paths", ()))).object(case["object"]) == case["expect"]


@given(JSON)
def test_what_is_redacted_stays_as_it_is_and_keeps_its_shape(value: Any) -> None:
    once = Redaction().object(value)
    assert Redaction().object(once) == once
    assert shape(once) == shape(value)


@given(st.text(min_size=4, max_size=30).filter(lambda text: text.strip() and text not in REDACTED))
def test_a_configured_path_lets_nothing_through(secret: str) -> None:
    redaction = Redaction(("spec.note",))
    value = {"spec": {"note": [secret, {"deep": secret}]}}
    assert redaction.object(value) == {"spec": {"note": [REDACTED, {"deep": REDACTED}]}}
    assert secret not in redaction.text(f"refused: {secret}", value)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value)
