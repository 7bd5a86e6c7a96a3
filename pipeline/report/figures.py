"""The figures that every report prints of a policy, each with the query that recomputes it.

A query is an expression over the table `outcomes`: one row per request that the policy matched, with who sent it and which workload
it is about. `pipeline.readiness.outcomes_of` makes that table from a run's verdicts and the lake's views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.readiness.model import PolicyReadiness

from .words import day, percent

SELECT = "SELECT {sql} FROM outcomes WHERE policy = $policy AND binding IS NOT DISTINCT FROM $binding"


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` takes the figure from the model, `show` words it. `sql` is empty where `note` names a file of queries."""

    label: str
    value: Callable[[PolicyReadiness], object]
    show: Callable[[PolicyReadiness], str]
    sql: str = ""
    note: str = ""


def _count(label: str, value: Callable[[PolicyReadiness], int], sql: str, note: str = "") -> Figure:
    return Figure(label, value, lambda entry: f"{value(entry):,}", sql, note)


def _days(number: float) -> str:
    return f"{number:,.1f}"


_UNIT = "count(DISTINCT (cluster, namespace, unit))"
FIGURES: tuple[Figure, ...] = (
    _count("requests matched", lambda entry: entry.exposure.requests_matched, "count(*)"),
    _count("requests judged", lambda entry: entry.exposure.requests_judged, "count(*) FILTER (outcome <> 'unknown')"),
    _count("requests that would be denied", lambda entry: entry.denials.requests, "count(*) FILTER (outcome = 'deny')"),
    _count("requests not known", lambda entry: entry.exposure.requests_unknown, "count(*) FILTER (outcome = 'unknown')"),
    _count(
        "requests that only an error let pass",
        lambda entry: entry.exposure.requests_excused,
        "count(*) FILTER (outcome = 'admit' AND is_error)",
        "failurePolicy Ignore",
    ),
    _count("workloads judged", lambda entry: entry.exposure.units_judged, f"{_UNIT} FILTER (outcome <> 'unknown')"),
    _count("workloads that would be denied", lambda entry: entry.denials.units, f"{_UNIT} FILTER (outcome = 'deny')"),
    Figure(
        "of workloads like these, at most",
        lambda entry: entry.denials.unit_rate_upper,
        lambda entry: percent(entry.denials.unit_rate_upper),
        f"[{_UNIT} FILTER (outcome = 'deny'), {_UNIT} FILTER (outcome <> 'unknown')]",
        "the exact one-sided upper bound (Clopper-Pearson) at the rules' confidence, for so many of so many",
    ),
    Figure(
        "days since the last would-be denial",
        lambda entry: entry.denials.days_clean,
        lambda entry: _days(entry.denials.days_clean) if entry.denials.requests else "none seen",
        "epoch(max(ts) - coalesce(max(ts) FILTER (outcome = 'deny'), min(ts))) / 86400",
        "up to the last matched request; without a would-be denial the whole span",
    ),
    _count("users", lambda entry: entry.exposure.users, "count(DISTINCT user_name)"),
    _count("namespaces", lambda entry: entry.exposure.namespaces, "count(DISTINCT namespace)"),
    Figure(
        "days of traffic",
        lambda entry: entry.exposure.days_span,
        lambda entry: _days(entry.exposure.days_span),
        "coalesce(epoch(max(ts) - min(ts)) / 86400, 0)",
    ),
    _count("weekdays", lambda entry: entry.exposure.weekdays, "count(DISTINCT isodow(ts)) FILTER (outcome <> 'unknown')"),
    _count(
        "releases",
        lambda entry: entry.exposure.releases,
        "",
        "sql/releases.sql: distinct images, or contents, of each workload in its most telling resource",
    ),
    Figure(
        "last would-be denial",
        lambda entry: entry.denials.last_ts,
        lambda entry: day(entry.denials.last_ts) if entry.denials.last_ts else "none",
        "max(ts) FILTER (outcome = 'deny')",
    ),
    Figure(
        "agreement with the record",
        lambda entry: entry.fidelity.agreement,
        lambda entry: "not known" if entry.fidelity.agreement is None else percent(entry.fidelity.agreement),
        "",
        "sql/agreement.sql, after `hindcast calibrate`: recorded outcomes on this policy's resources that the replay reproduces",
    ),
    Figure(
        "trend of denied workloads",
        lambda entry: entry.denials.trend.direction,
        lambda entry: entry.denials.trend.direction,
        "",
        "sql/halves.sql: the earlier half of the time against the later, Fisher's exact test",
    ),
)
