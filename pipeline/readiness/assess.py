"""From one replay run to the readiness of each (policy, binding): every figure is a query that a reader can run again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import duckdb

from .bounds import upper_bound
from .model import DayCount, Denials, Exposure, Fidelity, Owner, PolicyReadiness
from .rules import ReadinessRules
from .verdict import decide

# How many owners and reasons a report lists per policy; the rest is counted, and all of them are in the run's verdicts.
OWNERS_MAX = 25
UNKNOWN_REASONS_MAX = 10

Key = tuple[str, str | None]


def assess(
    connection: duckdb.DuckDBPyConnection,
    verdicts: str,
    replayed: Mapping[Key, tuple[str, ...]],
    fidelity: Mapping[str, Fidelity],
    rules: ReadinessRules,
) -> tuple[PolicyReadiness, ...]:
    """The readiness of every (policy, binding) in `replayed`, in its order.

    `connection` has the lake's views (`requests`); `verdicts` is the path of the run's verdicts.parquet; `replayed` maps each
    (policy, binding) of the plan to the binding's actions, so that a policy which matched nothing is still reported; `fidelity`
    maps policy names to the agreement with the record.
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE verdicts AS FROM read_parquet($path)", {"path": verdicts})
    connection.execute(_sql("outcomes"))
    figures = {_key(row): row for row in rows_of(connection, "figures")}
    owners, days, unknown = (_grouped(connection, name) for name in ("owners", "days", "unknown"))
    return tuple(
        _policy(key, actions, figures.get(key), owners[key], days[key], unknown[key], fidelity.get(key[0], Fidelity()), rules)
        for key, actions in replayed.items()
    )


def _policy(
    key: Key,
    actions: tuple[str, ...],
    figures: Mapping[str, Any] | None,
    owners: list[dict[str, Any]],
    days: list[dict[str, Any]],
    unknown: list[dict[str, Any]],
    fidelity: Fidelity,
    rules: ReadinessRules,
) -> PolicyReadiness:
    exposure = _exposure(figures) if figures else Exposure()
    denials = _denials(figures, rules.confidence) if figures else Denials()
    status, reasons = decide(exposure, denials, fidelity, rules)
    return PolicyReadiness(
        policy=key[0],
        binding=key[1],
        actions=actions,
        status=status,
        reasons=reasons,
        exposure=exposure,
        denials=denials,
        fidelity=fidelity,
        unknown_reasons=tuple((row["why"], row["requests"]) for row in unknown[:UNKNOWN_REASONS_MAX]),
        owners=tuple(_owner(row) for row in owners[:OWNERS_MAX]),
        days=tuple(DayCount(row["day"], row["matched"], row["denied"], row["unknown"]) for row in days),
    )


def _exposure(row: Mapping[str, Any]) -> Exposure:
    names = ("requests_matched", "requests_judged", "requests_unknown", "units_judged", "users", "namespaces", "days_active")
    counts = {name: row[name] for name in names}
    return Exposure(**counts, days_span=float(row["days_span"]), first_ts=row["first_ts"], last_ts=row["last_ts"])


def _denials(row: Mapping[str, Any], confidence: float) -> Denials:
    last = row["denied_last_ts"]
    # A unit may have both denied and admitted requests; it counts as denied.
    units = max(row["units_judged"], row["denied_units"])
    return Denials(
        requests=row["denied_requests"],
        units=row["denied_units"],
        users=row["denied_users"],
        namespaces=row["denied_namespaces"],
        first_ts=row["denied_first_ts"],
        last_ts=last,
        days_clean=(row["last_ts"] - last).total_seconds() / 86400 if last is not None else float(row["days_span"]),
        unit_rate_upper=upper_bound(row["denied_units"], units, confidence),
    )


def _owner(row: Mapping[str, Any]) -> Owner:
    return Owner(
        namespace=row["namespace"],
        resource=row["resource"],
        unit=row["unit"],
        user=row["user_name"],
        requests=row["requests"],
        first_ts=row["first_ts"],
        last_ts=row["last_ts"],
        message=row["message"] or "",
        audit_id=row["audit_id"],
    )


def _key(row: Mapping[str, Any]) -> Key:
    return row["policy"], row["binding"]


def _grouped(connection: duckdb.DuckDBPyConnection, name: str) -> defaultdict[Key, list[dict[str, Any]]]:
    groups: defaultdict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(connection, name):
        groups[_key(row)].append(row)
    return groups


def rows_of(connection: duckdb.DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    """The rows of one of this room's queries, as dictionaries."""
    rows: list[dict[str, Any]] = connection.sql(_sql(name)).to_arrow_table().to_pylist()
    return rows


def _sql(name: str) -> str:
    return files("pipeline.readiness").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
