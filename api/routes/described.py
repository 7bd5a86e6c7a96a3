"""The OpenAPI description of rows: their columns, taken from their definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from queries.catalog import statements

from ..ask.formats import DOCUMENTS, MEDIA_TYPES, RowFormat

_STATEMENTS = {statement.name: statement for statement in statements()}
_SIMPLE: tuple[tuple[Any, dict[str, Any]], ...] = (
    (pa.types.is_boolean, {"type": "boolean"}),
    (pa.types.is_integer, {"type": "integer"}),
    (pa.types.is_floating, {"type": "number"}),
    (pa.types.is_timestamp, {"type": "string", "format": "date-time"}),
    (pa.types.is_map, {"type": "object"}),
    (pa.types.is_struct, {"type": "object"}),
    (pa.types.is_list, {"type": "array", "items": {}}),
)


def rows_described(name: str, row: type | pa.Schema | None = None) -> dict[int | str, dict[str, Any]]:
    """A page of rows of a view or macro, in every format; `row` is the class or the schema of a row, if it has one."""
    statement = _STATEMENTS[name]
    return page_described(statement.promise, _columns(row, statement.names))


def page_described(promise: str, row: Mapping[str, Any]) -> dict[int | str, dict[str, Any]]:
    """The same for rows of any JSON schema."""
    body = {
        "type": "object",
        "required": ["rows", "next"],
        "properties": {
            "rows": {"type": "array", "items": row, "description": promise},
            "next": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "`after` of the next page; null at the end"},
        },
    }
    content: dict[str, Any] = {MEDIA_TYPES[RowFormat.JSON]: {"schema": body}}
    for form in (RowFormat.CSV, RowFormat.ARROW):
        content[MEDIA_TYPES[form].partition(";")[0]] = {"schema": {"type": "string", "format": "binary"}}
    link = {"description": 'the next page, rel="next"', "schema": {"type": "string"}}
    return {200: {"description": promise, "content": content, "headers": {"Link": link}}}


def schema_of(schema: pa.Schema) -> dict[str, Any]:
    """The JSON schema of rows of an Arrow schema."""
    return {"type": "object", "properties": {field.name: _type_of(field) for field in schema}}


def _columns(row: type | pa.Schema | None, descriptions: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(row, pa.Schema):
        described = schema_of(row)
    elif row is not None:
        described = TypeAdapter(row).json_schema()
        # A page may leave out large columns.
        described.pop("required", None)
    else:
        described = {"type": "object", "properties": {name: {} for name in descriptions}}
    for name, text in descriptions.items():
        if name in described["properties"]:
            described["properties"][name]["description"] = text
    return described


def _type_of(field: pa.Field[Any]) -> dict[str, Any]:
    if field.name in DOCUMENTS:
        return {"description": "the recorded JSON document; in CSV and Arrow its text"}
    found = next((schema for fits, schema in _SIMPLE if fits(field.type)), {"type": "string"})
    return {"anyOf": [dict(found), {"type": "null"}]} if field.nullable else dict(found)
