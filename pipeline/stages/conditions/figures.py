"""The counts of a finished run of a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from .sql import statement


class Read(NamedTuple):
    """Lists and watches of one user with one selection, and the proof about them; see sql/reads.sql."""

    policy: str
    finding: str
    user_name: str
    verb: str
    resource: str
    selection: str
    requests: int
    known: int | None
    counterexample: str | None
    suggestions: str | None
    why: str | None
    example: str


class Decided(NamedTuple):
    """Other requests by decision and reason; see sql/writes.sql."""

    policy: str
    decision: str
    code: int | None
    reason: str
    requests: int
    example: str


def reads(reader: LakeReader, verdicts: Path) -> tuple[Read, ...]:
    """The lists and watches of a run, the worst first."""
    return tuple(Read(*row) for row in reader.connection.execute(statement("reads"), {"verdicts": str(verdicts)}).fetchall())


def decided(reader: LakeReader, verdicts: Path) -> tuple[Decided, ...]:
    """The other requests of a run, the refused first."""
    return tuple(Decided(*row) for row in reader.connection.execute(statement("writes"), {"verdicts": str(verdicts)}).fetchall())


def by_finding(found: Iterable[Read]) -> Counter[str]:
    """How many lists and watches there are of each finding."""
    counts: Counter[str] = Counter()
    for each in found:
        counts[each.finding] += each.requests
    return counts
