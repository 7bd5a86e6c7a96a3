"""The audit metrics of a kube-apiserver, as scraped and saved.

Counters run since the process started (kubernetes/apiserver pkg/audit/metrics.go), so they cover the time until the scrape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ..errors import InputError

_EVENTS = "apiserver_audit_event_total"
_ERRORS = "apiserver_audit_error_total"
_REJECTED = "apiserver_audit_requests_rejected_total"
_START = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """One API server's counters. `errors` maps a plugin (buffered, webhook, truncate, log) to the number of events that it
    failed to keep. Times are seconds since the epoch; `start_ts` is None if the scrape lacks it."""

    source: str
    events: int
    scraped_ts: float
    start_ts: float | None = None
    rejected: int = 0
    errors: dict[str, int] = field(default_factory=dict)


def read_server_metrics(path: Path) -> ServerMetrics:
    """Read one scrape of /metrics. If it has no timestamps, the file's modification time is the time of the scrape.

    Raises InputError when it cannot be read or does not come from a kube-apiserver that audits.
    """
    try:
        text, modified_ts = path.read_text(encoding="utf-8"), path.stat().st_mtime
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no metrics: {error}", "save `kubectl get --raw /metrics`") from None
    return parse_server_metrics(text, str(path), modified_ts)


def parse_server_metrics(text: str, source: str, scraped_ts: float) -> ServerMetrics:
    """The counters of a scrape, made at `scraped_ts` where it has no timestamps. Raises InputError."""
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise InputError(f"{source}: no metrics: {error}", "save `kubectl get --raw /metrics`") from None
    samples = [sample for family in families for sample in family.samples]
    counted = [sample for sample in samples if sample.name == _EVENTS]
    if not counted:
        raise InputError(f"{source}: has no {_EVENTS}", "save `kubectl get --raw /metrics` of a kube-apiserver that audits")
    stamps = [float(sample.timestamp) for sample in counted if sample.timestamp is not None]
    errors: dict[str, int] = {}
    for sample in samples:
        if sample.name == _ERRORS and sample.value:
            plugin = sample.labels.get("plugin", "")
            errors[plugin] = errors.get(plugin, 0) + int(sample.value)
    return ServerMetrics(
        source,
        int(sum(sample.value for sample in counted)),
        max(stamps, default=scraped_ts),
        next((float(sample.value) for sample in samples if sample.name == _START), None),
        int(sum(sample.value for sample in samples if sample.name == _REJECTED)),
        errors,
    )
