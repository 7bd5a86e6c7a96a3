"""This room's queries, one file each, with its grain in the first line."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import duckdb


@cache
def statement(name: str) -> str:
    """The text of one query."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def rows_of(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows of one query as dictionaries."""
    rows: list[dict[str, Any]] = connection.sql(statement(name), params=parameters).to_arrow_table().to_pylist()
    return rows
