"""The tables about mutating policies."""

from __future__ import annotations

from collections.abc import Sequence

from ...runs.flips import Flipped, flips_tables
from ...tables import Column, Table, listed
from .summary import Told

_COUNTS = {
    "changed": "",
    "unchanged": "",
    "ignored": "ERROR IGNORED",
    "denied": "",
    "unknown": "",
    "nomatch": "NO MATCH",
    "unsettled": "NOT IDEMPOTENT",
    "ordered": "ORDER DECIDES",
    "lost": "LOST ON REAPPLY",
}
_WIDE = ("nomatch", "lost")
_NOTES = (
    "the given policies replace those of then: each request enters with the object that the client sent",
    "built-in plugins that come before mutating policies change pods, and the log does not record that",
)


def mutating_tables(title: str, told: Told, flips: Sequence[Flipped]) -> list[Table]:
    """What each policy makes of its requests, what it changes, and why it does not; then the requests against the record."""
    counts = [Column(name, heading, number=True, wide=name in _WIDE) for name, heading in _COUNTS.items()]
    columns = [Column("policy", may_shorten=True), Column("binding", wide=True), *counts]
    changed = [
        Column("policy", may_shorten=True), Column("op"), Column("path"), Column("requests", number=True),
        Column("before", wide=True, prose=True), Column("after", prose=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    why = [
        Column("policy", may_shorten=True), Column("outcome"), Column("requests", number=True), Column("why", prose=True),
        Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    tables = [listed("policies", columns, told.policies, title, _NOTES)]
    if told.paths:
        notes = ("after: the value in the latest of these requests",)
        tables.append(listed("changes", changed, told.paths, "What each policy changes", notes))
    if told.reasons:
        tables.append(listed("reasons", why, told.reasons, "Requests that a policy refuses, fails on, or leaves unknown"))
    against, *others = flips_tables("", flips)
    note = ("changed: the object that was stored differs from the one that these policies would have left",)
    tables.append(Table("flips", against.columns, against.rows, "Requests against the record", note))
    return [*tables, *(each for each in others if each.name != "unknown")]
