"""The page of the metrics that the sink serves."""

from __future__ import annotations

from ingest.telemetry import SinkMetrics

from .text import join, table


def page() -> str:
    """The page, as Markdown."""
    rows = []
    for family in SinkMetrics().registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((f"`{name}`", family.type, family.documentation))
    return join(["# Metrics", _ABOUT, table(["metric", "type", "meaning"], sorted(rows))])


_ABOUT = """`/metrics` on the sink's port serves these metrics in Prometheus' text format. The
[alerts of the chart](../clusters/index.md) use them."""
