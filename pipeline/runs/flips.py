"""How the verdicts of a run differ from what the log recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from .sql import statement


class Flipped(NamedTuple):
    """Requests of one user, verb, resource and namespace whose verdicts differ from the record in the same way; see flips.sql."""

    flip: str
    user_name: str | None
    verb: str
    resource: str
    namespace: str | None
    rule_ref: str | None
    why: str | None
    requests: int
    first_ts: datetime
    last_ts: datetime
    example: str


def flips(reader: LakeReader, verdicts: Path) -> tuple[Flipped, ...]:
    """The requests of a run by how their verdicts differ from the record, the worst first. Stages without `flip` have no rows."""
    rows = reader.connection.execute(statement("flips"), {"verdicts": str(verdicts)}).fetchall()
    return tuple(Flipped(*row) for row in rows)


def count_flips(found: Iterable[Flipped]) -> Counter[str]:
    """How many requests differ in each way."""
    counts: Counter[str] = Counter()
    for each in found:
        counts[each.flip] += each.requests
    return counts
