"""Counts over time that a stage has for its report and its page: one row of bars for each of a few things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

_SLOTS = 120
_WIDTHS = (1, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 86400)


class Tone(StrEnum):
    """The colour of a row of bars, by what it means for the requests."""

    DENIED = "denied"
    UNKNOWN = "unknown"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class Moment:
    """So many of one thing in the span of time that begins at `start`."""

    start: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Bars:
    """The counts of one thing, in the order of time; a span without a count has no moment."""

    what: str
    tone: Tone
    moments: tuple[Moment, ...]

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(each.count for each in self.moments)

    @property
    def peak(self) -> int:
        """The largest count; 0 without any."""
        return max((each.count for each in self.moments), default=0)

    @property
    def busiest(self) -> datetime | None:
        """When the first span with the largest count begins; None without any."""
        return next((each.start for each in self.moments if each.count == self.peak), None)


@dataclass(frozen=True, slots=True)
class OverTime:
    """Rows of bars over the same time. `chart` is its title, `unit` the counted thing in the plural, `note` says what counts mean.

    Each span lasts `slot_seconds`; the first begins at `first`, the last one at `last`.
    """

    chart: str
    note: str
    unit: str
    slot_seconds: int
    first: datetime
    last: datetime
    bars: tuple[Bars, ...]

    @property
    def slots(self) -> int:
        """How many spans there are, with those that have no count."""
        return (self.last - self.first) // timedelta(seconds=self.slot_seconds) + 1


def bars(what: str, tone: Tone, counts: Iterable[tuple[datetime, int]]) -> Bars:
    """The row of one thing. Counts of the same span, as those of several clusters, are added up; zeros are left out."""
    totals = Counter[datetime]()
    for start, count in counts:
        totals[start] += count
    return Bars(what, tone, tuple(Moment(start, count) for start, count in sorted(totals.items()) if count))


def over_time(chart: str, note: str, unit: str, slot_seconds: int, rows: Iterable[Bars]) -> OverTime | None:
    """The rows with a count, over the time that they span together; None without a count."""
    found = tuple(each for each in rows if each.moments)
    starts = [moment.start for each in found for moment in each.moments]
    return OverTime(chart, note, unit, slot_seconds, min(starts), max(starts), found) if found else None


def slot_width(length: int) -> int:
    """How many seconds each slot lasts, so that a chart over so many seconds has at most some hundred of them."""
    return next((width for width in _WIDTHS if length / width <= _SLOTS), _WIDTHS[-1])


def span_words(seconds: int) -> str:
    """The length of a span in words, such as `5 seconds`, `minute` or `6 hours`, to follow `per` or `each`."""
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % unit == 0:
            return name if seconds == unit else f"{seconds // unit} {name}s"
    return "second" if seconds == 1 else f"{seconds} seconds"
