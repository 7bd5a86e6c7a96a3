"""The load of webhooks on the page of their replay: calls per second over time, by webhook and by cause."""

from __future__ import annotations

from typing import Any

from api.ask.reads import Source
from api.beside_runs import kept_rules
from api.pages.over_time import Chart, chart_of
from api.pages.tables import Asked, Column, table
from api.stored_runs import Run
from pipeline.runs import RunStore
from pipeline.runs.window import Window
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.webhooks.load import Cause, Load, loads
from pipeline.stages.webhooks.outage import Down, Hit, whole_outage
from pipeline.stages.webhooks.over_time import calls_over_time, outage_over_time

_COLUMNS: tuple[Column[Load], ...] = (
    Column("webhook", "Webhook", lambda row: row.webhook),
    Column("calls", "Calls", lambda row: row.calls, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
    Column("mean", "Mean per second", lambda row: row.mean, "n"),
    Column("p99", "p99", lambda row: row.p99, "n"),
    Column("most", "Most in a second", lambda row: row.most, "n"),
    Column("burst", "Most in 10 seconds", lambda row: row.burst_10s, "n"),
)
_CAUSE_COLUMNS: tuple[Column[Cause], ...] = (
    Column("webhook", "Webhook", lambda row: row.webhook),
    Column("dimension", "By", lambda row: row.dimension),
    Column("value", "Value", lambda row: row.value),
    Column("calls", "Calls", lambda row: row.calls, "n"),
    Column("share", "Share", lambda row: row.share, "n"),
)


_DOWN_COLUMNS: tuple[Column[Down], ...] = (
    Column("webhook", "Webhook", lambda row: row.webhook),
    Column("policy", "failurePolicy", lambda row: row.failure_policy),
    Column("refused", "Refused", lambda row: row.refused, "n"),
    Column("unchecked", "Unchecked", lambda row: row.unchecked, "n"),
    Column("already", "Refused anyway", lambda row: row.already, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
)
_HIT_COLUMNS: tuple[Column[Hit], ...] = (
    Column("system", "Part of the cluster", lambda row: row.system),
    Column("resource", "Resource", lambda row: row.resource),
    Column("user", "User", lambda row: row.user),
    Column("namespace", "Namespace", lambda row: row.namespace),
    Column("refused", "Refused", lambda row: row.refused, "n"),
    Column("unchecked", "Unchecked", lambda row: row.unchecked, "n"),
)
_ROWS_SHOWN = 20


def outage_of_run(source: Source, run: Run, asked: Asked) -> tuple[Chart | None, dict[str, Any]]:
    """An outage that lasts for the whole time of a run: its chart, and the tables `down`, `hits` and `outage_over_time`.

    No chart where no request meets a server that is down; no tables either where the run's manifests are not kept. load_of_run must
    have left its table in the connection.
    """
    rules = kept_rules(source.lake, run.run_id, WEBHOOKS)
    verdicts = RunStore(source.lake).run(run.run_id).verdicts
    broken = whole_outage(source.reader, verdicts, rules) if isinstance(rules, tuple) else None
    if broken is None:
        return None, {}
    by_effect = sorted(broken.webhooks, key=lambda each: -each.refused - each.unchecked)
    tables = {
        "down": table(asked, "down", "An outage of all servers, by webhook", _DOWN_COLUMNS, by_effect, _ROWS_SHOWN),
        "hits": table(
            asked,
            "hits",
            "Whose requests; refused ones first, and of these the cluster's own parts",
            _HIT_COLUMNS,
            broken.hits,
            _ROWS_SHOWN,
        ),
    }
    spans = outage_over_time(broken)
    if spans is None:
        return None, tables
    chart = chart_of(spans, "outage_over_time", asked)
    return chart, {**tables, "outage_over_time": chart.table}


def load_of_run(source: Source, run: Run, asked: Asked) -> tuple[Chart | None, dict[str, Any]]:
    """The chart of calls over time (None without a call), and the tables `load`, `load_causes` and `calls_over_time`."""
    verdicts = RunStore(source.lake).run(run.run_id).verdicts
    found = loads(source.reader, verdicts, Window(run.since, run.until), with_bytes=False)
    by_calls = sorted(found.webhooks, key=lambda each: -each.calls)
    causes = sorted(found.causes, key=lambda each: -each.calls)
    tables = {
        "load": table(asked, "load", "Calls per second of each webhook", _COLUMNS, by_calls, _ROWS_SHOWN),
        "load_causes": table(asked, "load_causes", "What causes the calls", _CAUSE_COLUMNS, causes),
    }
    spans = calls_over_time(found)
    if spans is None:
        return None, tables
    chart = chart_of(spans, "calls_over_time", asked)
    return chart, {**tables, "calls_over_time": chart.table}
