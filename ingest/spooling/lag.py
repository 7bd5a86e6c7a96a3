"""The lag of the drain: how many acknowledged events are not in the lake yet, and since when the oldest of them waits.

The spool knows the acknowledged batches. The manifest knows how many batches of each segment are stored. The lag is
the difference. While events arrive it is hardly ever zero: a batch waits until its segment is sealed, and until its unit is stored.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Lag:
    """`events` were acknowledged and are not in the lake; `oldest_ts` is when the oldest of them was received, in seconds since
    the epoch."""

    events: int = 0
    oldest_ts: float | None = None

    @property
    def oldest(self) -> datetime | None:
        """When the oldest of them was received."""
        return None if self.oldest_ts is None else datetime.fromtimestamp(self.oldest_ts, UTC)

    def seconds(self, now_ts: float) -> float:
        """The age of the oldest event that waits, since its batch was received; 0 when no event waits."""
        return 0.0 if self.oldest_ts is None else max(0.0, now_ts - self.oldest_ts)


@dataclass(slots=True)
class _Batches:
    """The batches of one segment: events up to and including each, and when each was received."""

    ends: list[int] = field(default_factory=list)
    received_ts: list[float] = field(default_factory=list)

    def add(self, events: int, received_ts: float) -> None:
        self.ends.append((self.ends[-1] if self.ends else 0) + events)
        self.received_ts.append(received_ts)

    def after(self, done: int) -> Lag:
        """The batches that wait behind the first `done` ones."""
        if done >= len(self.ends):
            return Lag()
        before = self.ends[done - 1] if done else 0
        first = bisect_right(self.ends, before)  # a batch without events delays nothing
        return Lag(self.ends[-1] - before, self.received_ts[first]) if first < len(self.ends) else Lag()


class Waiting:
    """The acknowledged batches by the name of their segment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[str, _Batches] = {}

    def add(self, segment: str, events: int, received_ts: float) -> None:
        """Take note of one more batch of a segment; `received_ts` is seconds since the epoch."""
        with self._lock:
            self._segments.setdefault(segment, _Batches()).add(events, received_ts)

    def move(self, segment: str, to: str) -> None:
        """Rename a segment that was written again under another name."""
        with self._lock:
            self._segments[to] = self._segments.pop(segment, _Batches())

    def forget_stored(self, is_there: Callable[[str], bool]) -> None:
        """Forget the segments that are gone: only the drain removes them, and only once all of their batches are stored."""
        with self._lock:
            names = list(self._segments)
        gone = [name for name in names if not is_there(name)]
        with self._lock:
            for name in gone:
                del self._segments[name]

    def lag(self, done: Mapping[str, int]) -> Lag:
        """The waiting events, given how many batches of each segment are stored."""
        with self._lock:
            found = [batches.after(done.get(name, 0)) for name, batches in self._segments.items()]
        times = [lag.oldest_ts for lag in found if lag.oldest_ts is not None]
        return Lag(sum(lag.events for lag in found), min(times, default=None))
