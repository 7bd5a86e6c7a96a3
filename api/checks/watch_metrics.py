"""Readiness as Prometheus metrics: a few numbers for each (policy, binding), and nothing that grows with the traffic."""

from __future__ import annotations

from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Gauge, start_http_server, write_to_textfile

from ingest.errors import InputError
from pipeline.readiness.model import Status
from pipeline.readiness.watching import Cursor, Watch

# On loopback alone: a proxy, or the textfile, serves readers elsewhere.
HOST = "127.0.0.1"
VALUES = {Status.NOT_READY: 0, Status.INSUFFICIENT_EVIDENCE: 1, Status.READY_WITH_EXEMPTIONS: 2, Status.READY: 3}
_STATUS_HELP = "Whether the policy may go to Deny: " + ", ".join(f"{value} {status}" for status, value in VALUES.items())


class WatchMetrics:
    """The metrics of one watch. A policy whose agreement with the record is unknown has no sample for it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._status = self._gauge("hindcast_policy_status", _STATUS_HELP)
        self._units = self._gauge("hindcast_policy_judged_units", "Workloads (root owners) with a judged request.")
        self._denied_units = self._gauge("hindcast_policy_denied_units", "Workloads that would have been denied.")
        self._denied_users = self._gauge("hindcast_policy_denied_users", "Users that would have been denied.")
        self._rate = self._gauge(
            "hindcast_policy_denied_units_rate_upper", "Upper bound of the share of workloads that would be denied, by the rules."
        )
        self._denied = self._gauge("hindcast_policy_denied_requests", "Requests that would have been denied.")
        self._matched = self._gauge("hindcast_policy_matched_requests", "Requests that the policy matched.")
        self._unknown = self._gauge("hindcast_policy_unknown_share", "Share of the matched requests that could not be judged.")
        self._agreement = self._gauge(
            "hindcast_policy_agreement", "Share of the recorded outcomes that a replay of the policies in force reproduces."
        )
        self._last_run = Gauge(
            "hindcast_watch_last_run_timestamp_seconds", "When the lake was last looked at in full.", registry=self.registry
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ["policy", "binding"], registry=self.registry)

    def set(self, watch: Watch, cursor: Cursor, now_seconds: float) -> None:
        """Set the metrics to the state after a look."""
        for key in watch.watched:
            labels = (key[0], key[1] or "")
            figures, fidelity = watch.figures(cursor, key), watch.fidelity_of(key)
            exposure, denials = figures.exposure, figures.denials
            self._status.labels(*labels).set(VALUES[figures.decide(fidelity, watch.rules)[0]])
            self._units.labels(*labels).set(exposure.units_judged)
            self._denied_units.labels(*labels).set(denials.units)
            self._denied_users.labels(*labels).set(denials.users)
            self._rate.labels(*labels).set(denials.unit_rate_upper)
            self._denied.labels(*labels).set(denials.requests)
            self._matched.labels(*labels).set(exposure.requests_matched)
            self._unknown.labels(*labels).set(exposure.unknown_share)
            if fidelity.agreement is not None:
                self._agreement.labels(*labels).set(fidelity.agreement)
        self._last_run.set(now_seconds)

    def write(self, path: Path) -> None:
        """Write a file for node_exporter's textfile collector, replaced in one step. Raises InputError."""
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as error:
            raise InputError(f"--metrics-file: {path} cannot be written: {error.strerror}") from error

    def serve(self, port: int) -> WSGIServer:
        """Serve them on a port of this machine, 0 for any free one; the caller shuts the server down. Raises InputError."""
        try:
            server, _ = start_http_server(port, addr=HOST, registry=self.registry)
        except OSError as error:
            raise InputError(f"--metrics-port: {HOST}:{port} cannot be served: {error.strerror}", "give another port") from error
        return server
