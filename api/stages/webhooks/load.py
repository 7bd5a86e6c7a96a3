"""The tables about the load of webhooks and about an outage of their servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.webhooks.load import Loads
    from pipeline.stages.webhooks.needs import Lock, SystemReach
    from pipeline.stages.webhooks.outage import Outage


def load_tables(found: Loads, latency_ms: float | None, words: str) -> list[Table]:
    """The load of each webhook, then its causes. `words` say which webhooks the requests meet."""
    from api.printing.output import Column, Table
    from pipeline.stages.webhooks.load import CAUSES_SHOWN
    from pipeline.stages.webhooks.tables import LOWER_BOUND

    columns = [
        Column("cluster", wide=True),
        Column("webhook", may_shorten=True),
        Column("configuration", wide=True),
        Column("phase", wide=True),
        Column("calls", number=True),
        Column("unknown", number=True),
        Column("again", "PERHAPS TWICE", number=True, wide=True),
        Column("mean", "MEAN/S", number=True),
        Column("p50", number=True),
        Column("p99", number=True),
        Column("most", "MAX/S", number=True),
        Column("burst_1s", "IN 1 S", number=True, wide=True),
        Column("burst_10s", "IN 10 S", number=True),
        Column("megabytes", "MB", number=True),
        Column("unsized", "WITHOUT SIZE", number=True, wide=True),
        Column("concurrent_mean", "IN FLIGHT", number=True),
        Column("concurrent_most", "IN FLIGHT MAX", number=True),
    ]
    if latency_ms is None:
        columns = columns[:-2]
    rows = []
    for each in sorted(found.webhooks, key=lambda each: (each.cluster, -each.calls)):
        value = {**each._asdict(), "mean": round(each.mean, 3), "megabytes": round(each.bytes / 1e6, 3)}
        for name in ("concurrent_mean", "concurrent_most"):
            if value[name] is not None:
                value[name] = round(value[name], 3)
        rows.append([value[column.key] for column in columns])
    notes = [
        "calls per second of the clock; a second without a call counts as 0",
        "IN 10 S: the most calls in any 10 seconds",
        "MB: the objects of the calls; an old object counts as large as the new one, and the rest of a review is left out",
        LOWER_BOUND,
        words,
    ]
    if latency_ms is not None:
        notes.insert(2, f"IN FLIGHT: rate times {latency_ms:g} ms (Little's law); the maximum holds if the busiest second goes on")
    spans = [
        f"{cluster}: {since:%Y-%m-%dT%H:%M:%SZ} to {until:%Y-%m-%dT%H:%M:%SZ}" for cluster, (since, until) in found.spans.items()
    ]
    causes = [
        Column("cluster", wide=True), Column("webhook", may_shorten=True), Column("configuration", wide=True),
        Column("dimension", "BY"), Column("value", may_shorten=True), Column("calls", number=True), Column("share", number=True),
    ]  # fmt: skip
    why = [
        [round(each.share, 4) if column.key == "share" else getattr(each, column.key) for column in causes] for each in found.causes
    ]
    return [
        Table("load", columns, rows, f"Load of webhooks, {'; '.join(spans)}", notes),
        Table("causes", causes, why, f"What causes the calls: at most {CAUSES_SHOWN} of each kind"),
    ]


def outage_tables(found: Outage, words: str, more_notes: Sequence[str]) -> list[Table]:
    """What an outage breaks: by webhook, by cause, and how long requests wait. Requests that it refuses come first."""
    from api.printing.output import Column, Table
    from ingest.counted import counted
    from pipeline.stages.webhooks.outage import DEADLINE_SECONDS

    columns = [
        Column("webhook", may_shorten=True),
        Column("configuration", wide=True),
        Column("phase", wide=True),
        Column("failure_policy", "FAILURE POLICY"),
        Column("refused", number=True),
        Column("unchecked", number=True),
        Column("already", "REFUSED ANYWAY", number=True),
        Column("unknown", number=True),
        Column("timeout_seconds", "TIMEOUT S", number=True, wide=True),
        Column("waited_seconds", "WAIT S", number=True, wide=True),
    ]
    ordered = sorted(found.webhooks, key=lambda each: -each.refused - each.unchecked)
    rows = [[getattr(each, column.key) for column in columns] for each in ordered]
    notes = [
        f"in all, {counted(found.refused, 'request')} would be refused with code 500, and {found.unchecked:,} would pass unchecked",
        f"{counted(found.already, 'request was', 'requests were')} refused in the record, and stay refused",
        *more_notes,
    ]
    hits = [
        Column("system", may_go=1), Column("resource", may_shorten=True), Column("user", may_shorten=True), Column("namespace"),
        Column("refused", number=True), Column("unchecked", number=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    why = [[getattr(each, column.key) for column in hits] for each in found.hits]
    waiting = [Column("seconds", number=True), Column("ends"), Column("requests", number=True)]
    waits = [list(each) for each in found.waiting]
    return [
        Table("down", columns, rows, f"Webhooks down {words}", notes),
        Table("causes", hits, why, "Whose requests; refused ones first, and of these the cluster's own parts"),
        Table(
            "waiting", waiting, waits, "If the servers hang instead of refusing: seconds of waiting per request",
            (f"the server gives up after {DEADLINE_SECONDS} s, whatever failurePolicy says",),
        ),
    ]  # fmt: skip


def lock_tables(locks: Sequence[Lock], system: Sequence[SystemReach]) -> list[Table]:
    """Webhooks that refuse what their own server needs, and webhooks that reach kube-system."""
    from api.printing.output import Column, Table

    columns = [
        Column("webhook", may_shorten=True), Column("configuration", wide=True), Column("service", wide=True), Column("need"),
        Column("namespace"), Column("why", prose=True), Column("sure"),
    ]  # fmt: skip
    rows = [
        [each.webhook, each.configuration, each.service, each.need, each.namespace, each.why, "yes" if each.is_sure else "perhaps"]
        for each in locks
    ]
    reach = [
        Column("webhook", may_shorten=True), Column("configuration", wide=True), Column("phase", wide=True),
        Column("outage", "OUTAGE REFUSES"), Column("sure"), Column("resources", may_shorten=True),
    ]  # fmt: skip
    reached = [
        [each.webhook, each.configuration, each.phase, "yes" if each.locks else "no", "yes" if each.is_sure else "perhaps",
         each.resources] for each in system
    ]  # fmt: skip
    perhaps = "perhaps: labels or match conditions decide"
    return [
        Table("self_lock", columns, rows, "Webhooks that block their own restart", (perhaps,)),
        Table("kube_system", reach, reached, "Webhooks that requests in kube-system reach", (perhaps,)),
    ]
