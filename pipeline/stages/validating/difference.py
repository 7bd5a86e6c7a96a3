"""The difference between the verdicts of two versions of policies over the same requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ingest.engine import LOCAL

from .sql import statement


@dataclass(frozen=True, slots=True)
class ExpressionDifference:
    """One expression of one (policy, binding): verdicts by how the new run differs from the old.

    `expression_index` None stands for all expressions, as in a configuration error. `unknown` are verdicts that either run could
    not judge; they are not compared. `denied_example` is the auditID of the latest newly denied request.
    """

    policy: str
    binding: str | None
    expression_index: int | None
    newly_denied: int
    newly_allowed: int
    message_changed: int
    unchanged: int
    unknown: int
    denied_example: str | None
    denied_message: str | None


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One policy: requests by how their verdict differs, over all bindings and expressions. `unknown`: in either run."""

    policy: str
    newly_denied: int
    newly_allowed: int
    still_denied: int
    still_allowed: int
    unknown: int


def difference(old: Path, new: Path) -> tuple[ExpressionDifference, ...]:
    """Compare the verdicts.parquet of two runs over the same requests, by expression."""
    return tuple(ExpressionDifference(*row) for row in _rows("difference", old, new))


def request_difference(old: Path, new: Path) -> tuple[RequestDifference, ...]:
    """Compare the verdicts.parquet of two runs over the same requests, by policy."""
    return tuple(RequestDifference(*row) for row in _rows("difference_requests", old, new))


def _rows(name: str, old: Path, new: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(config=LOCAL) as connection:
        return connection.execute(statement(name), {"old": str(old), "new": str(new)}).fetchall()
