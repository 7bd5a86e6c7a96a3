"""The rules of the built-in validation, and which changes they know."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.request import GroupVersionResource
from pipeline.stages.chain.validation.checked import checked
from pipeline.stages.chain.validation.rule import Written
from pipeline.stages.mutating.taken import Doubt

CASES = yaml.safe_load(Path("tests/cases/chain/validation.yaml").read_text())


def changed(value: Any, path: str, new: Any) -> Any:
    """A copy with another value at a path; numbers are entries of lists, and one behind the last is added."""
    found = copy.deepcopy(value)
    place = found
    *parents, last = path.split(".")
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
    if not isinstance(place, list):
        place[last] = new
    elif int(last) == len(place):
        place.append(new)
    else:
        place[int(last)] = new
    return found


def resource(text: str) -> GroupVersionResource:
    name, _, group = text.partition(".")
    return GroupVersionResource(group, "v1", name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_errors_are_those_of_the_server(case: dict[str, Any]) -> None:
    after = case["object"]
    for path, value in case["change"].items():
        after = changed(after, path, value)
    found = checked(resource(case["resource"]), Written(case["object"], after, case.get("old")), [])
    assert len(found.errors) == len(case["errors"])
    for error, expected in zip(map(str, found.errors), case["errors"], strict=True):
        begins = expected.removesuffix("...")
        assert error == expected or (begins != expected and error.startswith(begins))


def test_a_field_that_no_rule_knows_stays_in_doubt() -> None:
    before = {"spec": {"parallelism": 1}}
    after = {"spec": {"parallelism": 9}}
    doubt = Doubt("spec", "not replayed")
    assert checked(resource("jobs.batch"), Written(before, after, None), [doubt]).doubts == [doubt]
    both = {"spec": {"parallelism": 9, "backoffLimit": 3}}
    assert checked(resource("jobs.batch"), Written(before, both, None), [doubt]).doubts == [doubt]
    known = {"spec": {"parallelism": 1, "backoffLimit": 3}}
    assert checked(resource("jobs.batch"), Written(before, known, None), [doubt]).doubts == []
