"""Estimated costs: what is evaluated costs no less and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cel import CelError, Environment
from pipeline.cel.checking.check import check
from pipeline.cel.checking.schema_types import schema_type
from pipeline.cel.costs.estimate import Path as DataPath
from pipeline.cel.costs.estimate import estimate, schema_sizes
from pipeline.cel.costs.ranges import LARGEST, UNKNOWN, Range, exactly
from pipeline.cel.syntax.parse import parse
from pipeline.cel.types import Type
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "cel" / "check" / "estimates.yaml").read_text())
SCHEMA = load_yaml("""
type: object
properties:
  name: {type: string, maxLength: 5}
  count: {type: integer}
  names: {type: array, maxItems: 4, items: {type: string, maxLength: 5}}
  labels: {type: object, maxProperties: 3, additionalProperties: {type: string, maxLength: 5}}
  other: {type: object, properties: {name: {type: string, maxLength: 5}, count: {type: integer}}}
  others: {type: array, maxItems: 3, items: {type: object, properties: {name: {type: string}, count: {type: integer}}}}
""")
ROOT = schema_type(SCHEMA, "Thing", is_resource_root=False)
assert ROOT is not None
ENVIRONMENT = Environment((1, 37), {"thing": ROOT.type}, tuple(ROOT.object_types()))

TEXT = st.text(alphabet="abé", max_size=5)
OTHER = st.fixed_dictionaries({"name": TEXT, "count": st.integers(0, 9)})
THING = st.fixed_dictionaries(
    {
        "name": TEXT,
        "count": st.integers(0, 9),
        "names": st.lists(TEXT, max_size=4),
        "labels": st.dictionaries(TEXT, TEXT, max_size=3),
        "other": OTHER,
        "others": st.lists(OTHER, max_size=3),
    }
)


def sizes(path: DataPath, type_: Type) -> Range | None:
    """Lists and maps have up to 4 entries, text up to 5 characters; of the rest nothing is said."""
    return {"string": Range(0, 5), "list": Range(0, 4), "map": Range(0, 3)}.get(type_.name) if path else None


def estimated(text: str, hints: Any = sizes) -> Range:
    tree = parse(text, ENVIRONMENT.release.macros)
    return estimate(tree, check(tree, ENVIRONMENT.scope, text), ENVIRONMENT.scope, hints)


def cost_of(expression: str, thing: dict[str, Any]) -> int:
    value, cost = ENVIRONMENT.compile(expression).evaluate_with_cost({"thing": thing})
    assert not isinstance(value, CelError)
    return cost


@pytest.mark.parametrize("expression", CASES["within"])
@settings(max_examples=30)
@given(thing=THING)
def test_costs_lie_within_the_estimate(expression: str, thing: dict[str, Any]) -> None:
    found = estimated(expression)
    assert found.min <= cost_of(expression, thing) <= found.max


@pytest.mark.parametrize("expression", CASES["no_more"])
@settings(max_examples=30)
@given(thing=THING)
def test_costs_are_no_more_than_estimated(expression: str, thing: dict[str, Any]) -> None:
    assert cost_of(expression, thing) <= estimated(expression).max


def test_without_sizes_a_loop_may_cost_anything() -> None:
    found = estimated("thing.names.all(n, n != '')", lambda path, type_: None)
    assert (found.min, found.max) == (3, LARGEST)


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("thing.name == 'abc'", 3, 3),
        ("thing.names.all(n, n.startsWith('a'))", 3, 3 + 4 * 5),
        ("thing.others.all(o, o.name == thing.name)", 3, 3 + 3 * 9),
        ("thing.labels.all(k, thing.labels[k] != 'abc')", 3, 3 + 3 * 8),
        ("thing.count == 1", 2, 2),
    ],
)
def test_sizes_from_schemas(expression: str, least: int, most: int) -> None:
    assert ROOT is not None
    found = estimated(expression, schema_sizes({"thing": ROOT}))
    assert (found.min, found.max) == (least, most)


RANGES = st.builds(lambda low, more: Range(low, min(low + more, LARGEST)), st.integers(0, LARGEST), st.integers(0, LARGEST))


@given(RANGES, RANGES)
def test_arithmetic_stays_within_64_bits(left: Range, right: Range) -> None:
    for found in (left + right, left * right, left | right, left.scaled(0.1), left.scaled(350.0)):
        assert 0 <= found.min <= found.max <= LARGEST


@given(RANGES)
def test_neutral_elements(one: Range) -> None:
    assert one + exactly(0) == one
    assert one * exactly(1) == one
    assert one | one == one
    assert one | UNKNOWN == UNKNOWN
