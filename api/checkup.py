"""What `hindcast doctor` finds in a lake: the loss ledger as findings, the lake's state, and what API servers counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from ingest.drain import lag_of
from ingest.errors import InputError, LakeError
from ingest.lag import Lag
from ingest.lake import Lake
from ingest.maintain import verify
from ingest.quarantine import quarantine_heads
from ingest.repair import LOST_TAIL
from ingest.segment import Damage, read_segment
from ingest.server_metrics import ServerMetrics
from ingest.spool import OPEN_SUFFIX, SEALED_SUFFIX, sealed_segments
from queries import LakeReader
from queries.ledger import LOSS_KINDS, Severity
from queries.rows import Loss

# An API server repeats a batch for so long at most before it drops it: five attempts of 30 s, and between them 97 s of waiting, or
# 292 s with the --audit-webhook-initial-backoff=30s of `hindcast init` (apiserver pkg/util/webhook/webhook.go).
_REPEATED_FOR = timedelta(seconds=450)
_DETAILS_SHOWN = 4
UNREADABLE = "unreadable"
_ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or doubtful. `count` is None where it is about no countable thing; `found` is a sentence with it."""

    severity: Severity
    cluster: str
    kind: str
    count: int | None
    found: str
    first_ts: datetime | None
    last_ts: datetime | None
    detail: str
    means: str
    action: str


@dataclass(frozen=True, slots=True)
class LakeState:
    """What a lake consists of. Sizes in bytes; `waiting` are events that were acknowledged and are not in the views
    yet, the oldest of them received at `waiting_since`."""

    files: int
    bytes: int
    days: int
    first_day: str
    last_day: str
    segments: int
    segment_bytes: int
    waiting: int
    waiting_since: datetime | None
    quarantine_files: int
    quarantine_bytes: int
    unlisted: int
    retired: int


def ledger_findings(losses: Sequence[Loss], now: datetime) -> list[Finding]:
    """The rows of `losses`, one finding for each cluster and kind, the worst first. `now` tells what may still be on its way."""
    groups = groupby(losses, key=lambda loss: (loss.cluster, loss.kind))
    found = [_finding(cluster, kind, list(members), now) for (cluster, kind), members in groups]
    return sorted(found, key=lambda finding: (_ORDER.index(finding.severity), finding.cluster, finding.kind))


def _finding(cluster: str, name: str, losses: Sequence[Loss], now: datetime) -> Finding:
    kind = LOSS_KINDS[name]
    count = sum(loss.count for loss in losses)
    first_ts = min((loss.first_ts for loss in losses if loss.first_ts), default=None)
    last_ts = max((loss.last_ts for loss in losses if loss.last_ts), default=None)
    severity, means = kind.severity, kind.means
    if name == "never_posted" and first_ts is not None and first_ts > now - _REPEATED_FOR:
        severity, means = Severity.POSSIBLE, "they may still be on their way: an API server repeats a batch for up to 450 s"
    named = [loss.detail if len(losses) == 1 else f"{loss.detail} ({loss.count:,})" for loss in losses[:_DETAILS_SHOWN]]
    more = [f"{len(losses) - _DETAILS_SHOWN} more"] if len(losses) > _DETAILS_SHOWN else []
    return Finding(
        severity, cluster, name, count, kind.counted(count), first_ts, last_ts, ", ".join(named + more), means, kind.action
    )


def unreadable_finding(error: Exception) -> Finding:
    """That the engine could not read the lake, so that there is no ledger."""
    return Finding(
        Severity.LOST,
        "",
        UNREADABLE,
        None,
        f"the events cannot be read: {str(error).splitlines()[0]}",
        None,
        None,
        "",
        "no view and no replay of this lake works, and what else is missing cannot be told",
        "see which files are damaged; they were all compared with their checksums",
    )


def lake_state(lake: Lake) -> LakeState:
    """What the lake consists of, by its manifest and its folders; reads the headers of waiting batches, and no event."""
    files = [file for kind in ("events", "objects", "repeats") for file in lake.manifest.files(kind)]
    days = sorted({file.dt for file in files if file.kind == "events"})
    lag = _lag(lake)
    segments = [path for path in _files(lake.path / "spool") if path.name.endswith((SEALED_SUFFIX, OPEN_SUFFIX))]
    quarantine = [path for path in _files(lake.path / "quarantine") if path.name.endswith(".jsonl.zst")]
    return LakeState(
        files=len(files),
        bytes=sum(file.bytes for file in files),
        days=len(days),
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        segments=len(segments),
        segment_bytes=sum(_size(path) for path in segments),
        waiting=lag.events,
        waiting_since=lag.oldest,
        quarantine_files=len(quarantine),
        quarantine_bytes=sum(_size(path) for path in quarantine),
        unlisted=len(lake.unlisted()),
        retired=len(lake.manifest.retired(float("inf"))),
    )


def damage_findings(lake: Lake) -> Iterator[Finding]:
    """Files whose content is not what was written; costs one reading of the disk."""
    for fault in verify(lake):
        yield Finding(
            Severity.LOST,
            "",
            "damaged_file",
            None,
            f"{fault.path} {fault.reason}",
            None,
            None,
            fault.path,
            "its events are missing, or not what was received",
            "restore the file from a backup; ingest the log files of its day again into a new lake",
        )


def spool_findings(lake: Lake) -> Iterator[Finding]:
    """What was acknowledged and cannot be read: damage in segments that wait for the drain, and ends lost at a start of the server.

    It reads the sealed segments. What is in quarantine is a row of the ledger, too; here is the reason.
    """
    lost = quarantine_heads(sorted((lake.path / "quarantine").glob(f"*{LOST_TAIL}*.jsonl.zst"))).to_pylist()
    for record in lost:
        yield _spool_finding("lost_in_spool", record["reason"], "")
    for segment in sealed_segments(lake.path / "spool"):
        try:
            damaged = [found for found in read_segment(segment) if isinstance(found, Damage)]
        except FileNotFoundError:
            continue
        for found in damaged:
            where = f"bytes {found.start} to {found.end}, cannot be read: {found.reason}"
            yield _spool_finding("damaged_segment", f"{segment.name}, {where}", segment.name)


def _spool_finding(kind: str, found: str, detail: str) -> Finding:
    means = "what is acknowledged in these bytes is in no view and in no verdict"
    action = "check the disk; ingest the log files of that time; the bytes are kept in quarantine/"
    return Finding(Severity.LOST, "", kind, None, found, None, None, detail, means, action)


def metrics_findings(reader: LakeReader, cluster: str | None, metrics: Sequence[ServerMetrics]) -> Iterator[Finding]:
    """What the API servers counted against what the lake holds of the same time. Raises InputError for no or several clusters."""
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
    counted = sum(entry.events for entry in metrics)
    yield from _errors(name, metrics, start, end)
    yield _comparison(name, counted, held, newest, start, end)


def _window(metrics: Sequence[ServerMetrics]) -> tuple[datetime | None, datetime]:
    """From the start of the oldest process, where all tell theirs, to the last scrape."""
    starts = [entry.start_ts for entry in metrics if entry.start_ts is not None]
    start = datetime.fromtimestamp(min(starts), UTC) if len(starts) == len(metrics) else None
    return start, datetime.fromtimestamp(max(entry.scraped_ts for entry in metrics), UTC)


def _comparison(cluster: str, counted: int, held: int, newest: datetime, start: datetime | None, end: datetime) -> Finding:
    found = f"API servers counted {counted:,} events, the lake holds {held:,} of that time"
    if counted == held:
        severity, means, action = Severity.NOTE, "nothing is missing between these two times", "nothing"
    elif counted < held:
        severity = Severity.NOTE
        means = "the lake holds more than these servers sent, so other servers, or earlier processes, wrote some: nothing is proven"
        action = "give --metrics for every API server, all scraped at about the same time"
    elif newest < end:
        severity, means = Severity.POSSIBLE, "the scrape is newer than the newest event: the difference may still be on its way"
        action = "ask again once the lake has newer events"
    else:
        severity, means = Severity.LOST, f"{counted - held:,} events were recorded by the API server and are not here"
        action = "look for dropped batches in kube-apiserver's log; ingest the log files of that time"
    return Finding(severity, cluster, "server_count", abs(counted - held), found, start, end, "", means, action)


def _errors(cluster: str, metrics: Sequence[ServerMetrics], start: datetime | None, end: datetime) -> Iterator[Finding]:
    for entry in metrics:
        for plugin, count in sorted(entry.errors.items()):
            yield Finding(
                Severity.LOST,
                cluster,
                "server_error",
                count,
                f"the API server failed to keep {count:,} events in its audit backend {plugin!r}",
                start,
                end,
                entry.source,
                "these events are gone from that backend; another backend may have them",
                _PLUGIN_ACTIONS.get(plugin, "look in kube-apiserver's log"),
            )


_PLUGIN_ACTIONS = {
    "buffered": "its buffer was full: raise --audit-webhook-batch-buffer-size, or record less",
    "webhook": "its batches failed five times: the sink could not be reached or refused them, or an event in each could not be "
    "encoded; the server's log has the error after `Error in audit plugin 'webhook'`; ingest the log files of that time",
    "truncate": "events were too large even without bodies: raise --audit-webhook-truncate-max-event-size",
    "log": "the event could not be encoded (mostly an apply sent as YAML), or the log file could not be written; the server's log "
    "has the error after `Error in audit plugin 'log'`. An event that cannot be encoded costs the webhook its whole batch",
}


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    except OSError as error:
        raise LakeError(f"{folder}: cannot be read: {error.strerror}", "run it as the owner of the lake") from error


def _lag(lake: Lake) -> Lag:
    try:
        return lag_of(lake)
    except OSError as error:
        raise LakeError(f"{lake.path / 'spool'}: cannot be read: {error.strerror}", "run it as the owner of the lake") from error


def _size(path: Path) -> int:
    """A segment may be stored and removed while we look."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
