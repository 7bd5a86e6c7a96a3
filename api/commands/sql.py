"""`hindcast sql`: a SELECT over the views of the lake, in every output format."""

from __future__ import annotations

import math
import sys
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table


_NUMBERS = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "HUGEINT", "DOUBLE", "FLOAT", "DECIMAL", "UBIGINT", "UINTEGER", "NUMBER")


def command(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="[SELECT]", help="One SELECT, or - for standard input. Without it: the views.")
    ] = "",
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> None:
    """Ask the views of the lake with SQL (DuckDB's). It reads the lake alone, and changes nothing.

    The data dictionary in the documentation describes the views and their columns; so do `hindcast sql` without a SELECT, and
    `hindcast sql "DESCRIBE requests"`.
    """
    from api.confined_sql import asked
    from api.printing.output import LIMIT, Column, Table, render
    from ingest.acting import one_line
    from ingest.lake import Lake
    from queries.lake import MEMORY_BYTES_MAX

    own: Context = context.obj
    if not text:
        Lake.open(own.lake).close()
        render([_views()], output, limit=limit)
        return
    with asked(own.lake, sys.stdin.read() if text == "-" else text, own.memory_bytes_max or MEMORY_BYTES_MAX) as answer:
        described = answer.description or ()
        shown = limit if limit is not None else LIMIT if output is Format.TABLE and sys.stdout.isatty() else 0
        # One row more than is shown says that there are more.
        found = answer.fetchmany(shown + 1) if shown else answer.fetchall()
    notes = ("there are more rows: --limit 0 shows all",) if 0 < shown < len(found) else ()
    columns = [Column(name, one_line(name), number=str(kind).startswith(_NUMBERS)) for name, kind, *_ in described]
    if len(names := [column.key for column in columns]) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two columns have the name {twice!r}", "name them with AS")
    rows = [[_plain(cell) for cell in row] for row in (found[:shown] if shown else found)]
    render([Table("rows", columns, rows, notes=notes)], output)


def _views() -> Table:
    """One row per view, with what one of its rows is."""
    from api.printing.output import Column, Table
    from queries.catalog import statements

    views = sorted((each.name, each.promise) for each in statements() if each.kind == "view")
    return Table("views", [Column("view"), Column("rows", "WHAT IT HAS", prose=True)], views, "Views")


def _plain(value: Any) -> Any:
    """A cell that every format can write: numbers, texts, times; maps and structs as JSON texts."""
    from decimal import Decimal

    from pipeline.report.texts import json_text

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return json_text(_nested(value))
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (date, time, timedelta)) and not isinstance(value, datetime):
        return str(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _nested(value: Any) -> Any:
    """The values within a map or struct."""
    if isinstance(value, dict):
        return {str(key): _nested(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_nested(each) for each in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(_plain(value))
