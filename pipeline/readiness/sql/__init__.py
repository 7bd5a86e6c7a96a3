"""The SQL of readiness; see queries/statements.py."""

from __future__ import annotations

from typing import Any

import duckdb

from queries.statements import statements_of

statement = statements_of(__name__)


def rows_of(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows of one query as dictionaries."""
    rows: list[dict[str, Any]] = connection.sql(statement(name), params=parameters).to_arrow_table().to_pylist()
    return rows
