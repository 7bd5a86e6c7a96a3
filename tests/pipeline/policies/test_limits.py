"""What is said to stay within cost limits without counting does, and so does what counting a few expressions settles."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.cel import DYN, Environment
from pipeline.cel.values import SparseMap, Unknown
from pipeline.policies.limits import PROGRAM_LIMIT, Limits, Measured, Together

ENVIRONMENT = Environment((1, 36), {"object": DYN})
EXPRESSIONS = (
    "object.b != 'a'",
    "object.a.all(x, string(x) != 'b')",
    "object.a.all(x, object.a.exists(y, x == y))",
    "object.a.map(x, string(x)).join(', ').replace('o', string(object.b)) != ''",
    "string(object.b).contains('t') || string(object.b).contains(string(object.b))",
)
PROGRAMS = [ENVIRONMENT.compile(text) for text in EXPRESSIONS]
WORDS = st.sampled_from(["", "one", "two", "three hundred and one", "x" * 80, "o" * 400])
UNTOLD = st.just(Unknown("not recorded"))
OBJECTS = st.fixed_dictionaries({"a": st.lists(WORDS | UNTOLD, max_size=30), "b": WORDS | UNTOLD})


@given(
    OBJECTS | OBJECTS.map(SparseMap), st.lists(st.sampled_from(PROGRAMS), min_size=1, max_size=4, unique=True), st.integers(1, 6000)
)
def test_nothing_settled_exceeds_a_limit(obj: dict[str, Any], programs: list[Any], budget: int) -> None:
    costs = {id(program): program.evaluate_with_cost({"object": obj}, limit=10**12)[1] for program in programs}
    doubts = Limits([(budget, programs)], {}).doubts(Together([Measured("object", obj)]))
    if doubts is not None and all(sum(costs[id(each)] for each in doubt.programs) <= doubt.spare for doubt in doubts):
        assert sum(costs.values()) <= budget
        assert max(costs.values()) <= PROGRAM_LIMIT


def test_the_dearest_expression_alone_is_in_doubt() -> None:
    limits = Limits([(10_000, [PROGRAMS[0], PROGRAMS[2]])], {})
    (doubt,) = limits.doubts(Together([Measured("object", {"a": ["word"] * 30, "b": "b"})])) or ()
    assert doubt.programs == (PROGRAMS[2],)


def test_what_cannot_be_measured_is_counted() -> None:
    assert Limits([(10_000, PROGRAMS)], {}).doubts(Together([Measured("object", object())])) is None


def test_an_unknown_part_costs_nothing() -> None:
    untold = Unknown("not recorded")
    obj = SparseMap({"a": ["word", untold], "b": untold})
    assert Limits([(1_000, PROGRAMS[:2])], {}).doubts(Together([Measured("object", obj)])) == ()


def test_a_list_that_holds_a_list_twice_is_read_twice() -> None:
    environment = Environment((1, 36), {"object": DYN, "variables": DYN})
    variables = {"a0": environment.compile("[object.b]")}
    for level in range(1, 30):
        variables[f"a{level}"] = environment.compile(f"[variables.a{level - 1}, variables.a{level - 1}]")
    search = environment.compile("[variables.a29].indexOf(object.b) == 0")
    assert Limits([(10_000_000, [search])], variables).doubts(Together([Measured("object", {"b": "word"})])) != ()
