"""The difference between the verdicts of two versions of policies over the same requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


def difference(old: Path, new: Path) -> tuple[ExpressionDifference, ...]:
    """Compare the verdicts.parquet of two runs over the same requests, by expression."""
    with duckdb.connect(config=LOCAL) as connection:
        found = connection.execute(statement("difference"), {"old": str(old), "new": str(new)}).fetchall()
    return tuple(ExpressionDifference(*row) for row in found)
