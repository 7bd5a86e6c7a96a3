"""The counts of a finished run of mutating policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from .sql import statement


class Mutated(NamedTuple):
    """One policy and binding, and the requests that it is for; see sql/summary.sql."""

    policy: str
    binding: str | None
    changed: int
    unchanged: int
    ignored: int
    denied: int
    unknown: int
    nomatch: int
    unsettled: int
    ordered: int
    lost: int


class ChangedPath(NamedTuple):
    """One place that a policy changes, with the values of the latest request; see sql/changed.sql."""

    policy: str
    op: str
    path: str
    requests: int
    before: str | None
    after: str | None
    example: str


class NotApplied(NamedTuple):
    """Why a policy denies, has its errors ignored or is unknown; see sql/reasons.sql."""

    policy: str | None
    outcome: str
    why: str
    requests: int
    example: str


class Told(NamedTuple):
    """All that the tables of a run say."""

    policies: Sequence[Mutated]
    paths: Sequence[ChangedPath]
    reasons: Sequence[NotApplied]


def mutated(reader: LakeReader, verdicts: Path) -> tuple[Mutated, ...]:
    """What each policy of a run makes of its requests."""
    rows = reader.connection.execute(statement("summary"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(Mutated(*row) for row in rows)


def changed_paths(reader: LakeReader, verdicts: Path) -> tuple[ChangedPath, ...]:
    """What the policies of a run change."""
    rows = reader.connection.execute(statement("changed"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(ChangedPath(*row) for row in rows)


def not_applied(reader: LakeReader, verdicts: Path) -> tuple[NotApplied, ...]:
    """Why policies of a run deny, fail or are unknown, and which later stages refuse what they leave."""
    rows = reader.connection.execute(statement("reasons"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(NotApplied(*row) for row in rows)
