"""The counters of the sink, as Prometheus metrics in a registry of their own.

Labels stay few: `reason` comes from the sink's own table, and the number of `cluster` values is capped, because the sender chooses
the name in the URL.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
CLUSTER_LABELS_MAX = 200
OTHER_CLUSTERS = "other"
DRAIN_RESULTS = ("stored", "duplicate", "quarantined")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


class SinkMetrics:
    """The sink's counters. Thread-safe; one instance per process."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.batches_received = Counter("hindcast_sink_batches_received", "POST bodies that arrived whole.", registry=registry)
        self.batches_duplicate = Counter(
            "hindcast_sink_batches_duplicate",
            "Bodies answered 200 without storing them again: the sender had repeated them.",
            registry=registry,
        )
        self.batches_refused = Counter(
            "hindcast_sink_batches_refused", "Bodies that were not acknowledged, by reason.", ["reason"], registry=registry
        )
        self.events_received = Counter("hindcast_sink_events_received", "Items in the EventLists that arrived.", registry=registry)
        self.events_stored = Counter(
            "hindcast_sink_events_stored", "Events that were durable before they were acknowledged.", registry=registry
        )
        self.events_duplicate = Counter(
            "hindcast_sink_events_duplicate", "Events of batches that the sender had repeated.", registry=registry
        )
        self.events_quarantined = Counter(
            "hindcast_sink_events_quarantined", "Items that are not events; kept in quarantine with the reason.", registry=registry
        )
        self.events_redacted = Counter(
            "hindcast_sink_events_redacted", "Events from which a credential was taken out.", registry=registry
        )
        self.bytes_received = Counter("hindcast_sink_bytes_received", "Bytes of the bodies that arrived.", registry=registry)
        self.reviews_stored = Counter(
            "hindcast_sink_reviews_stored", "AdmissionReviews that were durable before they were answered.", registry=registry
        )
        self.review_seconds = Histogram(
            "hindcast_sink_review_seconds",
            "From the whole AdmissionReview to its answer: the request of a client waits so long.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.backlog_bytes = Gauge("hindcast_spool_backlog_bytes", "Compressed bytes that wait for the drain.", registry=registry)
        self.lost_segments = Counter(
            "hindcast_spool_lost_segments",
            "Segments found at the start with an end that cannot be read; the bytes are in quarantine. "
            "`acknowledged` is yes, or possibly where that cannot be known.",
            ["acknowledged"],
            registry=registry,
        )
        self.ready = Gauge(
            "hindcast_sink_ready", "1 while the sink would store a batch durably, as /readyz says; else 0.", registry=registry
        )
        self.disk_free_bytes = Gauge("hindcast_disk_free_bytes", "Free bytes on the disk of the lake.", registry=registry)
        self.disk_free_bytes_min = Gauge(
            "hindcast_disk_free_bytes_min", "With fewer free bytes, the sink asks senders to wait.", registry=registry
        )
        self.in_flight_bytes = Gauge("hindcast_sink_in_flight_bytes", "Bytes of bodies that are being received.", registry=registry)
        self.fsync_seconds = Histogram(
            "hindcast_spool_fsync_seconds", "Duration of one fdatasync of the spool.", buckets=_SECONDS, registry=registry
        )
        self.ack_seconds = Histogram(
            "hindcast_sink_ack_seconds", "From the whole body to the decision to answer.", buckets=_SECONDS, registry=registry
        )
        self.last_event_timestamp_seconds = Gauge(
            "hindcast_sink_last_event_timestamp_seconds",
            "When the last batch of a cluster was acknowledged, or its newest stored event made; silence is a gap in the evidence.",
            ["cluster"],
            registry=registry,
        )
        self.events_drained = Counter(
            "hindcast_drain_events",
            "Events that the drain took from the spool, by what became of them: stored, duplicate of a stored one, quarantined.",
            ["result"],
            registry=registry,
        )
        self.drain_passes_failed = Counter(
            "hindcast_drain_passes_failed",
            "Passes of the drain that were given up; the log says why.",
            registry=registry,
        )
        self.drain_timestamp_seconds = Gauge(
            "hindcast_drain_last_stored_timestamp_seconds", "When the drain last stored something.", registry=registry
        )
        self.drain_lag_events = Gauge(
            "hindcast_drain_lag_events", "Events that were acknowledged and are not in the lake yet.", registry=registry
        )
        self.drain_lag_seconds = Gauge(
            "hindcast_drain_lag_seconds",
            "How long ago the oldest event that is not in the lake yet was received; 0 when none waits.",
            registry=registry,
        )
        self.process_restarts = Counter(
            "hindcast_process_restarts", "How often a process had to be started again.", ["process"], registry=registry
        )
        self.process_up = Gauge("hindcast_process_up", "1 while a process runs.", ["process"], registry=registry)
        for result in DRAIN_RESULTS:
            self.events_drained.labels(result)
        for sure in ("yes", "possibly"):
            self.lost_segments.labels(sure)
        self._clusters: set[str] = set()

    def saw_cluster(self, cluster: str, received_ts: float) -> None:
        """Record when a cluster last sent a batch; `received_ts` is seconds since the epoch."""
        if cluster not in self._clusters:
            if len(self._clusters) >= CLUSTER_LABELS_MAX:
                cluster = OTHER_CLUSTERS
            self._clusters.add(cluster)
        self.last_event_timestamp_seconds.labels(cluster).set(received_ts)

    def expect_cluster(self, cluster: str, newest_ts: float) -> None:
        """Give a cluster that may write a series before it sends: since when its silence counts, in seconds since the epoch."""
        if cluster not in self._clusters:
            self.saw_cluster(cluster, newest_ts)

    def render(self) -> bytes:
        """The exposition text; its media type is CONTENT_TYPE."""
        return generate_latest(self.registry)
