"""How many acknowledged events are not in the lake yet, as the running server measures it and as any other process can."""

from __future__ import annotations

import math
import os
from contextlib import closing
from pathlib import Path

from ingest.lake import MANIFEST, Lake
from ingest.manifest import Manifest
from ingest.spooling.drain import batches_done, lag_of
from ingest.spooling.lag import Lag
from ingest.spooling.spool import Spool
from ingest.telemetry import SinkMetrics


class LagGauge:
    """Measures the lag of the drain for `/metrics` and `/readyz`. Not thread-safe: one thread measures and closes."""

    def __init__(self, lake: Path, spool: Spool, metrics: SinkMetrics) -> None:
        self._path = lake / MANIFEST
        self._spool = spool
        self._metrics = metrics
        self._manifest: Manifest | None = None
        self._opened: os.stat_result | None = None
        self.lag: Lag | None = None  # not known yet
        metrics.drain_lag_events.set(math.nan)
        metrics.drain_lag_seconds.set(math.nan)

    def measure(self, now_ts: float) -> None:
        """Measure again; call it every second or so. Raises LakeError or OSError when the lag is unknown, and keeps the last
        value."""
        manifest = self._current()
        self.lag = self._spool.measure_lag(batches_done(manifest) if manifest is not None else {})
        self._metrics.drain_lag_events.set(self.lag.events)
        self._metrics.drain_lag_seconds.set(self.lag.seconds(now_ts))

    def close(self) -> None:
        """Release the manifest."""
        if self._manifest is not None:
            self._manifest.close()
        self._manifest = self._opened = None

    def _current(self) -> Manifest | None:
        """The manifest that now has this name; None until the drain has made it."""
        found = self._path.stat() if self._path.exists() else None
        if self._opened is not None and (found is None or not os.path.samestat(found, self._opened)):
            self.close()
        if self._manifest is None and found is not None:
            self._manifest, self._opened = Manifest(self._path), found
        return self._manifest


def lag_of_lake(path: Path) -> Lag | None:
    """The acknowledged events that are not in this lake yet; None where the spool may not be read. Raises LakeError."""
    try:
        with closing(Lake.open(path)) as lake:
            return lag_of(lake)
    except OSError:
        return None
