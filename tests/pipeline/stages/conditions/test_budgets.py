"""What a chain may cost: above the limits the answer is unknown, and says so."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.conditions.logic.proof import Outcome, Prover
from pipeline.stages.conditions.logic.steps import OVER_QUESTION, RUN_STEPS, RUN_STEPS_EACH, TOO_HARD
from pipeline.stages.conditions.logic.steps import OVER_RUN as STEPS_OVER_RUN
from pipeline.stages.conditions.logic.suggest import suggestions
from pipeline.stages.conditions.spending import OVER_BUDGET, OVER_LIMIT, OVER_RUN

from .test_proofs import asked_for
from .test_stage import judged, lake

__all__ = ["lake"]
LOOPS = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"
ALLOW = {"conditions": [{"id": "c", "effect": "Allow", "condition": "true"}]}


def test_a_when_that_costs_too_much_leaves_the_answer_open(lake: Path) -> None:
    _, found = judged(lake, [{"name": "a", "when": f'request.verb == "delete" && {LOOPS}', **ALLOW}])
    assert found["id-20"]["why"] == f"authorizer a: its when cannot be evaluated: {OVER_LIMIT}"
    assert found["id-0"]["decision"] == "deny"


def test_a_condition_that_costs_too_much_leaves_the_answer_open(lake: Path) -> None:
    conditions = [{"id": "c", "effect": "Allow", "condition": f'object.spec.storageClassName == "prod" && {LOOPS}'}]
    _, found = judged(lake, [{"name": "a", "conditions": conditions}])
    assert found["id-14"]["why"] == OVER_LIMIT
    asked, selection = asked_for([{"name": "a", "conditions": [{**conditions[0], "condition": LOOPS}]}], "/api/v1/secrets", "")
    proof = Prover().proof_of(asked, selection)
    assert proof.why.startswith(f"condition c: {OVER_LIMIT}")


def test_the_expressions_of_a_run_share_a_budget() -> None:
    asked, _ = asked_for([{"name": "a", "semantics": "cel", **ALLOW}], "/api/v1/secrets", "")
    asked.chain.run.left = 0
    assert asked.on({"object": {}}) is not None  # what is cheap is not counted
    costly, _ = asked_for([{"name": "a", "conditions": [{"id": "c", "effect": "Allow", "condition": LOOPS}]}], "/api/v1/x", "")
    costly.chain.run.left = 10_000
    assert costly.open_of({"object": {}}) == (OVER_RUN,)


def test_the_conditions_of_one_request_share_a_budget() -> None:
    looped = LOOPS.replace("1000", "91", 1).replace("1000", "91", 1).replace("1000", "91", 1)
    conditions = [{"id": f"c{at}", "effect": "Deny", "condition": f"{looped} && object.x == {at}"} for at in range(16)]
    asked, _ = asked_for([{"name": "a", "semantics": "cel", "conditions": conditions}], "/api/v1/secrets", "")
    assert OVER_BUDGET in asked.open_of({"object": {"x": 100}})


def holes(count: int) -> list[dict[str, Any]]:
    """Conditions that allow every object unless one more pigeon than there are holes sits in each alone."""
    sits = [[f'object.metadata.labels.p{pigeon}h{hole} == "1"' for hole in range(count)] for pigeon in range(count + 1)]
    clauses = [" || ".join(each) for each in sits]
    clauses += [f"!({one[hole]} && {two[hole]})" for hole in range(count) for at, one in enumerate(sits) for two in sits[:at]]
    parts = [clauses[at : at + 40] for at in range(0, len(clauses), 40)]
    return [
        {"id": f"a{at}", "effect": "Allow", "condition": " || ".join(f"!({each})" for each in part)}
        for at, part in enumerate(parts)
    ]


def test_the_solver_has_a_budget_for_a_check_a_question_and_a_run() -> None:
    asked, selection = asked_for([{"name": "a", "conditions": holes(11)}], "/api/v1/secrets", "")
    prover = Prover(steps_max=300_000)
    assert prover.proof_of(asked, selection).why == TOO_HARD
    easy, _ = asked_for([{"name": "a", "conditions": holes(3)}], "/api/v1/secrets", "")
    with prover.steps.within(10):
        assert prover.proof_of(easy, selection).why == OVER_QUESTION
    # What is left of a run is what its other questions did not take.
    spent = Prover()
    spent.steps.spend(RUN_STEPS + RUN_STEPS_EACH)
    assert spent.proof_of(easy, selection).why == STEPS_OVER_RUN
    assert Prover().proof_of(easy, selection).outcome is Outcome.PROVED


def test_a_search_for_selectors_ends() -> None:
    keys = (f"k{number}" for number in range(2_000))
    conditions = [
        {"id": f"c{at}", "effect": "Allow", "condition": " || ".join(f'object.metadata.labels.{key} == "v"' for key in some)}
        for at, some in enumerate(iter(lambda: list(islice(keys, 100)), []))
    ]
    asked, selection = asked_for([{"name": "a", "conditions": conditions}], "/api/v1/secrets", "")
    prover = Prover()
    given = suggestions(prover, asked, asked.authorized(), selection, ("", "secrets"))
    assert not given.is_complete
    assert prover.steps.left > 0


def test_a_condition_in_conditions_does_not_grow_without_bound() -> None:
    nested = 'object.metadata.labels.a == "x"'
    for number in range(30):
        nested = f'({nested}) ? object.metadata.labels.b == "{number}" : object.metadata.labels.c == "{number}"'
    asked, selection = asked_for(
        [{"name": "a", "conditions": [{"id": "c", "effect": "Allow", "condition": nested}]}], "/api/v1/x", ""
    )
    assert "too large" in Prover().proof_of(asked, selection).why


def test_a_condition_may_be_deep() -> None:
    deep = 'object.metadata.labels.a == "x"'
    for number in range(100):
        deep = f'({deep} {"&& object.metadata.labels.a" if number % 2 else "|| object.metadata.labels.b"} == "x")'
    asked, selection = asked_for(
        [{"name": "a", "conditions": [{"id": "c", "effect": "Allow", "condition": deep}]}], "/api/v1/x", ""
    )
    proof = Prover().proof_of(asked, selection)
    assert "nested" in proof.why
    assert asked.may_allow({"object": {"metadata": {"labels": {"a": "x"}}}})


@pytest.mark.parametrize("effect", ["Allow", "Deny"])
def test_a_chain_may_be_long(effect: str) -> None:
    condition = {"id": "c", "effect": effect, "condition": 'object.metadata.labels.a == "x"'}
    other = {"id": "d", "effect": "Allow", "condition": 'object.metadata.labels.b == "x"'}
    authorizers = [{"name": f"a{number}", "conditions": [condition, other]} for number in range(1_000)]
    asked, selection = asked_for(authorizers, "/api/v1/secrets", "b=x,a=y")
    proof = Prover().proof_of(asked, selection)
    assert proof.outcome is Outcome.PROVED or "nested" in proof.why
