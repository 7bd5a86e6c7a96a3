"""The tables of a replay of mutating policies: what each does to requests, and what it changes."""

from __future__ import annotations

from typing import Any

from api.ask.reads import Source
from api.pages.tables import Asked, Column, table
from pipeline.runs import RunStore
from pipeline.stages.mutating.summary import ChangedPath, Mutated, changed_paths, mutated

_POLICIES: tuple[Column[Mutated], ...] = (
    Column("policy", "Policy", lambda row: row.policy),
    Column("binding", "Binding", lambda row: row.binding or ""),
    Column("changed", "Changed", lambda row: row.changed, "n"),
    Column("unchanged", "Unchanged", lambda row: row.unchanged, "n"),
    Column("denied", "Denied", lambda row: row.denied, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
    Column("unsettled", "Not idempotent", lambda row: row.unsettled, "n"),
    Column("ordered", "Order decides", lambda row: row.ordered, "n"),
    Column("lost", "Lost on reapply", lambda row: row.lost, "n"),
)
_CHANGES: tuple[Column[ChangedPath], ...] = (
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("policy", "Policy", lambda row: row.policy),
    Column("op", "Change", lambda row: row.op),
    Column("path", "Field", lambda row: row.path),
    Column("before", "Before", lambda row: row.before or "", "wide"),
    Column("after", "After", lambda row: row.after or "", "wide"),
    Column("example", "Latest request", lambda row: row.example),
)


def mutating_tables(source: Source, run_id: str, asked: Asked) -> dict[str, Any]:
    """The tables of one replay, by name; that of changes is left out if nothing changes."""
    verdicts = RunStore(source.lake).run(run_id).verdicts
    policies, changes = mutated(source.reader, verdicts), changed_paths(source.reader, verdicts)
    tables: dict[str, Any] = {"mutated": table(asked, "mutated", "What each policy makes of its requests", _POLICIES, policies)}
    if changes:
        tables["changes"] = table(asked, "changes", "What each policy changes", _CHANGES, changes)
    return tables
