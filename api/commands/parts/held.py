"""The content of a lake after an ingest: clusters, times, and audit levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.printing.output import Table
    from queries import LakeReader


# The levels in the order of audit.k8s.io/v1, the least first, and what no API server writes.
LEVELS = ("Metadata", "Request", "RequestResponse", "unknown level")
_HELD = """
    SELECT cluster, count(*) AS events, min(ts) AS first_ts, max(ts) AS last_ts,
        count(*) FILTER (level = 'Metadata'), count(*) FILTER (level = 'Request'), count(*) FILTER (level = 'RequestResponse'),
        count(*) FILTER (level NOT IN ('Metadata', 'Request', 'RequestResponse')),
        count(*) FILTER (verb IN ('create', 'update', 'patch', 'delete')),
        count(*) FILTER (verb IN ('create', 'update', 'patch', 'delete') AND level IN ('Request', 'RequestResponse'))
    FROM events
    GROUP BY cluster
    ORDER BY cluster
"""
# Events with bodies that a pipeline changed, by the first reason in their note (ingest/altered.py).
_ALTERED = """
    SELECT cluster, 'altered_' || regexp_extract(notes['altered'], 'Object=([a-z]+)', 1) AS kind, count(*) AS events
    FROM events
    WHERE list_contains(flags, 'altered')
    GROUP BY ALL
    ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class Held:
    """The events of one cluster; `levels` counts them in the order of LEVELS, `writes_with_bodies` counts those that are
    known to be above Metadata."""

    cluster: str
    events: int
    first_ts: datetime | None
    last_ts: datetime | None
    levels: tuple[int, ...]
    writes: int
    writes_with_bodies: int
    altered: tuple[tuple[str, int], ...] = ()

    @property
    def warnings(self) -> list[str]:
        """What these events cannot answer, each with its remedy."""
        from queries.ledger import LOSS_KINDS

        changed = [
            f"cluster {self.cluster}: {LOSS_KINDS[kind].counted(events)}: {LOSS_KINDS[kind].means}; {LOSS_KINDS[kind].action}"
            for kind, events in self.altered
            if kind in LOSS_KINDS
        ]
        return [*([self.warning] if self.warning else []), *changed]

    @property
    def warning(self) -> str:
        """Why no policy can be judged by these events, with the remedy; empty where some can."""
        from ingest.counted import counted

        if not self.writes:
            return (
                f"cluster {self.cluster}: no write (create, update, patch or delete) was recorded, so no policy meets a request; "
                "let the audit policy record writes: `hindcast init` prints one that fits"
            )
        if not self.writes_with_bodies:
            unknown = " or an unknown one" if self.levels[-1] else ""
            return (
                f"cluster {self.cluster}: {counted(self.writes, 'write is', 'writes are')} at level Metadata{unknown} "
                "and no other is recorded, so no object is known and "
                "policies that read objects cannot be judged; record writes at level RequestResponse: `hindcast init` prints "
                "such an audit policy"
            )
        return ""


def held_in(reader: LakeReader) -> tuple[Held, ...]:
    """One row per cluster with events."""
    rows = reader.connection.execute(_HELD).fetchall()
    altered: dict[str, list[tuple[str, int]]] = {}
    for name, kind, count in reader.connection.execute(_ALTERED).fetchall():
        altered.setdefault(name, []).append((kind, count))
    return tuple(
        Held(cluster, events, first, last, tuple(levels), writes, with_bodies, tuple(altered.get(cluster, ())))
        for cluster, events, first, last, *levels, writes, with_bodies in rows
    )


def held_table(found: Sequence[Held]) -> Table:
    """Time, and the share of each level, per cluster; the notes warn of policies and writes that cannot be judged."""
    from api.printing.output import Column, Table

    columns = [Column("cluster"), Column("events", number=True), Column("first_ts", "FIRST"), Column("last_ts", "LAST")]
    columns += [Column("levels")]
    rows = [[each.cluster, each.events, each.first_ts, each.last_ts, list(_shares(each))] for each in found]
    return Table("lake", columns, rows, "The lake now holds", [text for each in found for text in each.warnings])


def _shares(each: Held) -> Iterator[str]:
    for level, count in zip(LEVELS, each.levels, strict=True):
        if count:
            yield f"{level} {_percent(count, each.events)}"


def _percent(count: int, total: int) -> str:
    """Rounded, but never to 0 or 100 % unless that is exact."""
    if count == total:
        return "100 %"
    return f"{min(max(round(100 * count / total), 1), 99)} %"
