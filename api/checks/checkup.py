"""The findings of `hindcast doctor` about a lake: the loss ledger, damage, and the lake's state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from ingest.counted import counted
from ingest.errors import LakeError
from ingest.folding import unfolded
from ingest.lake import Lake
from ingest.maintain import verify, with_tokens
from ingest.quarantine import quarantine_heads
from ingest.retention import days_after, present_day
from ingest.reviewed import CONTRADICTS, REVIEWED
from ingest.spooling.drain import deaths_of, lag_of
from ingest.spooling.lag import Lag
from ingest.spooling.repair import LOST_TAIL
from ingest.spooling.segment import Damage, read_segment
from ingest.spooling.segment_files import OPEN_SUFFIX, SEALED_SUFFIX, sealed_segments
from queries import LakeReader
from queries.ledger import LOSS_KINDS, Severity
from queries.rows import Loss

# The longest time for which an API server repeats a batch before it drops it: five attempts of 30 s, with 97 s of waiting between
# them. With the --audit-webhook-initial-backoff=30s of `hindcast init` the waiting is 292 s (apiserver
# pkg/util/webhook/webhook.go).
_REPEATED_FOR = timedelta(seconds=450)
_DETAILS_SHOWN = 4
UNREADABLE = "unreadable"
DRAIN_DIED = "drain_died"
_ORDER = list(Severity)
_CONTRADICTED = f"""
    SELECT cluster, count(*) AS requests, min(ts) AS first_ts, max(ts) AS last_ts FROM events
    WHERE list_contains(flags, '{REVIEWED}') AND review ->> '$.unclear' = '{CONTRADICTS}'
    GROUP BY cluster ORDER BY cluster"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or doubt. `count` is None where there is nothing to count; `found` is a sentence with the count."""

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
    """The state of a lake. Sizes are in bytes. `waiting` counts acknowledged events that are not in the views yet; the oldest of
    them was received at `waiting_since`."""

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
    """The rows of `losses`, one finding for each cluster and kind, the worst first. `now` shows which events may still arrive."""
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
    """The finding that the engine could not read the lake, so that there is no ledger."""
    return Finding(
        Severity.LOST,
        "",
        UNREADABLE,
        None,
        f"the events cannot be read: {str(error).splitlines()[0]}",
        None,
        None,
        "",
        "no view and no replay of this lake works, and further losses are unknown",
        "see which files are damaged; they were all compared with their checksums",
    )


def lake_state(lake: Lake) -> LakeState:
    """The state of the lake, from its manifest and folders; this reads the headers of waiting batches, and no event."""
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
    """Files whose content differs from their checksum; costs one reading of the disk."""
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
            "its events are missing or altered",
            "restore the file from a backup; ingest the log files of its day again into a new lake",
        )


def clock_findings(lake: Lake, now: datetime) -> Iterator[Finding]:
    """What the days of the events say of clocks; this reads no event."""
    if after := days_after(lake, now.timestamp()):
        yield Finding(
            Severity.NOTE,
            "",
            "events_after_now",
            len(after),
            f"events of {counted(len(after), 'day')} that this machine's clock has not reached",
            None,
            None,
            f"{after[0].isoformat()} to {after[-1].isoformat()}",
            "a sender's clock is ahead, or that of this machine is behind; retention counts from the days before",
            "correct the clock",
        )
    today = present_day(lake, now.timestamp())
    newest = max((file.dt for file in lake.manifest.files("events") if file.dt <= now.date().isoformat()), default="")
    if today and newest > today.isoformat():
        yield Finding(
            Severity.NOTE,
            "",
            "clock_jump",
            None,
            f"the newest events are of {newest}, days after those of {today.isoformat()}",
            None,
            None,
            "",
            "a clock may have jumped; retention counts from the earlier day until events of three days follow",
            "correct the clock if it is wrong",
        )


def twice_findings(lake: Lake) -> Iterator[Finding]:
    """Requests to aggregated APIs that a lake of an earlier version holds twice; this reads auditIDs and groups of all events."""
    counts: Counter[str] = Counter()
    days: defaultdict[str, list[str]] = defaultdict(list)
    for files, count in unfolded(lake):
        counts[files[0].cluster] += count
        days[files[0].cluster].append(files[0].dt)
    for cluster, count in counts.items():
        yield Finding(
            Severity.NOTE,
            cluster,
            "counted_twice",
            count,
            f"{counted(count, 'event')} of requests to aggregated APIs, stored twice",
            None,
            None,
            f"{min(days[cluster])} to {max(days[cluster])}",
            "an earlier version of Hindcast stored the events of both servers, so reports and replays count these requests twice",
            "run `hindcast compact`",
        )


def spool_findings(lake: Lake) -> Iterator[Finding]:
    """Acknowledged bytes that cannot be read: damage in segments that wait for the drain, and ends lost at a start of the server.

    It reads the sealed segments. Quarantined records also have a row in the ledger; here is the reason.
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


def review_findings(reader: LakeReader) -> Iterator[Finding]:
    """AdmissionReviews that the log contradicts, by cluster."""
    rows = reader.rows(_CONTRADICTED)
    for row in rows:
        yield Finding(
            Severity.NOTE,
            row["cluster"],
            "contradicting_review",
            row["requests"],
            f"{counted(row['requests'], 'request')} with an AdmissionReview that shows another object than the log",
            row["first_ts"],
            row["last_ts"],
            "",
            "the log decides alone; the sender of the review is not the API server that wrote the log, or sent it later",
            "see who knows the recorder's token; `hindcast explain` names the review",
        )


def token_findings(lake: Lake) -> Iterator[Finding]:
    """Records of lakes of earlier versions that show the token of Hindcast's own recorder."""
    if rows := sum(with_tokens(lake).values()):
        yield Finding(
            Severity.NOTE,
            "",
            "token_in_lake",
            rows,
            f"{counted(rows, 'record')} with the address of the recorder webhook, and its token in it",
            None,
            None,
            "",
            "whoever may read this lake, or a copy of it, can send AdmissionReviews in the name of the API server",
            "run `hindcast compact`, which removes it, and `hindcast init --recorder` for a new token; copies keep the old one",
        )


def drain_findings(lake: Lake) -> Iterator[Finding]:
    """How often the process that stores events died while it did so."""
    if deaths := deaths_of(lake.manifest):
        yield Finding(
            Severity.POSSIBLE,
            "",
            DRAIN_DIED,
            deaths,
            f"the process that stores acknowledged events died {counted(deaths, 'time')} while it stored some",
            None,
            None,
            "",
            "nothing is lost: the next one goes on with fewer events at a time, and sets aside an event on which it dies alone",
            "see why in the log of `hindcast serve`, memory limits first; `hindcast quarantine` shows what was set aside",
        )


def _spool_finding(kind: str, found: str, detail: str) -> Finding:
    means = "no view and no verdict has the acknowledged events in these bytes"
    action = "check the disk; ingest the log files of that time; the bytes are kept in quarantine/"
    return Finding(Severity.LOST, "", kind, None, found, None, None, detail, means, action)


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
    """The drain may store and remove a segment meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
