"""The CEL specification's tests as Kubernetes 1.35 answers them: 2,456 expressions.

Every value, runtime error, rejection, static type and cost must be equal, and the tiers of the engine must agree with each other.
What differs is in cel_spec_disagreements.yaml, with its reason; a listed difference that is gone fails as well. The recording was
made without Kubernetes' own cost estimator (kubernetes/apiserver pkg/cel/library/cost.go), so its charges are left out here.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel import CelError, CompileError, Environment, ProgramError
from pipeline.cel.checking.names import Names
from pipeline.cel.evaluation.conversions import to_string
from pipeline.cel.library import LIBRARIES, lists_ext
from pipeline.cel.standard import COSTS
from pipeline.cel.types import Type
from pipeline.cel.values import CelMap, Opaque, Optional, UInt, runtime_type
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

VERSION = (1, 35)
DISAGREEMENTS = Path(__file__).parent / "cel_spec_disagreements.yaml"
ASPECTS = ("value", "error", "rejection", "type", "cost")
# What cel-go itself charges something else than 1 for; everything else in the libraries is priced by Kubernetes' estimator.
PRICED_BY_CEL_GO = {"format", "strings.quote", "or", "orValue", "sets.contains", "sets.equivalent", "sets.intersects"}
PRICED_BY_CEL_GO |= {"slice", "flatten", "lists.range", "reverse", "distinct", "sort", "@sortByAssociatedKeys"}


@pytest.fixture(scope="module")
def environment() -> Environment:
    environment = copy.copy(Environment(VERSION))
    names = {function.name for library in LIBRARIES for function in library.functions} - PRICED_BY_CEL_GO
    functions = {
        name: replace(function, cost=None) if name in names else function for name, function in environment.names.functions.items()
    }
    prices = {**COSTS, **lists_ext.COSTS}
    environment.names = Names(functions, frozenset(), environment.names.types, environment.names.dot_is_root, prices)
    return environment


def test_every_line_is_answered_as_kubernetes_answers_it(shared: Path, environment: Environment) -> None:
    listed: Mapping[str, Mapping[str, str]] = load_yaml(DISAGREEMENTS.read_text()) or {}
    lines = (shared / "corpora" / "cel-spec" / "k8s-1.35-eval.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2456
    agreed: Counter[tuple[str, str]] = Counter()
    compared: Counter[tuple[str, str]] = Counter()
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        case = json.loads(line)
        section = case["id"].partition("/")[0]
        for aspect, (ours, theirs) in answers(environment, case).items():
            compared[section, aspect] += 1
            if same(ours, theirs):
                agreed[section, aspect] += 1
            else:
                found.setdefault(case["id"], {})[aspect] = f"{case['expr']!r}: {ours!r} here, {theirs!r} in Kubernetes"
    sys.stdout.write(table(compared, agreed))
    unlisted = {id_: aspects for id_, aspects in found.items() if aspects.keys() - listed.get(id_, {}).keys()}
    gone = {id_: aspects for id_, aspects in listed.items() if aspects.keys() - found.get(id_, {}).keys()}
    assert not unlisted, f"{len(unlisted)} disagreements that are not in {DISAGREEMENTS.name}: {unlisted}"
    assert not gone, f"these agree now; take them out of {DISAGREEMENTS.name}: {gone}"


def answers(environment: Environment, case: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is compared of a line, by aspect: ours and Kubernetes'."""
    try:
        program = environment.compile(case["expr"])
    except ProgramError as problem:
        return {"error": (str(problem), case.get("programError"))}
    except CompileError as problem:
        return {"rejection": (str(problem), case.get("compileError"))}
    if "compileError" in case:
        return {"rejection": (None, case["compileError"])}
    result, cost = program.evaluate_with_cost({})
    for other in (program.evaluate({}), program.evaluate_exactly({})):
        assert repr(other) == repr(result), f"the tiers disagree on {case['expr']!r}"
    compared: dict[str, tuple[Any, Any]] = {"type": (str(program.result_type), case["staticType"])}
    if isinstance(result, CelError) or "value" not in case:
        shown = result.message if isinstance(result, CelError) else text_of_value(result, case)
        compared["error" if "string" not in case else "value"] = (
            shown,
            case.get("error", case.get("programError", case.get("string"))),
        )
    else:
        compared["value"] = ((runtime_type(result).name, plain(result)), (case["type"], case["value"]))
    if "cost" in case:
        compared["cost"] = (cost, case["cost"])
    return compared


def text_of_value(result: Any, case: Mapping[str, Any]) -> Any:
    """A value as the recording writes what JSON cannot hold; None where it says nothing but the type."""
    if "string" not in case:
        return None
    if isinstance(result, Type):
        return result.name
    return to_string(result) if isinstance(result, float) else str(result)


def plain(value: Any) -> Any:
    """A value as the recording writes it: JSON, bytes in base64, library types as nothing."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, CelMap):
        return {str(plain(key)): plain(each) for key, each in value.entries.values()}
    if isinstance(value, Optional):
        return plain(value.value) if value.has_value else None
    return None if isinstance(value, Opaque) else value


def same(ours: Any, theirs: Any) -> bool:
    """Equal, with integers beyond 2**53 as the recording writes them: as text, and doubles with the digits of JavaScript."""
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, int):
        return ours == float(theirs)
    if isinstance(ours, int) and isinstance(theirs, str):
        return str(ours) == theirs
    return bool(ours == theirs)


def table(compared: Counter[tuple[str, str]], agreed: Counter[tuple[str, str]]) -> str:
    """Per section, how many of each aspect agree out of how many."""
    sections = sorted({section for section, _ in compared})
    rows = [f"\n{'section':20}" + "".join(f"{aspect:>14}" for aspect in ASPECTS)]
    for section in [*sections, "total"]:
        cells = []
        for aspect in ASPECTS:
            keys = [key for key in compared if key[1] == aspect and section in (key[0], "total")]
            of = sum(compared[key] for key in keys)
            cells.append(f"{sum(agreed[key] for key in keys)}/{of}" if of else "-")
        rows.append(f"{section:20}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(rows) + "\n"
