"""Pages of rows: which rows, in which order, from where to where. Every value is bound; only Hindcast's own names become SQL.

A page is found in two steps: first the keys of its rows, from narrow columns. Then the rows themselves, within the time that the
keys span. So large columns are read only for the rows of one page, and not for all sorted rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from queries import LakeReader

from ..errors import TooCostlyError
from .cursors import SKIP_MAX, Cursor, Key, cursor_text, parse_cursor
from .questions import Filters, Paging, SortKey, TimePaging

# A page ends early rather than grow beyond this; a single row may be larger.
PAGE_BYTES_MAX = 32 * 1024 * 1024
_BATCH_ROWS = 64
_SPANS = (timedelta(hours=12), timedelta(days=4))
_NAMED = re.compile(r"\$(p\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """One thread's access to a lake: a session of its own, and the folder."""

    reader: LakeReader
    lake: Path


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of an answer; `next` is the `after` of the following page, None at the end."""

    rows: pa.Table
    next: str | None

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; times are aware."""
        found: list[dict[str, Any]] = self.rows.to_pylist()
        return found


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows in the order of their keys. The first key is the time, as column `ts`.

    `narrow` is the FROM clause of the search for keys. `wide` is a SELECT with all columns of the answer and no WHERE. `where`
    holds the conditions, at least one, and `timed` is the smallest table with the same times.
    """

    question: str
    keys: Sequence[SortKey]
    narrow: str
    wide: str
    where: Sequence[str]
    timed: str = "events"


@dataclass(slots=True)
class Parameters:
    """The bound values of a statement, by name."""

    values: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: object) -> str:
        """The name of a value in the statement."""
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f"${name}"


def conditions(filters: Filters, parameters: Parameters) -> list[str]:
    """The conditions on rows; `true` if nothing is asked. An empty value means rows without a value."""
    found = ["true"]
    for column, values in filters.values().items():
        named = [value for value in values if value != ""]
        choices = [f"{column} IN ({', '.join(map(parameters.bind, named))})"] if named else []
        if len(named) < len(values):
            choices.append(f"{column} IS NULL OR {column} = ''")
        found.append(f"({' OR '.join(choices)})")
    since, until = filters.window()
    found += [f"ts >= {parameters.bind(since)}"] if since else []
    found += [f"ts < {parameters.bind(until)}"] if until else []
    return found


def holding(text: str, columns: Iterable[str], parameters: Parameters) -> str:
    """The condition that one of some columns contains a text, ignoring case."""
    return f"contains(lower(concat_ws(chr(10), {', '.join(columns)})), {parameters.bind(text.lower())})"


def rows_of(source: Source, text: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
    """The rows of a bounded statement of Hindcast's own, as dictionaries."""
    found: list[dict[str, Any]] = table_of(source, text, parameters).to_pylist(maps_as_pydicts="lossy")
    return found


def table_of(source: Source, text: str, parameters: Parameters | None = None) -> pa.Table:
    """The same as an Arrow table."""
    table: pa.Table = source.reader.connection.sql(text, params=_used(text, parameters)).to_arrow_table()
    return table


def keyset_page(source: Source, listing: Listing, parameters: Parameters, paging: TimePaging, limit_max: int) -> Page:
    """One page, at most `limit_max` rows long."""
    question = f"{listing.question}/{paging.order}"
    start = parse_cursor(paging.after, question, [key.kind for key in listing.keys])
    is_newest = paging.order == "newest"
    order = ", ".join(f"{key.expression} {'DESC' if is_newest else 'ASC'}" for key in listing.keys)
    named = ", ".join(key.expression for key in listing.keys)
    after = [] if start is None else [_beyond(named, start, parameters, is_newest)]
    skip = start.skip if start else 0
    limit = min(paging.limit, limit_max)
    keys: list[tuple[Key, ...]] = []
    for span in _spans(source, listing, parameters, start, is_newest):
        where = _all(listing.where, after, span)
        text = f"SELECT {named} FROM {listing.narrow} WHERE {where} ORDER BY {order} LIMIT {limit + 1} OFFSET {skip}"
        keys = source.reader.connection.execute(text, _used(text, parameters)).fetchall()
        if len(keys) > limit:
            break
    # The cursor's own time belongs to the span: the second step counts its skipped rows again.
    times = [key[0] for key in keys[:limit]] + list(start.keys[:1] if start and keys else ())
    within = [f"ts >= {parameters.bind(min(times))}", f"ts <= {parameters.bind(max(times))}"] if times else ["false"]
    where = _all(listing.where, after, within)
    wide = f"{listing.wide} WHERE {where} ORDER BY {order} LIMIT {min(len(keys), limit)} OFFSET {skip}"
    rows = _bounded(source, wide, parameters)
    more = rows.num_rows < len(keys)
    return Page(rows, cursor_text(question, _end(keys[: rows.num_rows], start)) if more and rows.num_rows else None)


def counted_page(source: Source, question: str, text: str, parameters: Parameters, paging: Paging) -> Page:
    """One page of a small, fully ordered answer that is computed whole each time."""
    start = parse_cursor(paging.after, question, ())
    skip = start.skip if start else 0
    rows = table_of(source, f"FROM ({text}) LIMIT {paging.limit + 1} OFFSET {skip}", parameters)
    end = skip + paging.limit
    more = rows.num_rows > paging.limit
    if more and end > SKIP_MAX:
        raise TooCostlyError(f"there are more than {SKIP_MAX:,} rows before this page", "narrow the question with a filter")
    return Page(rows.slice(0, paging.limit), cursor_text(question, Cursor((), end)) if more else None)


def _spans(
    source: Source, listing: Listing, parameters: Parameters, start: Cursor | None, is_newest: bool
) -> Iterator[Sequence[str]]:
    """Conditions on the time of the search for a page: growing stretches from its beginning, and at last all the rest.

    A page is mostly full within hours; sorting and folding years of events for it would take seconds.
    """
    bounds = [condition for condition in listing.where if condition.startswith("ts ")]
    text = f"SELECT min(ts), max(ts) FROM {listing.timed} WHERE {_all(['true'], bounds)}"
    first, last = source.reader.connection.execute(text, _used(text, parameters)).fetchall()[0]
    begin = start.keys[0] if start else (last if is_newest else first)
    if isinstance(begin, datetime) and first is not None:
        for span in _SPANS:
            if span >= last - first:
                break
            try:
                end = begin - span if is_newest else begin + span
            except OverflowError:  # a cursor at the end of all time
                break
            yield [f"ts {'>=' if is_newest else '<='} {parameters.bind(end)}"]
    yield []


def _all(*conditions: Sequence[str]) -> str:
    return " AND ".join(entry for part in conditions for entry in part)


def _beyond(named: str, start: Cursor, parameters: Parameters, is_newest: bool) -> str:
    """Rows from the cursor's keys on. The condition on time is also separate, so that files of other times are not opened."""
    sign = "<=" if is_newest else ">="
    bound = [parameters.bind(key) for key in start.keys]
    return f"ts {sign} {bound[0]} AND ({named}) {sign} ({', '.join(bound)})"


def _end(keys: Sequence[tuple[Key, ...]], start: Cursor | None) -> Cursor:
    """Where the page ends: its last keys, and how many rows with these keys came before the end."""
    last = keys[-1]
    same = sum(1 for key in keys if key == last)
    before = start.skip if start is not None and tuple(start.keys) == last else 0
    return Cursor(last, before + same)


def _bounded(source: Source, text: str, parameters: Parameters) -> pa.Table:
    """The rows as far as they fit in a page, and at least one batch of them."""
    stream = source.reader.connection.sql(text, params=_used(text, parameters)).to_arrow_reader(_BATCH_ROWS)
    batches, size = [], 0
    for batch in stream:
        batches.append(batch)
        size += batch.nbytes
        if size > PAGE_BYTES_MAX:
            break
    return pa.Table.from_batches(batches, stream.schema)


def _used(text: str, parameters: Parameters | None) -> dict[str, Any] | None:
    """The values that a statement names: DuckDB raises an error for others, and for an empty list of them."""
    values = parameters.values if parameters else {}
    return {name: values[name] for name in _NAMED.findall(text)} or None
