"""Whom one request comes back to: the object that somebody wrote, its team, and who last wrote it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from ingest.schema import EVENTS
from queries import LakeReader

from ...explaining.explanation import Explanation, Responsible
from ..rules import ReadinessRules
from ..sql import rows_of
from .owners import at_root, register_examples, team_of
from .units import find_units
from .writers import last_writers

_FIELDS: list[pa.Field[Any]] = [EVENTS.field(name) for name in ("cluster", "audit_id", "ts")]
_KEYS = pa.schema(_FIELDS)


def with_responsible(reader: LakeReader, found: Explanation, rules: ReadinessRules) -> Explanation:
    """The explanation with whom its request comes back to, and with each change as that person makes it.

    Leaves tables in the connection.
    """
    who = responsible_for(reader, (found.cluster, found.audit_id, found.ts), rules)
    if who is None:
        return found
    policies = tuple(
        replace(each, there=at_root(each.nearest, who.chain[0], who.chain[-1])) if each.nearest else each for each in found.policies
    )
    return replace(found, responsible=who, policies=policies)


def responsible_for(reader: LakeReader, key: tuple[str, str, datetime], rules: ReadinessRules) -> Responsible | None:
    """Whom a request comes back to; None for one that names no object."""
    reader.put_table("judged", pa.Table.from_pylist([dict(zip(_KEYS.names, key, strict=True))], _KEYS))
    find_units(reader)
    register_examples(reader, [key])
    steps = rows_of(reader.connection, "examples")
    chain = tuple(row["step"] for row in steps if row["position"] >= 0)
    if not chain:
        return None
    team, team_source = team_of(steps, rules.team_labels)
    ((namespace,),) = reader.connection.execute("SELECT DISTINCT namespace FROM subjects").fetchall()[:1]
    writer = last_writers(reader.connection, [(namespace, chain[-1])]).get((namespace, chain[-1]))
    return Responsible(
        chain=chain,
        team=team,
        team_source=team_source,
        writer=writer.user if writer is not None else "",
        written_ts=writer.ts if writer is not None else None,
    )
