"""The difference between the verdicts of two versions over the same requests, by judged thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ingest.engine import LOCAL

from ..tables import Column, Table, listed
from .sql import statement


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One thing: requests by how their verdict differs, over all bindings and expressions. `unknown`: in either run."""

    policy: str
    newly_denied: int
    newly_allowed: int
    still_denied: int
    still_allowed: int
    unknown: int


def request_difference(old: Path, new: Path) -> tuple[RequestDifference, ...]:
    """Compare the verdicts.parquet of two runs over the same requests."""
    with duckdb.connect(config=LOCAL) as connection:
        found = connection.execute(statement("difference_requests"), {"old": str(old), "new": str(new)}).fetchall()
    return tuple(RequestDifference(*row) for row in found)


def difference_table(rows: Sequence[RequestDifference], notes: Sequence[str] = ()) -> Table:
    """One row per thing. `notes` are printed below."""
    names = ("newly_denied", "newly_allowed", "still_denied", "still_allowed", "unknown")
    columns = [Column("policy"), *(Column(name, number=True) for name in names)]
    return listed("requests", columns, rows, "Requests by change", tuple(notes))
