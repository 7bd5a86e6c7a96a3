"""The output of a command: one `Table` or several, rendered as kubectl users expect with `-o`.

A command builds tables and knows nothing of formats; a renderer computes nothing. Results go to standard output, everything else
(progress, notes, errors) to standard error.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TextIO

from pipeline.report.cells import spreadsheet_text, visible
from pipeline.tables import Column, Table

from .tables import text

__all__ = ["Column", "Format", "Table", "render", "text"]
# Rows of a long table on a terminal, without --limit.
LIMIT = 40


class Format(StrEnum):
    """The formats every listing command has; reports have more of their own."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"


def render(tables: Sequence[Table], form: Format, stream: TextIO | None = None, limit: int | None = 0) -> None:
    """Write the tables to `stream` (standard output). JSON, YAML and CSV carry every column, and times as RFC 3339 in UTC.

    CSV holds the first table, the command's answer; standard error says which others there are. `limit` is how many rows of each
    table are written: 0 means all; None means all, except on a terminal.
    """
    out = stream if stream is not None else sys.stdout
    if limit is None:
        limit = LIMIT if form is Format.TABLE and out.isatty() else 0
    tables = [_limited(table, limit) for table in tables]
    match form:
        case Format.JSON:
            json.dump(_as_data(tables), out, indent=2, default=_json_value)
            out.write("\n")
        case Format.YAML:
            from pipeline.report.texts import yaml_text  # no other format needs it

            plain = json.loads(json.dumps(_as_data(tables), default=_json_value))
            out.write(yaml_text([plain]))
        case Format.MARKDOWN:
            out.write("\n".join(_markdown(table) for table in tables))
        case Format.CSV:
            _write_csv(tables[0], out)
            if len(tables) > 1:
                others = ", ".join(table.name for table in tables[1:])
                sys.stderr.write(f"csv holds one table, here {tables[0].name}; {others}: -o json\n")
        case Format.TABLE | Format.WIDE:
            from .layout import Screen, lines_of

            screen = Screen.of(out)
            for table in tables:
                out.write("\n".join([*lines_of(table, screen, wide=form is Format.WIDE), "", ""]))


def _limited(table: Table, limit: int) -> Table:
    """The table with its first rows, and a note on how many more there are."""
    more = len(table.rows) - limit
    if limit == 0 or more <= 0:
        return table
    return replace(
        table, rows=table.rows[:limit], notes=(*table.notes, f"{more:,} more {'row' if more == 1 else 'rows'}: --limit 0 shows all")
    )


def _write_csv(table: Table, out: TextIO) -> None:
    """Every column under its key, values as in JSON, lists with commas; no text that a spreadsheet would run.

    Many readers begin a row at a carriage return, so that is an escape, like all that acts.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(spreadsheet_text(visible(column.key)) for column in table.columns)
    for row in table.rows:
        cells = [_csv_cell(cell) for cell in row]
        writer.writerow(spreadsheet_text(visible(cell)) if isinstance(cell, str) else cell for cell in cells)


def _csv_cell(value: Any) -> object:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_csv_cell(item)) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, (str, int, float)) else _json_value(value)


def _as_data(tables: Sequence[Table]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for table in tables:
        data[table.name] = [dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows]
    notes = [note for table in tables for note in table.notes]
    if notes:
        data["notes"] = notes
    return data


def _json_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}", ""] if table.title else []
    lines.append("| " + " | ".join(_cell(column.title) for column in table.columns) + " |")
    lines.append("|" + "|".join(" ---: " if column.number else " --- " for column in table.columns) + "|")
    for row in table.rows:
        lines.append("| " + " | ".join(_cell(text(cell)) for cell in row) + " |")
    lines.extend(f"\n> {note}" for note in table.notes)
    return visible("\n".join(lines)) + "\n"


def _cell(shown: str) -> str:
    return shown.replace("|", "\\|").replace("\n", "<br>")
