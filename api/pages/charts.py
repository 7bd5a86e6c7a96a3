"""Bars for the pages: figures over time as rectangles in a box of 100 by 100, which templates draw as SVG and the style colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from pipeline.readiness.model import DayCount
from pipeline.stages.over_time import span_words

from ..beside_runs import MomentCount

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
    """The same stretch of time for several figures. `step` is how long a bar lasts, in words such as `day` or `5 seconds`."""

    step: str
    first: str
    last: str
    ticks: tuple[Tick, ...]
    denied: Series
    unknown: Series
    matched: Series


def timeline(days: Sequence[DayCount]) -> Timeline | None:
    """Would-be denials, unknown and matched requests over time; days without any are empty bars. None without days."""
    if not days:
        return None
    step = 1 if (days[-1].day - days[0].day).days < _DAYS_MAX else 7
    at = [MomentCount(datetime.combine(each.day, time(), UTC), each.matched, each.denied, each.unknown) for each in days]
    return _timeline(at, timedelta(days=step), "day" if step == 1 else "week", _day, _label)


def timeline_of(moments: Sequence[MomentCount], seconds: int) -> Timeline | None:
    """The same of a log that is too short for bars of days. `seconds` is how long a bar lasts."""
    if not moments:
        return None
    return _timeline(moments, timedelta(seconds=seconds), span_words(seconds), _moment, _clock)


def _timeline(
    counts: Sequence[MomentCount], step: timedelta, words: str, name: Callable[[datetime], str], label: Callable[[datetime], str]
) -> Timeline:
    first, last = counts[0].start, counts[-1].start
    starts = [first + offset * step for offset in range((last - first) // step + 1)]
    series = [_series(each, counts, starts, step, name) for each in ("denied", "unknown", "matched")]
    return Timeline(words, name(first), name(last), _ticks(starts, label), *series)


def _ticks(starts: Sequence[datetime], label: Callable[[datetime], str]) -> tuple[Tick, ...]:
    """Labels of the first bar and the last one, and of one between them; bars close together share one label."""
    first, last, whole = starts[0], starts[-1], _slots(starts)
    if len(starts) < _LABELLED_BARS_MIN:
        return (Tick(0.0, "start", label(first) if first == last else f"{label(first)} – {label(last)}"),)
    ends = Tick(0.0, "start", label(first)), Tick(round(100 * len(starts) / whole, 3), "end", label(last))
    if len(starts) < _MIDDLE_LABEL_BARS_MIN:
        return ends
    middle = len(starts) // 2
    return ends[0], Tick(round(100 * (middle + 0.5) / whole, 3), "middle", label(starts[middle])), ends[1]


def _day(start: datetime) -> str:
    return start.date().isoformat()


def _label(start: datetime) -> str:
    return f"{start.day} {start:%b}"


def _moment(start: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M:%S}"


def _clock(start: datetime) -> str:
    return f"{start:%H:%M:%S}"


def _slots(starts: Sequence[datetime]) -> int:
    """A single day does not fill the box: it is drawn as wide as one of fourteen."""
    return max(len(starts), 14)


def _series(
    name: str, found: Sequence[MomentCount], starts: Sequence[datetime], step: timedelta, named: Callable[[datetime], str]
) -> Series:
    counts = [0] * len(starts)
    for entry in found:
        counts[(entry.start - starts[0]) // step] += getattr(entry, name)
    peak = max(counts)
    width = 100 / _slots(starts)
    bars = tuple(
        Bar(
            x=round(index * width, 3),
            y=round(100 - _height(count, peak), 3),
            width=round(width * (1 - _GAP), 3),
            height=round(_height(count, peak), 3),
            label=f"{named(start)}: {count:,}",
        )
        for index, (start, count) in enumerate(zip(starts, counts, strict=True))
        if count
    )
    return Series(name, bars, sum(counts), peak, named(starts[counts.index(peak)]))


def _height(count: int, peak: int) -> float:
    return max(_MIN_HEIGHT, 100 * count / peak) if count else 0.0
