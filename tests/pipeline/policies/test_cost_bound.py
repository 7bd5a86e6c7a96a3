"""The bound that spares counting costs is one: no evaluation may cost more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cel import DYN, Environment, ast
from pipeline.cel.minors import NEWEST, OLDEST
from pipeline.cel.versions import release
from pipeline.policies.cost_bound import CostBound, Extent, UnpricedError, extent_of, is_bounded
from pipeline.policies.limits import Measured

ENVIRONMENT = Environment((1, 36), {"object": DYN})
EXPRESSIONS = (
    "object.a == object.b",
    "object.a.all(x, x == 'one' || string(x) != '')",
    "object.a.all(x, object.a.exists(y, x == y))",
    "object.a.filter(x, ['o', 'tw'].exists(p, string(x).startsWith(p))).map(x, string(x)).join(', ') == object.b",
    "object.a.map(x, string(x) + '/' + string(x)).all(x, x.matches('^[a-z]+/[a-z]*$'))",
    "object.a.exists_one(x, x in [dyn('one'), object.b])",
    "has(object.a) && object.a.size() > 1 && string(object.b).contains('t') && string(object.b).contains(string(object.b))",
    "object.a.map(x, [x, x]).map(x, x[0]).size() == size(object.a)",
    "object.?a.orValue([]).all(x, [x].all(y, type(y) == type(x)))",
    "string(object.b).replace('o', 'ooo').split('o').size() > 2",
    "'%s and %s'.format([object.a, object.b]).size() > 0",
    "sets.contains(object.a, object.a) && object.a.sortBy(x, string(x)).size() >= 0",
    "object.a.indexOf('two') >= 0 ? object.a.distinct().size() : object.a.flatten().size()",
    "quantity(string(object.b)).isGreaterThan(quantity('1')) || string(object.b).lowerAscii().find('[0-9]+') != ''",
    "object.a.transformList(i, x, i > 0, string(x)).all(x, x.endsWith('e'))",
    "[[[object.a, object.b], [object.a]], [[object.a, object.a]]].indexOf([[object.b]]) < 0",
    "object.a.map(x, [object.a, object.a]).indexOf([object.b]) < 0",
)
PROGRAMS = [ENVIRONMENT.compile(text) for text in EXPRESSIONS]

WORDS = st.sampled_from(["", "one", "two", "three hundred and one", "10Gi", "x" * 80])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), WORDS)
OBJECTS = st.fixed_dictionaries(
    {"a": st.one_of(st.lists(VALUES, max_size=12), st.dictionaries(WORDS, VALUES, max_size=5)), "b": VALUES}
)


@given(OBJECTS, st.sampled_from(PROGRAMS))
def test_no_evaluation_costs_more(obj: dict[str, Any], program: Any) -> None:
    _, cost = program.evaluate_with_cost({"object": obj}, limit=10**12)
    assert is_bounded([program.ast])
    assert cost <= CostBound(program.ast, extent_of(obj), {}).cost


@given(OBJECTS)
def test_a_larger_extent_never_lowers_the_bound(obj: dict[str, Any]) -> None:
    found = extent_of(obj)
    for program in PROGRAMS:
        small = CostBound(program.ast, found, {}).cost
        assert small <= CostBound(program.ast, Extent(*(each * 2 for each in found)), {}).cost


def test_a_range_of_numbers_has_no_bound() -> None:
    assert not is_bounded([ENVIRONMENT.compile("lists.range(object.n).all(i, i >= 0)").ast])


@given(OBJECTS)
def test_what_is_quick_to_find_is_no_smaller(value: Any) -> None:
    measured = Measured("object", value)
    exact, rough = extent_of(value), measured.rough_extent
    assert rough.length >= exact.length
    assert rough.entries >= exact.entries
    assert rough.below >= exact.below


def test_a_skipped_key_is_not_looked_into() -> None:
    value = {"metadata": {"managedFields": [{"text": "x" * 99}] * 50, "name": "web"}}
    assert extent_of(value) == Extent(99, 50, 103)
    assert extent_of(value, "managedFields") == Extent(13, 2, 3)


def test_every_function_that_a_release_declares_has_a_price() -> None:
    versions = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
    names = {name for version in versions for name in release(version).functions} - {"@sortByAssociatedKeys"}
    assert {name for name in names if price(name) <= 0} == set()


def price(name: str) -> float:
    operands = tuple(ast.Ident(number, 0, "x") for number in range(2, 5))
    return CostBound(ast.Call(1, 0, name.rpartition(".")[2], None, operands), Extent(1, 1), {}).cost


def test_a_function_without_a_price_is_not_taken_for_a_cheap_one() -> None:
    with pytest.raises(UnpricedError, match="no bound is known on what the function discombobulate costs"):
        price("discombobulate")
