"""What a command prints: one `Table` (or several), rendered as kubectl users expect with `-o`.

A command builds tables and knows nothing of formats; a renderer computes nothing. Results go to standard output, everything else
(progress, notes on the way, errors) to standard error.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TextIO

import yaml
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from pipeline.report.cells import spreadsheet_text, visible


class Format(StrEnum):
    """The formats every listing command has; reports have more of their own."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names the field in JSON; `heading` the column. `wide` columns only show with `-o wide` and in data formats."""

    key: str
    heading: str = ""
    wide: bool = False
    number: bool = False

    @property
    def title(self) -> str:
        return self.heading or self.key.replace("_", " ").upper()


@dataclass(frozen=True)
class Table:
    """Rows under columns, with the sentences that a reader must not miss (`notes`)."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


def render(tables: Sequence[Table], form: Format, stream: TextIO | None = None) -> None:
    """Write the tables to `stream` (standard output). JSON, YAML and CSV carry every column, and times as RFC 3339 in UTC.

    CSV holds the first table, the command's answer; standard error says which others there are.
    """
    out = stream if stream is not None else sys.stdout
    match form:
        case Format.JSON:
            json.dump(_as_data(tables), out, indent=2, default=_json_value)
            out.write("\n")
        case Format.YAML:
            plain = json.loads(json.dumps(_as_data(tables), default=_json_value))
            yaml.safe_dump(plain, out, sort_keys=False, allow_unicode=True)
        case Format.MARKDOWN:
            out.write("\n".join(_markdown(table) for table in tables))
        case Format.CSV:
            _write_csv(tables[0], out)
            if len(tables) > 1:
                others = ", ".join(table.name for table in tables[1:])
                sys.stderr.write(f"csv holds one table, here {tables[0].name}; {others}: -o json\n")
        case Format.TABLE | Format.WIDE:
            console = Console(file=out, soft_wrap=False, highlight=False, width=None if out.isatty() else 200)
            for table in tables:
                _print(console, table, wide=form is Format.WIDE)


def _write_csv(table: Table, out: TextIO) -> None:
    """Every column under its key, values as in JSON, lists with commas; no text that a spreadsheet would run."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    for row in table.rows:
        cells = [_csv_cell(cell) for cell in row]
        writer.writerow(spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in cells)


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


def _shown(table: Table, wide: bool) -> list[int]:
    return [index for index, column in enumerate(table.columns) if wide or not column.wide]


def text(value: Any) -> str:
    """One cell as a person reads it: nothing for null, times to the second in UTC, lists with commas, ratios with three digits."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text, value))
    return str(value)


def _print(console: Console, table: Table, wide: bool) -> None:
    if table.title:
        console.print(Text(table.title, style="bold"))
    if table.rows:
        grid = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        shown = _shown(table, wide)
        for index in shown:
            column = table.columns[index]
            grid.add_column(column.title, justify="right" if column.number else "left", overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(_printable(text(row[index]))) for index in shown))
        console.print(grid)
    else:
        console.print("none")
    for note in table.notes:
        console.print(Text(f"note: {note}", style="dim"))
    console.print()


def _printable(cell: str) -> str:
    """A cell without what could write elsewhere on a terminal, or in another direction: clients choose names, and are logged."""
    if cell.isprintable():
        return cell
    return "".join(sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode() for sign in cell)


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}", ""] if table.title else []
    lines.append("| " + " | ".join(column.title for column in table.columns) + " |")
    lines.append("|" + "|".join(" ---: " if column.number else " --- " for column in table.columns) + "|")
    for row in table.rows:
        lines.append("| " + " | ".join(text(cell).replace("|", "\\|").replace("\n", "<br>") for cell in row) + " |")
    lines.extend(f"\n> {note}" for note in table.notes)
    return visible("\n".join(lines)) + "\n"
