"""Decisions of authorizers: tests/cases/conditions/{evaluations,constructions,chains,unions}.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.conditions.logic.evaluate import Result, Truth, decide, evaluate_map, folded
from pipeline.stages.conditions.model import (
    Condition,
    ConditionsMap,
    Decision,
    Effect,
    Plain,
    conditions_map,
    possible,
    union_of,
)
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[3] / "cases" / "conditions"
EVALUATIONS: list[dict[str, Any]] = load_yaml((FOLDER / "evaluations.yaml").read_text())
CONSTRUCTIONS: list[dict[str, Any]] = load_yaml((FOLDER / "constructions.yaml").read_text())
CHAINS: list[dict[str, Any]] = load_yaml((FOLDER / "chains.yaml").read_text())
UNIONS: list[dict[str, Any]] = load_yaml((FOLDER / "unions.yaml").read_text())
LISTS = ("deny", "noOpinion", "allow")


def test_every_list_of_conditions_is_evaluated_as_the_server_does() -> None:
    tried = 0
    for case in EVALUATIONS:
        for lists in case["lists"]:
            results = {item[0]: Result(Truth(item[1]), "eval error") for found in lists.values() for item in found}
            made = conditions_map(*([Condition(item[0], "", "", *item[2:]) for item in lists.get(name, ())] for name in LISTS))
            assert isinstance(made, ConditionsMap), lists
            assert str(evaluate_map(made, lambda each, of=results: of[each.id])) == case["says"], lists
            tried += 1
    assert tried == 59


def member_of(case: dict[str, Any]) -> Decision:
    if "plain" in case:
        return Plain(Effect(case["plain"]), case.get("reason", ""), case.get("error", ""))
    return conditions_map(*([Condition(item[0], "", "", *item[2:]) for item in case.get(name, ())] for name in LISTS))


@pytest.mark.parametrize("case", CHAINS, ids=[str(place) for place in range(len(CHAINS))])
def test_a_chain_ends_as_the_server_ends_it(case: dict[str, Any]) -> None:
    members = [member_of(each) for each in case["chain"]]
    truths = {item[0]: Truth(item[1]) for each in case["chain"] for name in LISTS for item in each.get(name, ())}
    if len(members) == 1 and isinstance(members[0], ConditionsMap):
        assert str(evaluate_map(members[0], lambda each: Result(truths[each.id]))) == case["says"]
        return
    chain = union_of([(f"{place}.example.com", each) for place, each in enumerate(members)])
    found = decide(chain, lambda each: Result(truths[each.id]))
    if "ends" in case:
        assert found is not None
        assert found.effect == case["ends"]
    else:
        assert str(found or "open") == case["says"]


@pytest.mark.parametrize("case", UNIONS, ids=[str(place) for place in range(len(UNIONS))])
def test_nested_chains_are_made_and_end_as_the_server_does_it(case: dict[str, Any]) -> None:
    one, two, three, four, five = (
        (f"authz{number}", member_of({name: [[f"of-{number}"]] if name in LISTS else value for name, value in each.items()}))
        for number, each in enumerate(case["authorizers"], 1)
    )
    inner = union_of([("union2", union_of([one, two])), three])
    outer = union_of([("union1", inner), ("union3", union_of([four])), five])
    assert str(outer) == case["says"]
    truths = {
        f"of-{number}": Result(Truth.TRUE if value is True else Truth.FALSE)
        for number, each in enumerate(case["authorizers"], 1)
        for value in each.values()
    }
    found = decide(outer, lambda each: truths[each.id])
    assert found is not None
    assert found.effect == case["ends"]


def made_of(case: Any) -> Decision:
    if "union" in case:
        return union_of([(f"{place}.example.com", made_of(each)) for place, each in enumerate(case["union"])])
    if "plain" in case:
        return Plain(Effect(case["plain"]), case.get("reason", ""), case.get("error", ""))
    return conditions_map(*(conditions_of(case.get(name, [])) for name in LISTS))


def conditions_of(found: Any) -> list[Condition]:
    if isinstance(found, str):
        return [Condition(f"cond-{number}", "") for number in range(int(found.split()[0]))]
    return [Condition(each, "") if isinstance(each, str) else Condition(each[0], "", each[1]) for each in found]


@pytest.mark.parametrize("case", CONSTRUCTIONS, ids=[str(place) for place in range(len(CONSTRUCTIONS))])
def test_a_decision_is_made_as_the_server_makes_it(case: dict[str, Any]) -> None:
    decision = made_of(case["made"])
    said, wanted = str(decision), case["says"]
    if wanted.endswith("..."):
        assert said.startswith(wanted.removesuffix("..."))
    else:
        assert said == wanted
    if "possible" in case:
        assert sorted(possible(decision)) == case["possible"]


def results(**truths: str) -> Any:
    return lambda condition: Result(Truth(truths.get(condition.id, "unevaluatable")), "broken")


ONE = conditions_map([Condition("d", "")], [], [Condition("a", "")])
TWO = conditions_map([], [Condition("n", "")], [Condition("b", "")])
CHAIN = union_of([("one", ONE), ("two", TWO)])


def test_the_first_allow_or_deny_of_a_chain_wins() -> None:
    assert decide(CHAIN, results(d="false", a="true")) == Plain(Effect.ALLOW, 'condition "a" allowed the request')
    assert decide(CHAIN, results(d="true")) == Plain(Effect.DENY, 'condition "d" denied the request')
    assert decide(CHAIN, results(d="false", a="false", n="false", b="true")) == Plain(
        Effect.ALLOW, 'condition "b" allowed the request'
    )


def test_a_no_opinion_silences_only_its_own_authorizer() -> None:
    found = decide(union_of([("two", TWO), ("one", ONE)]), results(n="true", d="false", a="true"))
    assert found == Plain(Effect.ALLOW, 'condition "a" allowed the request')


def test_the_errors_of_a_chain_without_an_opinion_travel_to_its_end() -> None:
    found = decide(CHAIN, results(d="false", a="error", n="false", b="false"))
    assert found is not None
    assert (found.effect, found.reason) == (
        Effect.NO_OPINION,
        "one: one or more conditional evaluation errors occurred\ntwo: no conditions matched",
    )
    assert found.error == 'condition "a" with effect=Allow evaluated to an error: broken'


def test_a_condition_that_cannot_be_evaluated_leaves_the_chain_open() -> None:
    assert decide(CHAIN, results(d="false")) is None
    assert decide(CHAIN, results(d="true")) == Plain(Effect.DENY, 'condition "d" denied the request')


def test_what_no_condition_may_decide_fails_closed() -> None:
    outcomes = "with possible outcomes [Allow NoOpinion]"
    words = f"failed closed from conditional decision ({outcomes}) to NoOpinion during unconditional authorization"
    assert folded(TWO) == Plain(Effect.NO_OPINION, words)
    assert folded(ONE).effect is Effect.DENY
    assert folded(Plain(Effect.ALLOW)) == Plain(Effect.ALLOW)
