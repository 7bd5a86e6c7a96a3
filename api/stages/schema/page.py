"""The tables of a replay of CustomResourceDefinitions: refused fields, and the difference in what would be stored."""

from __future__ import annotations

from typing import Any

from api.ask.reads import Source
from api.pages.tables import Asked, Column, table
from pipeline.runs import RunStore
from pipeline.stages.schema.replay.figures import ChangedField, RefusedField, WhyUnknown, figures

_REFUSED: tuple[Column[RefusedField], ...] = (
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("definition", "Definition", lambda row: row.definition),
    Column("field", "Field", lambda row: row.field),
    Column("error", "Error", lambda row: row.error, "wide"),
    Column("users", "Users", lambda row: row.users, "n"),
    Column("objects", "Objects", lambda row: row.objects, "n"),
    Column("example", "Latest request", lambda row: row.example),
)
_CHANGED: tuple[Column[ChangedField], ...] = (
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("definition", "Definition", lambda row: row.definition),
    Column("change", "Change", lambda row: row.change),
    Column("path", "Field", lambda row: row.path),
    Column("before", "Recorded", lambda row: row.before or "", "wide"),
    Column("after", "Under the new definition", lambda row: row.after or "", "wide"),
    Column("example", "Latest request", lambda row: row.example),
)
_UNKNOWN: tuple[Column[WhyUnknown], ...] = (
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("why", "Why", lambda row: row.why, "wide"),
    Column("admitted_otherwise", "Admitted otherwise", lambda row: row.admitted_otherwise, "n"),
    Column("refused_otherwise", "Refused otherwise", lambda row: row.refused_otherwise, "n"),
    Column("example", "Latest request", lambda row: row.example),
)


def schema_tables(source: Source, run_id: str, asked: Asked) -> dict[str, Any]:
    """The tables of one replay, by name; those without rows are left out."""
    found = figures(source.reader, RunStore(source.lake).run(run_id).verdicts)
    tables: dict[str, Any] = {}
    if found.fields:
        tables["refused_fields"] = table(asked, "refused_fields", "Newly refused requests by field", _REFUSED, found.fields)
    if found.changed:
        tables["changed_fields"] = table(asked, "changed_fields", "Fields that would be stored otherwise", _CHANGED, found.changed)
    if found.unknown:
        tables["reasons"] = table(asked, "reasons", "Unknown requests by reason", _UNKNOWN, found.unknown)
    return tables
