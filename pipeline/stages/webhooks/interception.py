"""The counts of a finished run of webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from .sql import statement


class Intercepted(NamedTuple):
    """One webhook and the admission passes that its rules are for; see sql/interception.sql."""

    configuration: str
    webhook: str
    phase: str
    called: int
    calls: int
    again: int
    nomatch: int
    unreached: int
    rejected: int
    skipped: int
    unknown: int
    traced: int


class NotCalled(NamedTuple):
    """Why passes do not call a webhook, or why this is unknown; see sql/reasons.sql."""

    webhook: str
    decision: str
    why: str
    resource: str
    resources: int
    passes: int
    example: str


def interception(reader: LakeReader, verdicts: Path) -> tuple[Intercepted, ...]:
    """What each webhook of a run meets."""
    rows = reader.connection.execute(statement("interception"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(Intercepted(*row) for row in rows)


def reasons(reader: LakeReader, verdicts: Path) -> tuple[NotCalled, ...]:
    """Why webhooks of a run are not called."""
    rows = reader.connection.execute(statement("reasons"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(NotCalled(*row) for row in rows)
