"""The verdicts of a replay on the selected part of the record: a policy's figures in a time, a namespace or a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pipeline.readiness.model import DayCount
from pipeline.readiness.report import Report
from pipeline.runs import RunStore
from pipeline.stages.over_time import slot_width

from ..ask.kept import about_run
from ..ask.listing import Parameters, conditions, rows_of
from ..ask.questions import RequestedObject, TimeFilters
from ..ask.reads import Source
from ..beside_runs import ChartCounts, MomentCount, keep_charts, kept_charts
from .charts import Timeline, timeline_of
from .selection import Selection

# Collapses the verdicts on a request like the readiness report (judged.sql), and counts them per day like it (days.sql), or in
# shorter slots of time.
_SLOTS = """
    WITH judged AS (
        SELECT policy, binding, cluster, audit_id, ts,
            CASE
                WHEN bool_or(effect = 'deny') THEN 'deny'
                WHEN bool_or(decision = 'unknown') THEN 'unknown'
                ELSE 'admit'
            END AS outcome
        FROM read_parquet({file}) AS v ANTI JOIN dry_runs USING (cluster, audit_id, ts)
        WHERE decision <> 'nomatch' AND {where}
        GROUP BY ALL
    )
    SELECT policy, binding, {slot} AS slot, count(*) AS matched,
        count(*) FILTER (outcome = 'deny') AS denied, count(*) FILTER (outcome = 'unknown') AS unknown
    FROM judged GROUP BY ALL ORDER BY slot
"""
_SAME_REQUEST = "EXISTS (FROM requests AS r WHERE r.cluster = v.cluster AND r.audit_id = v.audit_id AND r.ts = v.ts AND {where})"
# Counts like recorded.sql the records that policies in force left in the log.
_RECORDED = """
    WITH failed AS (
        SELECT cluster, policy, binding, count(*) AS failures, max(ts) AS last_ts
        FROM violations WHERE {where} GROUP BY ALL
    ),
    denied AS (
        SELECT cluster, policy, coalesce(binding, '') AS binding, count(*) AS denied_requests, max(ts) AS last_ts
        FROM denials WHERE denier = 'vap' AND {where} GROUP BY ALL
    )
    SELECT cluster, policy, binding, coalesce(failures, 0) AS failures, coalesce(denied_requests, 0) AS denied_requests,
        greatest(failed.last_ts, denied.last_ts) AS last_ts
    FROM failed FULL JOIN denied USING (cluster, policy, binding)
    ORDER BY coalesce(failed.failures, 0) + coalesce(denied.denied_requests, 0) DESC, cluster, policy, binding
"""

# Bars of days say nothing of a shorter log.
_SHORT_SECONDS = 3 * 86_400

Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests that a (policy, binding) matched, those that it would deny, and those with an unknown verdict."""

    matched: int = 0
    denied: int = 0
    unknown: int = 0


def narrows(selection: Selection) -> bool:
    """Whether the selection leaves out requests; a policy's name leaves out only policies."""
    return bool(selection.given("since", "until", "namespace", "cluster"))


def selected_days(source: Source, run_id: str, selection: Selection) -> Mapping[Key, tuple[DayCount, ...]]:
    """For each (policy, binding) of a finished replay its counts per UTC day, of the selected requests only."""
    found: dict[Key, list[DayCount]] = {}
    for row in _counted(source, run_id, selection, "ts::DATE"):
        days = found.setdefault((row["policy"], row["binding"]), [])
        days.append(DayCount(row["slot"], row["matched"], row["denied"], row["unknown"]))
    return {key: tuple(days) for key, days in found.items()}


def selected_timelines(source: Source, run_id: str, selection: Selection, seconds: int) -> Mapping[Key, Timeline]:
    """For each (policy, binding) of a finished replay its chart in bars of so many seconds, of the selected requests only.

    Those of all requests are kept next to the replay, whose verdicts never change.
    """
    name = f"charts {selection} {seconds}"
    return about_run(source, run_id, name, lambda: _timelines(source, run_id, selection, seconds))


def _timelines(source: Source, run_id: str, selection: Selection, seconds: int) -> Mapping[Key, Timeline]:
    counts = kept_charts(source.lake, run_id, seconds) if not narrows(selection) else None
    if counts is None:
        counts = _moments(source, run_id, selection, seconds)
        if not narrows(selection):
            with suppress(OSError):  # a read-only lake counts them again each time
                keep_charts(source.lake, run_id, seconds, counts)
    charts = {(policy, binding): timeline_of(moments, seconds) for policy, binding, moments in counts}
    return {key: chart for key, chart in charts.items() if chart is not None}


def _moments(source: Source, run_id: str, selection: Selection, seconds: int) -> list[ChartCounts]:
    found: dict[Key, list[MomentCount]] = {}
    for row in _counted(source, run_id, selection, f"time_bucket(INTERVAL '{seconds:d} seconds', ts)"):
        moments = found.setdefault((row["policy"], row["binding"]), [])
        moments.append(MomentCount(row["slot"], row["matched"], row["denied"], row["unknown"]))
    return [(*key, moments) for key, moments in found.items()]


def bar_seconds(report: Report) -> int | None:
    """How long bars last over a log that is too short for bars of days; None for a longer one."""
    if report.first_ts is None or report.last_ts is None:
        return None
    seconds = (report.last_ts - report.first_ts).total_seconds()
    return slot_width(int(seconds) + 1) if seconds < _SHORT_SECONDS else None


def _counted(source: Source, run_id: str, selection: Selection, slot: str) -> list[dict[str, Any]]:
    parameters = Parameters()
    file = parameters.bind(str(RunStore(source.lake).run(run_id).verdicts))
    where = conditions(TimeFilters(**selection.filters("since", "until", "cluster")), parameters)
    if selection.namespace:
        named = conditions(RequestedObject(**selection.filters("namespace")), parameters)
        where.append(_SAME_REQUEST.format(where=" AND ".join(named)))
    return rows_of(source, _SLOTS.format(file=file, where=" AND ".join(where), slot=slot), parameters)


def counted_days(days: Sequence[DayCount]) -> Counts:
    """The days summed into one figure each."""
    return Counts(sum(day.matched for day in days), sum(day.denied for day in days), sum(day.unknown for day in days))


def selected_recorded(source: Source, selection: Selection) -> list[dict[str, Any]]:
    """The clusters' records of their own policies in the selected part of the log.

    Rows have policy, binding, failures, denied_requests and last_ts, most first.
    """
    parameters = Parameters()
    names = ("since", "until", "cluster", "namespace")
    where = " AND ".join(conditions(RequestedObject(**selection.filters(*names)), parameters))
    return rows_of(source, _RECORDED.format(where=where), parameters)
