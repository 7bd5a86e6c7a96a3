"""What a chain may cost: above the limits the answer is unknown, and says so."""

from __future__ import annotations

from pathlib import Path

from pipeline.stages.conditions.logic.proof import Prover
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
