"""Rules over one value: equality by the type of a list, formats, names, nulls and transitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cel.evaluation.equality import equal
from pipeline.cel.values import MapList, SetList
from pipeline.stages.schema.correlation import Correlated
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.rule_run import RuleOutcome, run_rules
from pipeline.stages.schema.rules import compile_rules
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "rules.yaml").read_text())


def outcome(case: dict[str, Any], rule: str) -> RuleOutcome:
    schema = {"type": "object", "properties": case["fields"], "x-kubernetes-validations": [{"rule": rule}]}
    props = props_of(schema)
    rules = compile_rules(props, (1, 36), is_resource=False)
    assert rules is not None
    old = case.get("old")
    return run_rules(rules, case["value"], old, None if old is None else Correlated(case["value"], old, props))


@pytest.mark.parametrize(
    ("case", "rule"), [pytest.param(case, rule, id=f"{case['name']}: {rule}") for case in CASES for rule in case["holds"]]
)
def test_a_rule_that_holds(case: dict[str, Any], rule: str) -> None:
    assert outcome(case, rule) == RuleOutcome()


@pytest.mark.parametrize(
    ("case", "rule", "part"),
    [pytest.param(case, rule, part, id=rule) for case in CASES for rule, part in case.get("fails", {}).items()],
)
def test_a_rule_that_fails(case: dict[str, Any], rule: str, part: str) -> None:
    found = outcome(case, rule)
    (error,) = found.errors
    assert part in str(error)
    assert not found.unknown


LETTERS = st.lists(st.sampled_from("abcd"), max_size=5)


@given(LETTERS, LETTERS)
def test_sets_are_equal_if_they_have_the_same_elements(one: list[str], other: list[str]) -> None:
    assert equal(SetList(one), other) == (len(one) == len(other) and set(one) == set(other))
    assert set(SetList(one) + other) == set(one) | set(other)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1)), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1)))
def test_map_lists_are_equal_if_their_items_are_by_key(one: dict[str, int], other: dict[str, int]) -> None:
    left, right = ([{"name": name, "n": number} for name, number in each.items()] for each in (one, other))
    assert equal(MapList(left, ("name",)), right) == (one == other)
    joined = MapList(left, ("name",)) + right
    assert {each["name"]: each["n"] for each in joined} == {**one, **other}
