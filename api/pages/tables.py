"""Tables that a reader sorts, searches and downloads: one list of columns for the page, the CSV and the JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Query, Request
from fastapi.responses import Response

from ingest.errors import InputError
from pipeline.report.cells import spreadsheet_text, visible

from ..ask.json_values import json_bytes
from .html import SECURITY_HEADERS, address

# A table has at most this many rows; the API has pages of more.
ROWS_MAX = 1_000
# A table of up to this many rows can be searched by eye.
_SEARCHED_FROM = 8
_OWN = ("table", "sort", "find", "format", "after")
# The kinds of columns whose largest values come first.
_LARGEST_FIRST = ("n", "time")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column. `value` is the value to sort, search and download; `kind` is a class of the style.

    A column without a label is downloaded and searched, but not shown on the page.
    """

    name: str
    label: str
    value: Callable[[Row], Any]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The wishes of an address for one table of its page: which table, in which order, with which text, and in which format.

    `sort` is the name of a column, after a minus sign for the largest first. `others` is the rest of the address.
    """

    path: str = "/"
    others: tuple[tuple[str, str], ...] = ()
    table: str = ""
    sort: str = ""
    find: str = ""
    form: str = ""

    def of(self, name: str) -> Asked:
        """The wishes for the table of a name; no wishes if the address means another table."""
        return self if self.table == name else Asked(self.path, self.others)

    def href(self, **values: str) -> str:
        """The address of the same page with other wishes."""
        return address(self.path, **_lists(self.others), **values)


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column. `order` is the value of aria-sort, empty where the rows are not sorted by it."""

    label: str
    kind: str
    href: str
    order: str


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A table as a page shows it: `rows` of `total`, and `found` of them if a text was searched for."""

    name: str
    caption: str
    columns: tuple[Column[Row], ...]
    rows: Sequence[Row]
    total: int
    found: int
    asked: Asked
    heads: tuple[Head, ...]
    is_part: bool = False  # the lake has more rows than were counted

    @property
    def anchor(self) -> str:
        """The id of the table on its page."""
        return f"table-{self.name}"

    @property
    def is_searched(self) -> bool:
        """Whether it has a search box."""
        return bool(self.asked.find) or self.total > _SEARCHED_FROM or self.is_part

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """The parts of the address that a search keeps."""
        sort = (("sort", self.asked.sort),) if self.asked.sort else ()
        return (*self.asked.others, ("table", self.name), *sort)

    @property
    def whole_href(self) -> str:
        """The address of all rows, for a table that shows some of them."""
        return self._href(sort=self.asked.sort, find=self.asked.find)

    @property
    def plain_href(self) -> str:
        """The address of the table without a search."""
        return self._href(sort=self.asked.sort)

    def download(self, form: str) -> str:
        """The address of its rows as a file."""
        return self.asked.href(table=self.name, sort=self.asked.sort, find=self.asked.find, format=form)

    def _href(self, **values: str) -> str:
        return f"{self.asked.href(table=self.name, **values)}#{self.anchor}"


def asked_of(
    request: Request,
    table: Annotated[str, Query(max_length=60)] = "",
    sort: Annotated[str, Query(max_length=60)] = "",
    find: Annotated[str, Query(max_length=200)] = "",
    form: Annotated[Literal["csv", "json", ""], Query(alias="format")] = "",
) -> Asked:
    """The wishes of an address for a table."""
    others = tuple((name, value) for name, value in request.query_params.multi_items() if name not in _OWN and value)
    return Asked(request.url.path, others, table, sort, find.strip(), form)


def table(
    asked: Asked, name: str, caption: str, columns: Iterable[Column[Row]], rows: Iterable[Row], at_most: int = ROWS_MAX
) -> Table[Row]:
    """A table over rows in memory. It first shows `at_most` of them, and shows all when the address asks for the table.

    Raises InputError for an order by an unknown column.
    """
    own, known, given = asked.of(name), tuple(columns), list(rows)
    found = [row for row in given if _has(row, known, own.find)] if own.find else given
    shown = sorted_rows(found, known, own.sort) if own.sort else found
    if own.table:
        at_most = ROWS_MAX
    return Table(name, caption, known, shown[:at_most], len(given), len(found), own, heads(own, name, known))


def sorted_rows(rows: Sequence[Row], columns: Sequence[Column[Row]], sort: str) -> list[Row]:
    """Rows by a column; rows without a value come last. Raises InputError for a column that does not exist."""
    name, is_falling = sort.removeprefix("-"), sort.startswith("-")
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        known = ", ".join(column.name for column in columns)
        raise InputError(f"sort: {ascii(name)[:60]} is not a column of this table", f"sort by one of {known}")
    valued = [row for row in rows if column.value(row) is not None]
    empty = [row for row in rows if column.value(row) is None]
    return [*sorted(valued, key=lambda row: _key(column.value(row)), reverse=is_falling), *empty]


def heads(asked: Asked, name: str, columns: Iterable[Column[Row]]) -> tuple[Head, ...]:
    """The heads of the columns that a page shows, each with the address for the order after a click."""
    found = []
    for column in columns:
        if not column.label:
            continue
        order = {column.name: "ascending", f"-{column.name}": "descending"}.get(asked.sort, "")
        falls = column.kind in _LARGEST_FIRST if not order else order == "ascending"
        href = asked.href(table=name, sort=f"{'-' if falls else ''}{column.name}", find=asked.find)
        found.append(Head(column.label, column.kind, f"{href}#table-{name}", order))
    return tuple(found)


def file_of(tables: Mapping[str, Table[Any] | None], asked: Asked) -> Response:
    """The rows of the table that an address asks for, as a file. Raises InputError where the page has no such table."""
    found = tables.get(asked.table)
    if found is None:
        known = ", ".join(name for name, table in tables.items() if table is not None)
        raise InputError(f"table: this page has no table {ascii(asked.table)[:60]}", f"it has {known or 'none'}")
    rows = [{column.name: column.value(row) for column in found.columns} for row in found.rows]
    content = json_bytes({"rows": rows}) if asked.form == "json" else _csv([column.name for column in found.columns], rows)
    kind = "application/json" if asked.form == "json" else "text/csv; charset=utf-8"
    headers = {"Content-Disposition": f'attachment; filename="hindcast-{found.name}.{asked.form}"', "Cache-Control": "no-store"}
    return Response(content, media_type=kind, headers={**SECURITY_HEADERS, **headers})


def _csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([spreadsheet_text(visible(_text(row[name]))) for name in names] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _has(row: Row, columns: Iterable[Column[Row]], text: str) -> bool:
    return text.casefold() in "\n".join(_text(column.value(row)) for column in columns).casefold()


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (list, tuple)):
        return "; ".join(map(_text, value))
    return value.isoformat() if isinstance(value, date) else str(value)


def _key(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    return [_key(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _lists(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
