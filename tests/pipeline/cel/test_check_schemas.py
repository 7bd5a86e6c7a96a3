"""Types from schemas: cases as data, and the sizes that costs are estimated from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cel import CompileError, Environment
from pipeline.cel.checking.schema_types import REQUEST_BYTES_MAX, escape, resolved, schema_type
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "cel" / "check" / "schemas.yaml"


def cases() -> list[Any]:
    return [
        pytest.param(entry["schema"], expression, wanted, id=f"{number}:{expression}")
        for number, entry in enumerate(load_yaml(CASES.read_text()))
        for expression, wanted in entry["expressions"].items()
    ]


@pytest.mark.parametrize(("schema", "expression", "wanted"), cases())
def test_case(schema: dict[str, Any], expression: str, wanted: str | list[str]) -> None:
    root = schema_type(schema, "Thing")
    assert root is not None
    environment = Environment((1, 36), {"object": root.type}, tuple(root.object_types()))
    found: str | list[str]
    try:
        found = str(environment.compile(expression).result_type)
    except CompileError as refusal:
        found = [f"{issue.line}:{issue.column + 1} {issue.message}" for issue in refusal.issues]
    assert found == wanted


@pytest.mark.parametrize(
    ("schema", "bytes_min", "elements_max"),
    [
        ({"type": "boolean"}, 4, None),
        ({"type": "string"}, 2, REQUEST_BYTES_MAX - 2),
        ({"type": "string", "maxLength": 10}, 2, 40),
        ({"type": "string", "enum": ["a", "éé"]}, 2, 4),
        ({"type": "string", "enum": ["a"], "maxLength": 3}, 2, 12),
        ({"type": "string", "format": "byte", "maxLength": 10}, 2, 10),
        ({"type": "string", "format": "date-time"}, 21, 32),
        ({"type": "array", "items": {"type": "integer"}}, 2, (REQUEST_BYTES_MAX - 2) // 2),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 7}, 2, 7),
        ({"type": "object", "additionalProperties": {"type": "string"}}, 2, (REQUEST_BYTES_MAX - 2) // 8),
        ({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": -1}, 2, 0),
        ({"type": "object", "required": ["ab"], "properties": {"ab": {"type": "integer"}, "c": {"type": "string"}}}, 9, None),
        ({"type": "object", "required": ["ab"], "properties": {"ab": {"type": "integer", "default": 1}}}, 2, None),
    ],
)
def test_sizes(schema: dict[str, Any], bytes_min: int, elements_max: int | None) -> None:
    found = schema_type(schema, "Thing", is_resource_root=False)
    assert found is not None
    assert (found.bytes_min, found.elements_max) == (bytes_min, elements_max)


def test_references_are_replaced_and_circles_end() -> None:
    definitions: dict[str, Any] = {
        "#/node": {"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/node"}]}, "text": {"$ref": "#/text"}}},
        "#/text": {"type": "string"},
    }
    found = resolved({"type": "array", "items": {"$ref": "#/node"}}, definitions)
    assert found["items"]["properties"] == {"next": {"type": "object"}, "text": {"type": "string"}}


def test_a_reference_to_nothing() -> None:
    with pytest.raises(KeyError):
        resolved({"$ref": "#/gone"}, {})


@given(st.text(alphabet="a_.-/1", min_size=1, max_size=8), st.text(alphabet="a_.-/1", min_size=1, max_size=8))
def test_escaped_names_are_names_and_differ(one: str, other: str) -> None:
    escaped = escape(one)
    assert (escaped is None) is one[0].isdigit()
    if escaped is not None:
        assert escaped.isidentifier()
        assert one == other or escaped != escape(other)
