"""The steps of decoding, one at a time: pruning, nulls, defaults; and the promise of list types."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.pruning import drop_nulls, prune, set_defaults
from pipeline.stages.schema.uniqueness import duplicates
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "decoding.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['step']}: {case['name']}")
def test_a_step(case: dict[str, Any]) -> None:
    schema = props_of(case["schema"])
    value = copy.deepcopy(case["value"])
    match case["step"]:
        case "prune":
            assert prune(value, schema, schema.is_embedded_resource) == case.get("removed", [])
        case "nulls":
            drop_nulls(value, schema)
        case "defaults":
            set_defaults(value, schema)
        case "duplicates":
            assert [error.field for error in duplicates(value, schema)] == case["errors"]
    assert value == case.get("becomes", case["value"])
