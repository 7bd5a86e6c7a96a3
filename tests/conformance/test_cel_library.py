"""The Kubernetes function libraries against Kubernetes 1.35: 488 expressions of upstream's own tests.

Value, type, error text and cost must be equal. What cannot or should not agree is in cel_library_disagreements.yaml, with its
reason; a listed expression that agrees fails as well.

Costs are compared twice, because the recording of 1.35 ran without Kubernetes' own cost estimator (kubernetes/apiserver
pkg/cel/library/cost.go): once with the estimator's charges left out, against the recording, and once with them, against the costs
that upstream's tests state.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel.checking.names import Names
from pipeline.cel.environment import Environment
from pipeline.cel.errors import CompileError, ProgramError
from pipeline.cel.library import LIBRARIES, lists_ext
from pipeline.cel.standard import COSTS
from pipeline.cel.values import CelError, Opaque, Optional, Value, runtime_type
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

VERSION = (1, 35)
DISAGREEMENTS = Path(__file__).parent / "cel_library_disagreements.yaml"
# What cel-go itself charges more than 1 for, or nothing; everything else in the libraries is priced by Kubernetes' estimator.
PRICED_BY_CEL_GO = {"format", "strings.quote", "or", "orValue", "sets.contains", "sets.equivalent", "sets.intersects"}
PRICED_BY_CEL_GO |= {"slice", "flatten", "lists.range", "reverse", "distinct", "sort", "@sortByAssociatedKeys"}
# Upstream's cost tests do not fold constants as a server does: each literal list and map costs what it costs to build.
LITERAL_COST = {"[": 10, "{": 30}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def recorded(shared: Path) -> list[dict[str, Any]]:
    return read_lines(shared / "corpora" / "kubernetes-apiserver" / "library_eval_1.35.jsonl")


@pytest.fixture(scope="module")
def stated(shared: Path) -> dict[str, int]:
    """The run-time costs that upstream's tests state, by case."""
    found = {}
    for case in read_lines(shared / "corpora" / "kubernetes-apiserver" / "library_exprs.jsonl"):
        for field, text in case["expectRaw"]:
            if field == "expectRuntimeCost" and (number := re.match(r"\d+", text)):
                found[case["id"]] = int(number[0])
    return found


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment(VERSION)


@pytest.fixture(scope="module")
def unpriced() -> Environment:
    """The same environment without what Kubernetes' estimator charges."""
    environment = copy.copy(Environment(VERSION))
    library_names = {function.name for library in LIBRARIES for function in library.functions}
    functions = {
        name: replace(function, cost=None) if name in library_names - PRICED_BY_CEL_GO else function
        for name, function in environment.names.functions.items()
    }
    prices = {**COSTS, **lists_ext.COSTS}
    environment.names = Names(functions, frozenset(), environment.names.types, environment.names.dot_is_root, prices)
    return environment


@pytest.fixture(scope="module")
def listed() -> dict[str, str]:
    return load_yaml(DISAGREEMENTS.read_text()) or {}


def plain(value: Value) -> Any:
    """A value as the recording writes it: library types have none."""
    if isinstance(value, Optional):
        return plain(value.value) if value.has_value else None
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return None if isinstance(value, Opaque) else value


def outcome(environment: Environment, case: dict[str, Any]) -> dict[str, Any]:
    """What this project makes of an expression, in the recording's words."""
    try:
        program = environment.compile(case["expr"])
    except (CompileError, ProgramError) as problem:
        return {"refused": str(problem)}
    result, cost = program.evaluate_with_cost({})
    assert shown(program.evaluate({}), case) == shown(result, case), "the tiers of the engine disagree"
    return {**shown(result, case), "cost": cost}


def shown(result: Value, case: dict[str, Any]) -> dict[str, Any]:
    if isinstance(result, CelError):
        return {"error": result.message}
    text = {"string": str(result)} if "string" in case else {}
    return {"value": plain(result), "type": runtime_type(result).name, **text}


def expected(case: dict[str, Any]) -> dict[str, Any]:
    if "error" in case:
        return {"error": case["error"], "cost": case["cost"]}
    text = {"string": case["string"]} if "string" in case else {}
    return {"value": case.get("value"), "type": case["type"], "cost": case["cost"], **text}


def test_every_expression_gives_what_kubernetes_gives(
    unpriced: Environment, recorded: list[dict[str, Any]], listed: dict[str, str]
) -> None:
    evaluated = [case for case in recorded if "compileError" not in case]
    outcomes = {case["id"]: outcome(unpriced, case) for case in evaluated}
    different = {case["id"]: case for case in evaluated if outcomes[case["id"]] != expected(case)}
    kinds = Counter("error" if "error" in case else "value" for case in evaluated)
    print()
    for label, count in [
        *sorted(kinds.items()),
        ("refused", len(recorded) - len(evaluated)),
        ("differ", len(different)),
        ("listed", len(listed)),
    ]:
        print(f"{label:8} {count:4}")
    unlisted = [
        f"{case['expr']}\n  got  {outcomes[id_]}\n  want {expected(case)}" for id_, case in different.items() if id_ not in listed
    ]
    assert not unlisted, "\n".join(unlisted)
    assert listed.keys() <= different.keys(), f"these agree now, unlist them: {sorted(listed.keys() - different.keys())}"
    assert len(recorded) == 488


def test_syntax_errors_are_refused(environment: Environment, recorded: list[dict[str, Any]]) -> None:
    wrong = [case for case in recorded if "Syntax error" in case.get("compileError", "")]
    assert wrong
    for case in wrong:
        with pytest.raises(CompileError) as problem:
            environment.compile(case["expr"])
        assert str(problem.value) == case["compileError"]


def test_costs_are_those_that_upstreams_tests_state(
    environment: Environment, recorded: list[dict[str, Any]], stated: dict[str, int]
) -> None:
    compared = 0
    for case in recorded:
        if case["id"] not in stated or "compileError" in case:
            continue
        found = outcome(environment, case)
        literals = sum(case["expr"].count(char) * cost for char, cost in LITERAL_COST.items())
        # The accumulators of comprehensions are literals too; how many, the recording says.
        folded = stated[case["id"]] - case["cost"] if "transform" in case["expr"] else literals
        assert found["cost"] + folded == stated[case["id"]], case["expr"]
        compared += 1
    assert compared > 70
