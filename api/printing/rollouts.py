"""A rollout as tables: its waves, how the choice of the first was tried, and what has to change for the others."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.readiness.rolling import Proved
from pipeline.readiness.words import percent
from pipeline.stages.waves import Wave

from .output import Column, Table

_NOTHING = "nothing of these matched a recorded request without being in force already, so there is no wave to begin with"


def rollout_tables(found: Sequence[Proved]) -> list[Table]:
    """The tables that have rows; without any, one that says so."""
    tables = [_waves_table(found), _tried_table(found), _needed_table(found)]
    return [table for table in tables if table.rows] or tables[:1]


def _waves_table(found: Sequence[Proved]) -> Table:
    columns = [
        Column("policy", may_shorten=True), Column("binding", may_go=1), Column("wave", number=True),
        Column("namespaces", prose=True), Column("requests", number=True), Column("workloads", "TO CHANGE", number=True),
        Column("why", prose=True),
    ]  # fmt: skip
    rows = [
        [each.policy, each.binding, wave.number, _named(wave), wave.requests, len(wave.needed), wave.why]
        for each in (proved.rollout for proved in found)
        for wave in each.waves
    ]
    note = "`--write FOLDER` writes the manifests of each wave, and those that go back"
    return Table("waves", columns, rows, "The way into force, in waves", (note if rows else _NOTHING,))


def _named(wave: Wave) -> str:
    return ", ".join(wave.namespaces) or "all that the binding selects"


def _tried_table(found: Sequence[Proved]) -> Table:
    columns = [
        Column("policy", may_shorten=True), Column("binding", may_go=2), Column("later_denied", "WAVE 1 DENIES", number=True),
        Column("chosen", "CHOSEN EARLIER", number=True), Column("denied", "DENIED LATER", number=True),
        Column("upper", "AT MOST", number=True), Column("since", "LATER HALF SINCE", may_go=1),
    ]  # fmt: skip
    rows = [
        [
            each.rollout.policy, each.rollout.binding, each.later_denied, each.rollout.tried.namespaces, each.rollout.tried.denied,
            percent(each.rollout.tried.upper), each.rollout.tried.since,
        ]
        for each in found
    ]  # fmt: skip
    notes = (
        "wave 1 denies: requests of the later half of the window, by a replay of the manifests of wave 1",
        "chosen earlier: namespaces without a denial in the earlier half; denied later: those with one in the later half",
        "at most: the share of such namespaces that have a denial later (95% confidence)",
    )
    return Table("tried", columns, rows, "Tried on the later half of the window", notes)


def _needed_table(found: Sequence[Proved]) -> Table:
    columns = [
        Column("policy", may_shorten=True, may_go=2), Column("wave", number=True), Column("namespace"), Column("unit", "WORKLOAD"),
        Column("requests", number=True), Column("user", "LAST USER", may_go=1), Column("change", prose=True),
        Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    needed = [(each.rollout.policy, wave.number, need) for each in found for wave in each.rollout.waves for need in wave.needed]
    rows = [
        [policy, wave, need.namespace, need.unit, need.requests, need.user, need.change, need.example]
        for policy, wave, need in needed
    ]
    if not any(need.change for _, _, need in needed):
        at = [column.key for column in columns].index("change")
        columns, rows = [*columns[:at], *columns[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows]
    return Table("needed", columns, rows, "What has to change first", ("`hindcast explain AUDIT_ID -f MANIFESTS` says why",))
