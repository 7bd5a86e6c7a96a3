"""How the verdicts of a run differ from what the log recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from ..tables import Column, Table
from .sql import statement
from .verdict import Flip

# The worst first.
_FLIPS = [Flip.NEWLY_DENIED, Flip.NEWLY_ALLOWED, Flip.CHANGED, Flip.UNKNOWN, Flip.STILL_DENIED, Flip.SAME]
_CHANGES = (Flip.NEWLY_DENIED, Flip.NEWLY_ALLOWED, Flip.CHANGED)


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


def flips_tables(title: str, found: Sequence[Flipped]) -> list[Table]:
    """The tables of a stage: requests by change against the record, who is affected, and the reasons of unknown requests."""
    counts: Counter[str] = count_flips(found)
    totals = [(name, counts[name]) for name in _FLIPS if counts[name]]
    tables = [Table("flips", [Column("flip", "AGAINST THE RECORD"), Column("requests", number=True)], totals, title)]
    for flip in _CHANGES:
        if counts[flip]:
            rows = [each for each in found if each.flip == flip]
            tables.append(_affected(flip.replace("-", "_"), f"{flip.capitalize().replace('-', ' ')}: who is affected", rows))
    unknown = Counter[str]()
    for each in found:
        if each.flip == Flip.UNKNOWN:
            unknown[each.why or ""] += each.requests
    if unknown:
        columns = [Column("why", "WHY UNKNOWN", prose=True), Column("requests", number=True)]
        tables.append(Table("unknown", columns, unknown.most_common(), "Requests whose outcome is unknown"))
    return tables


def _affected(name: str, title: str, found: Sequence[Flipped]) -> Table:
    """One row per user, resource, namespace and rule, with the verbs; the most requests first."""
    columns = [
        Column("requests", number=True),
        Column("user_name", "USER", may_shorten=True),
        Column("verbs"),
        Column("resource", may_shorten=True),
        Column("namespace", may_shorten=True, may_go=1),
        Column("rule_ref", "RULE", wide=True),
        Column("why", wide=True, prose=True),
        Column("first_ts", "FIRST", wide=True),
        Column("last_ts", "LAST", wide=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    groups: dict[tuple[str | None, ...], list[Flipped]] = {}
    for each in found:
        groups.setdefault((each.user_name, each.resource, each.namespace, each.rule_ref), []).append(each)
    rows = [
        [
            sum(each.requests for each in rows),
            user,
            sorted({each.verb for each in rows}),
            resource,
            namespace,
            rule,
            rows[0].why,
            min(each.first_ts for each in rows),
            max(each.last_ts for each in rows),
            max(rows, key=lambda each: each.last_ts).example,
        ]
        for (user, resource, namespace, rule), rows in groups.items()
    ]
    return Table(name, columns, sorted(rows, key=lambda row: -int(str(row[0]))), title)
