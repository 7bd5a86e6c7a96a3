"""From one replay run to the readiness of each (policy, binding): every figure is a query that a reader can run again.

The queries are the files of `sql/`, in this order: `judged`, `subjects`, `controllers_*` and `roots` (see units.py), `outcomes`;
then any of the others. They leave their tables in the connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from queries import LakeReader

from ..stages.readiness import AS_GIVEN, keep_counted
from .counting.bounds import upper_bound
from .counting.fidelity import fidelity_on
from .counting.trend import trend_of
from .counting.units import find_units
from .model import (
    CriticalKind,
    CriticalSubject,
    DayCount,
    Denials,
    Exposure,
    FailedExpression,
    Fidelity,
    HiddenDenial,
    Latent,
    NamespaceCount,
    Owner,
    PolicyReadiness,
    Trend,
)
from .rules import ReadinessRules
from .sql import rows_of, statement
from .verdict import decide

# How many subjects, namespaces and reasons a report lists per policy. The others are counted; the verdicts hold all of them.
CRITICAL_MAX = 25
NAMESPACES_MAX = 200
UNKNOWN_REASONS_MAX = 10
_FAILED_MAX = 10
_ROWS_AT_ONCE = 100_000

Key = tuple[str, str | None]
Row = Mapping[str, Any]

__all__ = ["Key", "assess", "rows_of"]


@dataclass(frozen=True)
class _Rows:
    """The answers of this room's queries, by (policy, binding)."""

    single: Mapping[str, Mapping[Key, Row]]
    several: Mapping[str, Mapping[Key, list[Row]]] = field(default_factory=dict)

    def one(self, name: str, key: Key) -> Row | None:
        return self.single[name].get(key)

    def all(self, name: str, key: Key) -> list[Row]:
        return self.several[name].get(key, [])


def assess(
    connection: duckdb.DuckDBPyConnection,
    replayed: Mapping[Key, tuple[str, ...]],
    fidelity: Mapping[str, Fidelity] | None,
    latent: Mapping[Key, Latent],
    owners: Mapping[Key, tuple[Owner, ...]],
    rules: ReadinessRules,
) -> tuple[PolicyReadiness, ...]:
    """The readiness of every (policy, binding) in `replayed`, in its order.

    `connection` has the lake's views and the tables of `judge_units`; `replayed` maps each (policy, binding) of the plan to the
    binding's actions, so that a policy which matched nothing is still reported; `fidelity` maps policy names to their own agreement
    with the record by resource (see fidelity.recorded_agreement), and is None where the two were not compared. `latent` holds
    existing objects that the window did not try; `owners` are the owners of would-be denials.
    """
    rows = _Rows(
        {name: {_key(row): row for row in rows_of(connection, name)} for name in ("figures", "releases", "halves", "over_cost")},
        {name: _grouped(connection, name) for name in ("days", "unknown", "critical", "hidden", "namespaces", "failed", "silent")},
    )
    return tuple(
        _policy(key, actions, rows, fidelity, latent.get(key, Latent()), owners.get(key, ()), rules)
        for key, actions in replayed.items()
    )


def judge_units(
    reader: LakeReader,
    verdicts: str,
    rules: ReadinessRules,
    counted: str = AS_GIVEN,
    *,
    is_change: bool = False,
) -> None:
    """Make the tables `outcomes` and `over_cost_requests`, which every other query of this room reads, and the tables they need.

    `verdicts` is the path of the run's verdicts.parquet, and `counted` the query of its stage (StageReadiness.counted). With
    `is_change`, a request that the cluster refused already does not count as denied.
    """
    connection = reader.connection
    keep_verdicts(connection, verdicts, counted, is_change=is_change)
    connection.execute(statement("judged"))
    connection.execute(statement("over_cost_requests"))
    find_units(reader)
    names = ("break_glass_users", "break_glass_groups", "system_namespaces", "sink_namespaces")
    connection.execute(statement("outcomes"), {name: list(getattr(rules, name)) for name in names})


def keep_verdicts(connection: duckdb.DuckDBPyConnection, verdicts: str, counted: str, *, is_change: bool) -> None:
    """Make the table `verdicts` of the verdicts that count of a run; the parameters are those of `judge_units`."""
    keep_counted(connection, "verdicts", counted, verdicts)
    if is_change:
        connection.execute("UPDATE verdicts SET decision = 'admit', effect = NULL WHERE flip = 'still-denied'")


def export_outcomes(connection: duckdb.DuckDBPyConnection, folder: Path) -> Path:
    """Write the table `outcomes` into a new folder, so that a reader can run a report's queries anywhere. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outcomes.parquet"
    batches = connection.sql("FROM outcomes ORDER BY policy, binding, ts, cluster, audit_id").to_arrow_reader(_ROWS_AT_ONCE)
    with pa.parquet.ParquetWriter(file, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return file


def _policy(
    key: Key,
    actions: tuple[str, ...],
    rows: _Rows,
    record: Mapping[str, Fidelity] | None,
    latent: Latent,
    owners: tuple[Owner, ...],
    rules: ReadinessRules,
) -> PolicyReadiness:
    figures = rows.one("figures", key)
    exposure = _exposure(figures, rows.one("releases", key)) if figures else Exposure()
    if over := rows.one("over_cost", key):
        exposure = replace(exposure, requests_over_cost=over["requests_over_cost"])
    denials = _denials(figures, rows.one("halves", key), rules) if figures else Denials()
    fidelity = fidelity_on(record, key[0], exposure.resources)
    critical = tuple(_critical(row) for row in rows.all("critical", key))
    hit = {(row.kind, row.subject): row.denied for row in critical if row.denied}
    failed = tuple(FailedExpression(**_without_key(row)) for row in rows.all("failed", key)[:_FAILED_MAX])
    silent = tuple(FailedExpression(**_without_key(row)) for row in rows.all("silent", key)[:_FAILED_MAX])
    status, reasons = decide(exposure, denials, fidelity, rules, hit, latent, failed, silent)
    return PolicyReadiness(
        policy=key[0],
        binding=key[1],
        actions=actions,
        status=status,
        reasons=reasons,
        exposure=exposure,
        denials=denials,
        fidelity=fidelity,
        unknown_reasons=tuple((row["why"], row["requests"]) for row in rows.all("unknown", key)[:UNKNOWN_REASONS_MAX]),
        owners=owners,
        owners_total=figures["denied_owners"] if figures else 0,
        days=tuple(DayCount(**_without_key(row)) for row in rows.all("days", key)),
        critical=critical[:CRITICAL_MAX],
        latent=latent,
        failed=failed,
        silent=silent,
        hidden=tuple(HiddenDenial(**_without_key(row)) for row in rows.all("hidden", key)),
        namespaces=tuple(NamespaceCount(**_without_key(row)) for row in rows.all("namespaces", key)[:NAMESPACES_MAX]),
    )


def _exposure(row: Row, releases: Row | None) -> Exposure:
    names = (
        "requests_matched",
        "requests_judged",
        "requests_unknown",
        "requests_excused",
        "units_judged",
        "users",
        "users_judged",
        "namespaces",
        "days_active",
        "weekdays",
        "first_ts",
        "last_ts",
    )
    return Exposure(
        **{name: row[name] for name in names},
        days_span=float(row["days_span"]),
        resources=tuple(row["resources"]),
        releases=releases["releases"] if releases else 0,
        release_cycles=releases["release_cycles"] if releases else 0,
    )


def _denials(row: Row, halves: Row | None, rules: ReadinessRules) -> Denials:
    last = row["denied_last_ts"]
    return Denials(
        requests=row["denied_requests"],
        units=row["denied_units"],
        users=row["denied_users"],
        namespaces=row["denied_namespaces"],
        first_ts=row["denied_first_ts"],
        last_ts=last,
        days_clean=(row["last_ts"] - last).total_seconds() / 86400 if last is not None else float(row["days_span"]),
        # A unit may have both denied and admitted requests; it counts as denied.
        unit_rate_upper=upper_bound(row["denied_units"], row["units_judged"], rules.confidence),
        user_rate_upper=upper_bound(row["denied_users"], row["users_judged"], rules.confidence),
        requests_clean=row["clean_requests"],
        units_clean=row["clean_units"],
        requests_failed=row["failed_requests"],
        trend=trend_of(**_without_key(halves), p_max=rules.trend_p_max) if halves else Trend(),
    )


def _critical(row: Row) -> CriticalSubject:
    return CriticalSubject(**{**_without_key(row), "kind": CriticalKind(row["kind"])})


def _key(row: Row) -> Key:
    return row["policy"], row["binding"]


def _without_key(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("policy", "binding")}


def _grouped(connection: duckdb.DuckDBPyConnection, name: str) -> dict[Key, list[Row]]:
    groups: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows_of(connection, name):
        groups[_key(row)].append(row)
    return groups
