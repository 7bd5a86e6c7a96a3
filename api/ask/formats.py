"""Rows in the format that a caller wants: JSON, CSV or an Arrow IPC stream, by `format=` or else by the Accept header."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from fastapi import Request
from fastapi.responses import Response

from pipeline.report.spreadsheet_columns import spreadsheet_column

from ..errors import NotAcceptableError
from .json_values import json_bytes, json_document
from .reads import Page


class RowFormat(StrEnum):
    """How rows are written."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


MEDIA_TYPES: Mapping[RowFormat, str] = {
    RowFormat.JSON: "application/json",
    RowFormat.CSV: "text/csv; charset=utf-8",
    RowFormat.ARROW: "application/vnd.apache.arrow.stream",
}
# Columns whose texts are JSON documents. JSON answers hold the documents themselves, CSV and Arrow the texts as they were recorded.
DOCUMENTS = frozenset({"request_object", "response_object", "extra", "user_extra", "impersonated_user"})
_TAKES_ANYTHING = ("*/*", "application/*", "text/html", "application/xhtml+xml")


def chosen_format(request: Request, given: RowFormat | None) -> RowFormat:
    """`format=` if it is given, else the best of the Accept header; JSON if that accepts anything. Raises NotAcceptableError."""
    if given is not None:
        return given
    wanted = _accepted(request.headers.get("accept", ""))
    for media_type in wanted:
        for form, offered in MEDIA_TYPES.items():
            if media_type == offered.partition(";")[0]:
                return form
        if media_type in _TAKES_ANYTHING:
            return RowFormat.JSON
    if not wanted:
        return RowFormat.JSON
    offered_types = ", ".join(offered.partition(";")[0] for offered in MEDIA_TYPES.values())
    raise NotAcceptableError(f"Accept: found {ascii(', '.join(wanted))[:80]}, wanted one of {offered_types}", "or give format=json")


def _accepted(header: str) -> list[str]:
    """Media types in the order of preference (RFC 9110 12.5.1); those with q=0 are left out."""
    ranked = []
    for position, entry in enumerate(header.split(",")):
        media_type, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = next((_quality(text[2:]) for text in parameters if text.startswith("q=")), 1.0)
        if media_type and quality > 0:
            ranked.append((-quality, position, media_type))
    return [media_type for _, _, media_type in sorted(ranked)]


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 1.0
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 1.0


def page_response(request: Request, page: Page, form: RowFormat, **more: Any) -> Response:
    """A page in a format. The next page is named in a Link header (RFC 8288), and in JSON next to the rows, like `more`."""
    headers = {"Vary": "Accept, Authorization"}
    if page.next is not None:
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
        headers["Link"] = f'<{request.url.path}?{urlencode([*kept, ("after", page.next)])}>; rel="next"'
    if form is RowFormat.JSON:
        body = json_bytes({"rows": _plain_rows(page.rows), "next": page.next, **more})
    else:
        body = _WRITERS[form](page.rows)
    return Response(body, headers=headers, media_type=MEDIA_TYPES[form])


def json_response(value: object, status: int = 200) -> Response:
    """Any value of ours as JSON; times are RFC 3339 in UTC."""
    return Response(json_bytes(value), status, media_type=MEDIA_TYPES[RowFormat.JSON])


def _plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = {field.name: _column(field.type, table[field.name]) for field in table.schema}
    for name in DOCUMENTS & columns.keys():
        columns[name] = [json_document(text) for text in columns[name]]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _column(kind: pa.DataType, column: Iterable[Any]) -> list[Any]:
    values = [entry.as_py() for entry in column]
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in values]
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else None for value in values]
    return values


def _csv(table: pa.Table) -> bytes:
    """One header line; lists, maps and structs are JSON in one cell, and no text can act as a formula (see cells.py)."""
    flat = [_flat(field.type, table[field.name]) for field in table.schema]
    out = io.BytesIO()
    pa_csv.write_csv(pa.Table.from_arrays(flat, names=table.schema.names), out)
    return out.getvalue()


def _flat(kind: pa.DataType, column: Any) -> Any:
    if pa.types.is_nested(kind):
        cells = [None if cell is None else json_bytes(cell).decode() for cell in _column(kind, column)]
        return pa.array(cells, pa.string())
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_binary(kind):
        cells = [None if cell.as_py() is None else cell.as_py().decode("utf-8", "replace") for cell in column]
        column = pa.chunked_array([pa.array(cells, pa.string())])
    return spreadsheet_column(column)


def _arrow(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


_WRITERS: Mapping[RowFormat, Callable[[pa.Table], bytes]] = {RowFormat.CSV: _csv, RowFormat.ARROW: _arrow}
