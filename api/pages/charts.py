"""Bars for the pages: figures per day as rectangles in a box of 100 by 100, which templates draw as SVG and the style colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from pipeline.readiness.model import DayCount

# More bars than this are thinner than a finger on a phone; then each bar is a week.
_DAYS_MAX = 92
_GAP = 0.18
# On a phone, labels of closer bars would overlap.
_LABELLED_BARS_MIN = 6
_MIDDLE_LABEL_BARS_MIN = 14
_MIN_HEIGHT = 3.0  # one denial among thousands must stay visible


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle and the value that it shows."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over time. `peak` is the value of its largest bar, `peak_label` the time of that bar."""

    name: str
    bars: tuple[Bar, ...]
    total: int
    peak: int
    peak_label: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label below the bars, at `x` of 100; `anchor` is SVG's text-anchor."""

    x: float
    anchor: str
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The same stretch of time for several figures, `step` being `day` or `week`."""

    step: str
    first: date
    last: date
    ticks: tuple[Tick, ...]
    denied: Series
    unknown: Series
    matched: Series


def timeline(days: Sequence[DayCount]) -> Timeline | None:
    """Would-be denials, unknown and matched requests over time; days without any are empty bars. None without days."""
    if not days:
        return None
    first, last = days[0].day, days[-1].day
    step = 1 if (last - first).days < _DAYS_MAX else 7
    starts = [first + timedelta(days=offset) for offset in range(0, (last - first).days + 1, step)]
    series = [_series(name, days, starts, step) for name in ("denied", "unknown", "matched")]
    return Timeline("day" if step == 1 else "week", first, last, _ticks(starts), *series)


def _ticks(starts: Sequence[date]) -> tuple[Tick, ...]:
    """Labels of the first bar and the last one, and of one between them; bars close together share one label."""
    first, last, whole = starts[0], starts[-1], _slots(starts)
    if len(starts) < _LABELLED_BARS_MIN:
        return (Tick(0.0, "start", _label(first) if first == last else f"{_label(first)} – {_label(last)}"),)
    ends = Tick(0.0, "start", _label(first)), Tick(round(100 * len(starts) / whole, 3), "end", _label(last))
    if len(starts) < _MIDDLE_LABEL_BARS_MIN:
        return ends
    middle = len(starts) // 2
    return ends[0], Tick(round(100 * (middle + 0.5) / whole, 3), "middle", _label(starts[middle])), ends[1]


def _label(day: date) -> str:
    return f"{day.day} {day:%b}"


def _slots(starts: Sequence[date]) -> int:
    """A single day does not fill the box: it is drawn as wide as one of fourteen."""
    return max(len(starts), 14)


def _series(name: str, days: Sequence[DayCount], starts: Sequence[date], step: int) -> Series:
    counts = [0] * len(starts)
    for entry in days:
        counts[(entry.day - starts[0]).days // step] += getattr(entry, name)
    peak = max(counts)
    width = 100 / _slots(starts)
    bars = tuple(
        Bar(
            x=round(index * width, 3),
            y=round(100 - _height(count, peak), 3),
            width=round(width * (1 - _GAP), 3),
            height=round(_height(count, peak), 3),
            label=f"{start.isoformat()}: {count:,}",
        )
        for index, (start, count) in enumerate(zip(starts, counts, strict=True))
        if count
    )
    return Series(name, bars, sum(counts), peak, starts[counts.index(peak)].isoformat())


def _height(count: int, peak: int) -> float:
    return max(_MIN_HEIGHT, 100 * count / peak) if count else 0.0
