"""Tables and charts as one page that opens offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from ingest.counted import counted
from pipeline.report.cells import visible
from pipeline.report.over_time import section
from pipeline.stages.over_time import OverTime
from pipeline.tables import Column, Table

from .tables import text

_ROWS_MAX = 40


def page(title: str, parts: Sequence[Table | OverTime | None]) -> str:
    """The whole page, without charts that count nothing. Texts of the log are escaped here, and in charts by their drawer."""
    style = files("pipeline.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    body = "\n".join(line for number, part in enumerate(parts) for line in _part(number, part))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>\n'
        f"<body><main>\n<h1>{_text(title)}</h1>\n{body}\n</main></body></html>\n"
    )


def _part(number: int, part: Table | OverTime | None) -> Iterator[str]:
    if isinstance(part, OverTime):
        yield section(f"chart-{number}", part)
    elif part is not None:
        yield f"<h2>{_text(part.title)}</h2>"
        yield _sheet(part)
        yield from (f"<p>{_text(note)}</p>" for note in part.notes)


def _sheet(table: Table) -> str:
    """The rows of a table, without the columns that are for wide output."""
    shown = [(at, column) for at, column in enumerate(table.columns) if not column.wide]
    head = "".join(f"<th>{_text(column.title.capitalize())}</th>" for _, column in shown)
    cells = (((row[at], column) for at, column in shown) for row in table.rows[:_ROWS_MAX])
    body = "".join(f"<tr>{''.join(_cell(*each) for each in row)}</tr>\n" for row in cells)
    more = len(table.rows) - _ROWS_MAX
    note = f"<p>{counted(more, 'more row')}.</p>" if more > 0 else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>{note}'


def _cell(cell: object, column: Column) -> str:
    return ('<td class="n">' if column.number else "<td>") + f"{_text(text(cell))}</td>"


def _text(words: str) -> str:
    return escape(visible(words))
