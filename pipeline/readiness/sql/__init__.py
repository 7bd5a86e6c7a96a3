"""The SQL of readiness; see queries/statements.py."""

from __future__ import annotations

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
