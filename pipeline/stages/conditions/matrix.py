"""Conditional writes compared with the practice of today: roles that grant too much, and policies that refuse the rest.

Conditions refuse before validating policies run, so that a write which both refuse gets the answer of the conditions.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from .sql import statement

# The cells, as a reader needs them: disagreement first.
CELLS = (
    "only policies refuse",
    "only conditions refuse",
    "only conditions refuse, by an error",
    "both refuse",
    "both refuse, conditions by an error",
    "both allow",
    "conditions unknown",
    "policies unknown",
    "both unknown",
)


class Compared(NamedTuple):
    """Writes of one operation and resource in one cell; see sql/matrix.sql."""

    cell: str
    operation: str
    resource: str
    requests: int
    conditions_said: str
    policies_said: str
    example: str


def matrix(reader: LakeReader, conditions: Path, policies: Path) -> tuple[Compared, ...]:
    """The writes that both runs are about, by cell. The two are verdict tables of runs over the same window."""
    parameters = {"conditions": str(conditions), "policies": str(policies)}
    found = [Compared(*row) for row in reader.connection.execute(statement("matrix"), parameters).fetchall()]
    return tuple(sorted(found, key=lambda each: CELLS.index(each.cell)))
