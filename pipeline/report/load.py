"""The load of webhooks, and an outage of their servers, as one page with charts that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from pipeline.stages.over_time import OverTime
from pipeline.stages.webhooks.load import Cause, Loads
from pipeline.stages.webhooks.outage import Outage
from pipeline.stages.webhooks.over_time import calls_over_time, outage_over_time

from .over_time import section

_ROWS_MAX = 40


def load_page(found: Loads, broken: Outage | None = None) -> str:
    """The whole page. Every text from the log is escaped here, and in charts by their drawer."""
    parts = ["<h1>Load of webhooks</h1>"]
    for cluster, (since, until) in found.spans.items():
        parts.append(f"<p>{escape(cluster)}: {since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC.</p>")
    parts += _over_time("calls", calls_over_time(found))
    parts += _load_tables(found)
    if broken is not None:
        parts += _outage_parts(broken)
    style = files("pipeline.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Load of webhooks</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>\n'
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _over_time(name: str, found: OverTime | None) -> list[str]:
    """The part with a chart; nothing without a count."""
    return [section(name, found)] if found is not None else []


def _load_tables(found: Loads) -> list[str]:
    heads = ("Webhook", "Calls", "Unknown", "Mean/s", "p50", "p99", "Max/s", "In 10 s", "MB")
    rows = [
        (each.webhook, each.calls, each.unknown, f"{each.mean:.3g}", each.p50, each.p99, each.most, each.burst_10s,
         f"{each.bytes / 1e6:.3g}")
        for each in sorted(found.webhooks, key=lambda each: -each.calls)
    ]  # fmt: skip
    causes = [
        (each.webhook, each.dimension, each.value or "(cluster)", each.calls, f"{each.share:.1%}") for each in _main(found.causes)
    ]
    return [
        "<h2>Calls per second</h2><p>A second without a call counts as 0. The calls are a lower bound.</p>",
        _table(heads, rows),
        "<h2>Causes</h2>",
        _table(("Webhook", "By", "Value", "Calls", "Share"), causes),
    ]


def _main(causes: Sequence[Cause]) -> list[Cause]:
    return sorted(causes, key=lambda each: -each.calls)[:_ROWS_MAX]


def _outage_parts(broken: Outage) -> list[str]:
    rows = [
        (each.webhook, each.failure_policy, each.refused, each.unchecked, each.already, each.unknown)
        for each in sorted(broken.webhooks, key=lambda each: -each.refused - each.unchecked)
    ]
    hits = [
        (each.system, each.resource, each.user, each.namespace or "(cluster)", each.refused, each.unchecked) for each in broken.hits
    ]
    waits = [(each.seconds, each.ends, each.requests) for each in broken.waiting]
    return [
        "<h2>While the servers are down</h2>",
        f"<p>{broken.refused:,} requests would be refused with code 500, and {broken.unchecked:,} would pass unchecked.</p>",
        *_over_time("outage", outage_over_time(broken)),
        _table(("Webhook", "Failure policy", "Refused", "Unchecked", "Refused anyway", "Unknown"), rows),
        "<h2>Whose requests</h2>",
        _table(("System", "Resource", "User", "Namespace", "Refused", "Unchecked"), hits),
        "<h2>If the servers hang</h2>",
        _table(("Seconds", "Ends", "Requests"), waits),
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]], most: int = _ROWS_MAX) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows[:most])
    more = len(rows) - most
    note = f"<p>{more:,} more rows.</p>" if more > 0 else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>{note}'


def _cell(cell: object) -> str:
    return f'<td class="n">{cell:,}</td>' if isinstance(cell, int) else f"<td>{escape(str(cell))}</td>"
