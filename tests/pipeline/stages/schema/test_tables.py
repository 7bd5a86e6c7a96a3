"""The single steps of decoding and validation: tests/cases/schema/tables.yaml."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.schema.correlation import Correlated
from pipeline.stages.schema.metadata import coerce, embedded_errors
from pipeline.stages.schema.props import Props, props_of
from pipeline.stages.schema.pruning import drop_nulls, prune, set_defaults
from pipeline.stages.schema.rule_run import run_rules
from pipeline.stages.schema.rules import compile_rules
from pipeline.stages.schema.uniqueness import duplicates
from tests.yaml_text import load_yaml

TABLES: dict[str, list[dict[str, Any]]] = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "tables.yaml").read_text())
RESOURCE: dict[str, Any] = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = props_of(
    {
        "properties": {
            "one": {**RESOURCE, "properties": {"two": RESOURCE}},
            "many": {"type": "array", "items": RESOURCE},
            "named": {"type": "object", "additionalProperties": RESOURCE},
        }
    }
)


def cases(table: str) -> Any:
    return pytest.mark.parametrize("case", TABLES[table], ids=lambda case: case["name"])


def schema_of(case: dict[str, Any]) -> Props | None:
    return None if case["schema"] is None else props_of(case["schema"])


@cases("prune")
def test_unknown_fields_are_removed(case: dict[str, Any]) -> None:
    value = copy.deepcopy(case["value"])
    assert prune(value, schema_of(case), case.get("root", False)) == case.get("removed", [])
    assert value == case.get("after", case["value"])


@cases("default")
def test_defaults_are_set(case: dict[str, Any]) -> None:
    value = copy.deepcopy(case["value"])
    set_defaults(value, schema_of(case))
    assert value == case.get("after", case["value"])


@cases("nulls")
def test_nulls_are_dropped(case: dict[str, Any]) -> None:
    value = copy.deepcopy(case["value"])
    drop_nulls(value, schema_of(case))
    assert value == case.get("after", case["value"])


@cases("lists")
def test_lists_keep_their_promise(case: dict[str, Any]) -> None:
    assert [each.field for each in duplicates(case["value"], schema_of(case))] == case["errors"]


@cases("embedded")
def test_embedded_resources_have_metadata(case: dict[str, Any]) -> None:
    value, unknown = copy.deepcopy(case["value"]), list[str]()
    refused = coerce(value, EMBEDDED, "", unknown, case.get("stored", False))
    assert (refused is None) == ("refused" not in case)
    if "refused" in case:
        assert case["refused"] in str(refused)
        return
    if "errors" in case:
        assert sorted(each.field for each in embedded_errors(value, EMBEDDED)) == sorted(case["errors"])
        return
    assert value == case["after"]
    assert sorted(unknown) == case.get("unknown", [])


@cases("correlation")
def test_old_and_new_values_pair(case: dict[str, Any]) -> None:
    schema = schema_of(case)
    assert schema is not None
    pair: Correlated | None = Correlated(case["new"], case["old"], schema)
    for step in case["path"]:
        if pair is None:
            break
        pair = pair.index(step) if isinstance(step, int) else pair.key(step)
    assert ("none" if pair is None else pair.old) == case["pairs"]


@cases("equality")
def test_equality_is_that_of_the_schema(case: dict[str, Any]) -> None:
    schema = schema_of(case)
    assert schema is not None
    assert Correlated(case["new"], case["old"], schema).is_equal is case["equal"]


@cases("ratcheting")
def test_rules_are_ratcheted(case: dict[str, Any]) -> None:
    schema = props_of({"type": "object", **case["schema"]})
    rules = compile_rules(schema, (1, 36))
    assert rules is not None
    found = run_rules(rules, case["new"], case["old"], Correlated(case["new"], case["old"], schema))
    assert sorted(each.field for each in found.errors) == case.get("errors", [])
    assert sorted(each.field for each in found.warnings) == case.get("warnings", [])
