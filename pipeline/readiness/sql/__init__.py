"""The SQL of readiness; see queries/statements.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from queries.statements import statements_of

statement = statements_of(__name__)


def rows_of(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows of one query as dictionaries."""
    # A relation of `connection.sql` would plan the query twice, which takes longer than to run it on a small lake.
    answer = connection.execute(statement(name), parameters)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


@contextmanager
def dry_runs_kept(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """While it lasts, `dry_runs` is a table: the view reads every request of the lake, and ten queries of a report ask it."""
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS dry_runs AS FROM dry_runs")
    try:
        yield
    finally:
        connection.execute("DROP TABLE IF EXISTS temp.dry_runs")
