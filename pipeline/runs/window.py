"""The window of a run, and a digest of what the lake holds of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from queries import LakeReader

from ..requests.kept.facts import facts_of
from .sql import statement

_MICROSECOND = timedelta(microseconds=1)
_WITHIN = "ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """Requests received at or after `since` and before `until`; None is without bound."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def parameters(self) -> dict[str, datetime | None]:
        """As named SQL parameters."""
        return {"since": self.since, "until": self.until}

    def words(self, newest_us: int | None) -> str:
        """Which requests were taken, for a person; with no end given, those that the lake held. `newest_us` is its newest event,
        in microseconds since 1970."""
        if self.since and self.until:
            return f"window: from {_utc(self.since)} until {_utc(self.until)}"
        if self.until:
            return f"window: until {_utc(self.until)}"
        newest = f", up to {_utc(_EPOCH + timedelta(microseconds=newest_us))}" if newest_us is not None else ""
        return f"window: {f'from {_utc(self.since)}' if self.since else 'whole log'}{newest}"


def stretches(reader: LakeReader, window: Window, most: int) -> list[Window]:
    """A window cut at moments: at most so many windows, with about as many events in each."""
    if most < 2:
        return [window]
    parts = [number / most for number in range(1, most)]
    (cuts,) = reader.connection.execute(
        f"SELECT quantile_disc(ts, {parts}) FROM events WHERE {_WITHIN}", window.parameters
    ).fetchall()[0]
    moments = [window.since, *sorted(set(cuts or ())), window.until]
    return [Window(*each) for each in pairwise(moments)]


def horizon(reader: LakeReader, window: Window) -> datetime | None:
    """The end of the events that a replay of a window reads; None without end.

    A snapshot taken after the window is evidence for it if the log holds the writes in between, so the replay reads those too.
    """
    if window.until is None:
        return None
    taken: datetime | None = reader.connection.execute(statement("horizon")).fetchall()[0][0]
    return window.until if taken is None else max(window.until, taken + _MICROSECOND)


def lake_digest(reader: LakeReader, window: Window) -> str:
    """A digest of the events and objects that a replay of this window can read; see `horizon`."""
    until = horizon(reader, window)
    if until is None:
        facts = facts_of(reader)
        return f"{facts.events}-{facts.content}-{object_digest(reader)}"
    events, digest = reader.connection.execute(statement("digest"), {"until": until}).fetchall()[0]
    return f"{events}-{digest}-{object_digest(reader, until)}"


def object_digest(reader: LakeReader, until: datetime | None = None) -> str:
    """A digest of the objects of snapshots that the lake holds, until a moment."""
    return str(reader.connection.execute(statement("object_digest"), {"until": until}).fetchall()[0][0])


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
