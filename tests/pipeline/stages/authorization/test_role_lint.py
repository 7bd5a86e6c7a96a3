"""Mistakes in roles and bindings, case by case: tests/cases/authorization/lint.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.authorization.lint import lint
from pipeline.stages.authorization.overlay import Proposal
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[3] / "cases" / "authorization" / "lint.yaml"


@pytest.mark.parametrize("case", load_yaml(CASES.read_text()), ids=lambda case: case["name"])
def test_mistakes_are_found(case: dict[str, Any]) -> None:
    files = ((value, "roles.yaml:1") for value in case["files"])
    found = list(lint(Proposal.from_objects(files, case.get("only", False))))
    assert len(found) == len(case["finds"]), found
    for finding, wanted in zip(found, case["finds"], strict=True):
        assert wanted in finding.message
        assert finding.place.startswith("roles.yaml:1: ")
