"""The sink: a batch comes in, is made durable, and only then is acknowledged.

An API server repeats a batch up to five times on any answer but 2xx and then drops it (kubernetes/apiserver
plugin/pkg/audit/webhook/webhook.go). So the sink never refuses a batch because of one invalid item. Invalid items go to quarantine,
events go to the spool, and the drain decodes them later. It refuses only a batch that it cannot store, and says when to try again.
"""

from __future__ import annotations

import errno
import re
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
import xxhash

from .apart import APART_BYTES, Apart, take_apart, take_review
from .errors import LakeError
from .eventlist import BadItem, NotAnEventListError, TooMuchError
from .flight import Flight, Flights
from .quarantine import Quarantined, write_quarantine
from .redaction.redact import Redactor
from .sink_limits import SinkLimits
from .spooling.spool import DisplacedError, Spool, SpoolWriteError
from .telemetry import SinkMetrics

# The cluster's name becomes a folder's and a partition's name in some engines, so only safe characters are allowed.
_CLUSTER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")

_log = structlog.get_logger("hindcast.sink")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is durable, or was already: answer 200."""

    events: int
    quarantined: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The batch is not stored. `status` is an HTTP status; `retry_after_seconds` is None when a repetition cannot help."""

    reason: str
    status: int
    retry_after_seconds: int | None
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _RefusalKind:
    status: int
    retry_after_seconds: int | None
    hint: str


# Every reason for which a batch is not acknowledged. An API server honours an integer Retry-After within 30 s of its first attempt.
REFUSALS = {
    "cluster_name": _RefusalKind(400, None, "use lower-case letters, digits, '-', '_' and '.', at most 63 in all"),
    "not_an_event_list": _RefusalKind(400, None, "point --audit-webhook-config-file of a kube-apiserver here"),
    "body_too_large": _RefusalKind(413, None, "set --audit-webhook-truncate-enabled or a smaller --audit-webhook-batch-max-size"),
    "too_much": _RefusalKind(413, None, "set a smaller --audit-webhook-batch-max-size"),
    "busy": _RefusalKind(503, 1, "too many bytes are being received; the sender tries again by itself"),
    "lake_displaced": _RefusalKind(503, 5, "put the lake's folder back, or restart the server to use the new folder"),
    "disk_full": _RefusalKind(503, 5, "free space on the disk of the lake"),
    "disk_failed": _RefusalKind(503, 5, "see whether the disk of the lake is well, and who may write there"),
    "stopping": _RefusalKind(503, 2, "the server is being restarted; the sender tries again by itself"),
}


def refuse(reason: str, message: str, hint: str = "") -> Refused:
    """A refusal of one of the kinds in REFUSALS."""
    kind = REFUSALS[reason]
    return Refused(reason, kind.status, kind.retry_after_seconds, message, hint or kind.hint)


def _of_disk(error: BaseException | None, message: str) -> Refused:
    """The refusal for a failed write: only a full disk or a used-up quota is one that more space mends."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return refuse("disk_full", message)
        error = error.__cause__
    return refuse("disk_failed", message)


def is_cluster_name(text: str) -> bool:
    """Whether a text may name a cluster."""
    return _CLUSTER_NAME.fullmatch(text) is not None


class DigestWindow:
    """The bodies that were acknowledged lately, so that a repeated body is not stored again. Thread-safe.

    It only saves work: the drain finds the other duplicates, because it knows every stored event.
    """

    def __init__(self, seconds: float, count_max: int) -> None:
        self._seconds = seconds
        self._count_max = count_max
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], float] = OrderedDict()

    def __contains__(self, key: tuple[str, str]) -> bool:
        with self._lock:
            return key in self._seen

    def add(self, cluster: str, digest: str, received_ts: float) -> None:
        """Remember an acknowledged body and forget those older than the window."""
        with self._lock:
            self._seen[cluster, digest] = received_ts
            self._seen.move_to_end((cluster, digest))
            while self._seen:
                oldest = next(iter(self._seen))
                if len(self._seen) <= self._count_max and self._seen[oldest] >= received_ts - self._seconds:
                    break
                del self._seen[oldest]


class Sink:
    """Takes POST bodies and makes them durable. Its methods may be called from many threads.

    With `redactor` None every body is kept unchanged. This class does not speak HTTP; a refusal carries the status of its kind.
    """

    def __init__(
        self,
        spool: Spool,
        quarantine_directory: Path,
        *,
        redactor: Redactor | None,
        limits: SinkLimits | None = None,
        metrics: SinkMetrics | None = None,
    ) -> None:
        self.limits = limits or SinkLimits()
        self.metrics = metrics or SinkMetrics()
        self._spool = spool
        self._quarantine_directory = quarantine_directory
        self._redactor = redactor
        self._apart = Apart(redactor)
        self._flights = Flights(
            self.limits.in_flight_bytes_max, self.limits.requests_per_sender_max, self.metrics.in_flight_bytes.set
        )
        self._stopping = False
        self._disk_trouble: Refused | None = None
        self._is_behind = False  # the last logged state
        self._displaced = ""  # why no reader of the lake would see a batch written now
        self._write_trouble: Refused | None = None  # why the last batch was not stored; cleared when a batch or a probe is written
        self.metrics.disk_free_bytes_min.set(self.limits.disk_free_bytes_min)
        for reason in REFUSALS:  # a counter that begins above 0 shows no increase
            self.metrics.batches_refused.labels(reason)
        self._digests = DigestWindow(self.limits.digest_seconds, self.limits.digests_max)
        for header in spool.headers():
            self._digests.add(header.cluster, header.digest, header.received_ts)
        self.look_around()

    @contextmanager
    def flight(self, cluster: str, body_bytes: int, sender: str) -> Iterator[Flight | Refused]:
        """Admit a body of this size that begins to arrive; yields the counter of its bytes, or a refusal.

        `sender` has a share of the room. It is the proven identity, or else the address.
        """
        refusal = refuse("stopping", "the server is stopping") if self._stopping else self._cannot_take(cluster, body_bytes)
        if refusal is not None:
            yield self._counted(refusal)
            return
        flight = self._flights.begin(sender)
        if isinstance(flight, str):
            yield self._counted(refuse("busy", flight))
            return
        try:
            yield flight
        finally:
            flight.end()

    def no_room(self, why: str) -> Refused:
        """The refusal of a body whose bytes find no room."""
        return self._counted(refuse("busy", why))

    def close(self) -> None:
        """End the processes that take large lists apart."""
        self._apart.close()

    def accept(self, cluster: str, body: bytes | bytearray, received_ts: float) -> Accepted | Refused:
        """Store one POST body; when this returns Accepted, every event of it survives a crash of the machine.

        `received_ts` is seconds since the epoch. Blocks for an fdatasync, which it shares with other callers.
        """
        started = time.perf_counter()
        refusal = self._cannot_take(cluster, len(body))
        result = refusal or self._store(cluster, body, received_ts)
        self.metrics.ack_seconds.observe(time.perf_counter() - started)
        if isinstance(result, Refused):
            return self._counted(result)
        self.metrics.saw_cluster(cluster, received_ts)
        return result

    def accept_review(self, cluster: str, body: bytes | bytearray, received_ts: float) -> Accepted | Refused:
        """The same for the AdmissionReview of one request, which becomes an event without an answer."""
        started = time.perf_counter()
        result = self._cannot_take(cluster, len(body)) or self._store(cluster, body, received_ts, is_review=True)
        self.metrics.review_seconds.observe(time.perf_counter() - started)
        if isinstance(result, Refused):
            return self._counted(result)
        self.metrics.reviews_stored.inc()
        return result

    def look_around(self) -> None:
        """Check the disk and the progress of the drain; call it about every second."""
        directory = self._spool.directory
        try:
            free_bytes = shutil.disk_usage(directory).free
            self.metrics.disk_free_bytes.set(free_bytes)
            self.metrics.backlog_bytes.set(self._spool.measure_backlog())
            short = free_bytes < self.limits.disk_free_bytes_min
            trouble = (
                refuse("disk_full", f"{directory}: less than {self.limits.disk_free_bytes_min} bytes are free") if short else None
            )
        except OSError as error:
            trouble = _of_disk(error, f"{directory}: the spool cannot be read: {error.strerror or error}")
        displaced = self._spool.why_displaced()
        if displaced != self._displaced:
            _log.error("lake_displaced" if displaced else "lake_is_back", trouble=displaced or self._displaced)
        self._displaced = displaced
        if self._write_trouble:
            with suppress(OSError, DisplacedError):
                self._spool.probe()
                self._write_trouble = None
        warning = self.warning()
        if bool(warning) != self._is_behind:
            _log.warning("drain_is_behind" if warning else "drain_caught_up", backlog_bytes=self._spool.backlog_bytes)
        self._is_behind = bool(warning)
        if trouble != self._disk_trouble:
            told = trouble or self._disk_trouble
            _log.warning("disk_trouble" if trouble else "disk_recovered", trouble=told.message if told else "")
        self._disk_trouble = trouble
        self.metrics.ready.set(not self._stopping and self.trouble() is None)

    def stop_accepting(self) -> None:
        """Refuse every new body from now on; bodies that are already arriving are still taken."""
        self._stopping = True
        self.metrics.ready.set(0)

    def why_not_ready(self) -> Refused | None:
        """The reason for which a batch of any size would be refused now, or None."""
        if self._displaced:
            return refuse("lake_displaced", self._displaced)
        return self._disk_trouble

    def warning(self) -> str:
        """A warning for the operator while batches are still taken; else empty."""
        waiting, limit = self._spool.backlog_bytes, self.limits.backlog_bytes_max
        if waiting <= limit:
            return ""
        return f"{waiting} bytes wait for the drain, more than {limit}: batches are taken until the disk is nearly full"

    def trouble(self) -> Refused | None:
        """Why batches are refused now or hidden from every reader, or None.

        Unlike `why_not_ready` it also covers failing writes and seals, which the sink tries again with the next batch.
        """
        unsealed = self._spool.seal_error
        if (found := self.why_not_ready() or self._write_trouble) is not None or unsealed is None:
            return found
        return _of_disk(unsealed, f"the open segment could not be sealed: {unsealed.strerror or unsealed}")

    def _cannot_take(self, cluster: str, body_bytes: int) -> Refused | None:
        if not is_cluster_name(cluster):
            return refuse("cluster_name", f"{cluster[:80]!r} does not name a cluster")
        if body_bytes > self.limits.body_bytes_max:
            return refuse("body_too_large", f"the body has {body_bytes} bytes, the limit is {self.limits.body_bytes_max}")
        return self.why_not_ready()

    def _store(self, cluster: str, body: bytes | bytearray, received_ts: float, is_review: bool = False) -> Accepted | Refused:
        metrics = self.metrics
        digest = xxhash.xxh3_128_hexdigest(body)
        duplicate = (cluster, digest) in self._digests
        try:
            if is_review:
                events = take_review(body, received_ts, self._redactor)
            elif len(body) > APART_BYTES:
                events = self._apart.take_apart(body, self.limits.items_max)
            else:
                events = take_apart(body, self.limits.items_max, self._redactor)
        except TooMuchError as error:
            return refuse("too_much", error.message, error.hint)
        except NotAnEventListError as error:
            return refuse("not_an_event_list", error.message, error.hint)
        except LakeError as error:
            return refuse("busy", error.message, error.hint)
        metrics.batches_received.inc()
        metrics.bytes_received.inc(len(body))
        metrics.events_received.inc(len(events.lines) + len(events.bad))
        if duplicate and not self._spool.why_displaced():
            metrics.batches_duplicate.inc()
            metrics.events_duplicate.inc(len(events.lines))
            return Accepted(len(events.lines), len(events.bad), duplicate=True)
        if events.redacted:
            metrics.events_redacted.inc(events.redacted)
        lines = events.lines
        try:
            self._quarantine(cluster, digest, events.bad, received_ts)
            if lines:
                self._spool.append(cluster, digest, received_ts, lines)
            else:
                self._spool.check_place()
        except DisplacedError as error:
            _log.error("batch_not_stored", cluster=cluster, error=str(error))
            return refuse("lake_displaced", error.message)
        except (LakeError, OSError) as error:
            _log.error("batch_not_stored", cluster=cluster, error=str(error))
            self._write_trouble = _of_disk(error, str(error.message if isinstance(error, SpoolWriteError) else error))
            return self._write_trouble
        self._write_trouble = None
        self._digests.add(cluster, digest, received_ts)
        metrics.events_stored.inc(len(lines))
        return Accepted(len(lines), len(events.bad))

    def _quarantine(self, cluster: str, digest: str, bad: list[BadItem], received_ts: float) -> None:
        if not bad:
            return
        self._spool.check_place()  # otherwise the folder would be made again at the lake's old place
        records = [Quarantined("sink", cluster, received_ts, item.reason, item.raw, sealed=True) for item in bad]
        # The file is named after the body: when the sender repeats the body, the file is replaced, and no record counts twice.
        write_quarantine(self._quarantine_directory, records, f"sink-{cluster}-{digest}")
        self.metrics.events_quarantined.inc(len(bad))
        _log.warning("events_quarantined", cluster=cluster, count=len(bad), reason=bad[0].reason)

    def _counted(self, refusal: Refused) -> Refused:
        self.metrics.batches_refused.labels(refusal.reason).inc()
        return refusal
