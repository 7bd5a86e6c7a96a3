"""What changes from one version of policies to another over the same requests: the question before a policy is edited."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from .sql import statement


@dataclass(frozen=True, slots=True)
class ExpressionDifference:
    """One expression of one (policy, binding): verdicts by how the new run differs from the old.

    `unknown` are those that either run could not judge; they are compared with nothing. `denied_example` is the auditID of the
    latest newly denied request.
    """

    policy: str
    binding: str | None
    expression_index: int
    newly_denied: int
    newly_allowed: int
    message_changed: int
    unchanged: int
    unknown: int
    denied_example: str | None
    denied_message: str | None


def difference(old: Path, new: Path) -> tuple[ExpressionDifference, ...]:
    """Compare the verdicts.parquet of two runs over the same requests, by expression."""
    with duckdb.connect() as connection:
        rows = connection.execute(statement("difference"), {"old": str(old), "new": str(new)}).fetchall()
    return tuple(ExpressionDifference(*row) for row in rows)
