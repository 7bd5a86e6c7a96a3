"""Compares the counters and logs of API servers with the lake, as findings of `hindcast doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from api.checks.checkup import Finding
from ingest.counted import counted
from ingest.errors import InputError
from ingest.server.log import PluginFailure
from ingest.server.metrics import ServerMetrics
from queries import LakeReader
from queries.ledger import Severity


def metrics_findings(reader: LakeReader, cluster: str | None, metrics: Sequence[ServerMetrics]) -> Iterator[Finding]:
    """The counters of the API servers against the lake's events of the same time. Raises InputError for no or several clusters."""
    extents = reader.sql("SELECT cluster, max(stage_ts) FROM events GROUP BY cluster ORDER BY cluster").fetchall()
    names = [name for name, _ in extents]
    if cluster is None and len(names) != 1:
        raise InputError(f"--metrics: the lake has the clusters {', '.join(names) or 'none'}", "say with --cluster which is meant")
    if cluster is not None and cluster not in names:
        raise InputError(f"--cluster: the lake has no events of {cluster!r}", f"it has {', '.join(names) or 'none'}")
    name, newest = next((name, newest) for name, newest in extents if name == (cluster or names[0]))
    start, end = _window(metrics)
    ((held,),) = reader.sql(
        "SELECT count(*) FROM events WHERE cluster = ? AND (? IS NULL OR stage_ts >= ?) AND stage_ts <= ?",
        [name, start, start, end],
    ).fetchall()
    known = sum(entry.events for entry in metrics)
    yield from _errors(name, metrics, start, end, is_whole=known == held)
    yield from _rejected(name, metrics, start, end)
    yield _comparison(name, known, held, newest, start, end)


def _window(metrics: Sequence[ServerMetrics]) -> tuple[datetime | None, datetime]:
    """The time from the start of the oldest process, if all scrapes have a start, to the last scrape."""
    starts = [entry.start_ts for entry in metrics if entry.start_ts is not None]
    start = datetime.fromtimestamp(min(starts), UTC) if len(starts) == len(metrics) else None
    return start, datetime.fromtimestamp(max(entry.scraped_ts for entry in metrics), UTC)


def _comparison(cluster: str, known: int, held: int, newest: datetime, start: datetime | None, end: datetime) -> Finding:
    found = f"API servers counted {counted(known, 'event')}, the lake holds {held:,} of that time"
    if known == held:
        severity, means, action = Severity.NOTE, "nothing is missing between these two times", "nothing"
    elif known < held:
        severity = Severity.NOTE
        means = "the lake holds more than these servers sent, so other servers, or earlier processes, wrote some: nothing is proven"
        action = "give --metrics for every API server, all scraped at about the same time"
    elif newest < end:
        severity, means = Severity.POSSIBLE, "the scrape is newer than the newest event: the difference may still be on its way"
        action = "ask again once the lake has newer events"
    else:
        severity, means = (
            Severity.LOST,
            f"{counted(known - held, 'event was', 'events were')} recorded by the API server and are not here",
        )
        action = "look for dropped batches in kube-apiserver's log; ingest the log files of that time"
    return Finding(severity, cluster, "server_count", abs(known - held), found, start, end, "", means, action)


def _errors(
    cluster: str, metrics: Sequence[ServerMetrics], start: datetime | None, end: datetime, *, is_whole: bool
) -> Iterator[Finding]:
    kept = (
        "the lake holds as many events as the servers counted, so another backend kept these, or the sink before an answer failed"
    )
    for entry in metrics:
        for plugin, count in sorted(entry.errors.items()):
            yield Finding(
                Severity.NOTE if is_whole else Severity.LOST,
                cluster,
                "server_error",
                count,
                f"the API server failed to keep {counted(count, 'event')} in its audit backend {plugin!r}",
                start,
                end,
                entry.source,
                kept if is_whole else "these events are gone from that backend; another backend may have them",
                _PLUGIN_ACTIONS.get(plugin, "look in kube-apiserver's log"),
            )


def _rejected(cluster: str, metrics: Sequence[ServerMetrics], start: datetime | None, end: datetime) -> Iterator[Finding]:
    """Mode blocking-strict refuses a request whose first event could not be kept (apiserver pkg/endpoints/filters/audit.go)."""
    for entry in metrics:
        if entry.rejected:
            found = (
                f"the API server answered 500 to {counted(entry.rejected, 'request')}, because their audit event could not be kept"
            )
            means = "they did nothing in the cluster, and are not in the history"
            action = "mode batch does not refuse requests; see why the backend failed in kube-apiserver's log"
            yield Finding(Severity.NOTE, cluster, "server_rejected", entry.rejected, found, start, end, entry.source, means, action)


def failure_findings(reader: LakeReader, failures: Sequence[PluginFailure]) -> Iterator[Finding]:
    """The events that a backend dropped according to the logs of API servers, and how many of them the lake has nevertheless.

    A batch can be stored although its answer came too late for the sender; a log file can hold events that the webhook dropped.
    """
    for failure in failures:
        ids, stages = [audit_id for audit_id, _ in failure.named], [stage for _, stage in failure.named]
        ((held,),) = reader.sql(
            "SELECT count(*) FROM (SELECT DISTINCT audit_id, stage FROM events SEMI JOIN "
            "(SELECT unnest(?::VARCHAR[]) AS audit_id, unnest(?::VARCHAR[]) AS stage) USING (audit_id, stage))",
            [ids, stages],
        ).fetchall()
        missing = len(failure.named) - held
        # A log that was cut names fewer events than it counts; for the others the lake cannot show whether it has them.
        unnamed = max(failure.events - len(failure.named), 0)
        if missing:
            severity, means = Severity.LOST, f"{missing:,} of the events that it names are not in the lake"
        elif unnamed:
            severity, means = Severity.POSSIBLE, f"it does not name {unnamed:,} of them, so the lake cannot tell"
        else:
            severity, means = Severity.NOTE, "the lake has all of them: they came another way, or before the sender gave up"
        yield Finding(
            severity,
            "",
            "server_log",
            missing or unnamed,
            f"a log says that audit plugin {failure.plugin!r} failed to keep {counted(failure.events, 'event')}: {failure.reason}",
            None,
            None,
            failure.source,
            means,
            _PLUGIN_ACTIONS.get(failure.plugin, "look in kube-apiserver's log"),
        )


_PLUGIN_ACTIONS = {
    "buffered": "its buffer was full (raise --audit-webhook-batch-buffer-size, or record less), or the server was shutting down",
    "webhook": "its batches failed five times: the sink could not be reached or refused them, or an event in each could not be "
    "encoded; the server's log has the error after `Error in audit plugin 'webhook'`; ingest the log files of that time",
    "truncate": "events were too large even without bodies (raise --audit-webhook-truncate-max-event-size), or could not be "
    "encoded; an event that truncation drops does not cost the webhook its batch",
    "log": "the event could not be encoded (mostly an apply sent as YAML), or the log file could not be written; the server's log "
    "has the error after `Error in audit plugin 'log'`. Without truncation, an event that cannot be encoded costs the webhook its "
    "whole batch",
}
