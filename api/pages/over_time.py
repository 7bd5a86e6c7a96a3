"""The counts over time of a stage on a page: a small chart for each row, and one table that has the same counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.stages.over_time import Bars, OverTime, span_words

from .charts import Bar, Series, Tick
from .tables import Asked, Column, Table, table

_MIN_HEIGHT = 3.0  # one request among thousands must stay visible
_GAP = 0.18
_SLOTS_MIN = 14  # a single bar does not fill the box
_ROWS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Counted:
    """One bar as a row of the table."""

    start: datetime
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of bars; `kind` is the class of its colour."""

    series: Series
    kind: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What a template draws. `step` is the length of a bar in words, to follow `per`."""

    about: OverTime
    step: str
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    table: Table[Counted]


def chart_of(found: OverTime, name: str, asked: Asked) -> Chart:
    """The chart of a stage's counts. `name` is that of its table, in the page's addresses."""
    columns: tuple[Column[Counted], ...] = (
        Column("start", "From (UTC)", lambda row: row.start, "time"),
        Column("what", "What", lambda row: row.what),
        Column("count", found.unit.capitalize(), lambda row: row.count, "n"),
    )
    step = span_words(found.slot_seconds)
    counts = [Counted(moment.start, row.what, moment.count) for row in found.bars for moment in row.moments]
    caption = f"{found.chart}: {found.unit} per {step}, the same as in the chart"
    rows = tuple(Row(_series(found, row), row.tone.value) for row in found.bars)
    return Chart(found, step, rows, tuple(_ticks(found)), table(asked, name, caption, columns, counts, _ROWS_SHOWN))


def _series(found: OverTime, row: Bars) -> Series:
    width, slot = 100 / max(found.slots, _SLOTS_MIN), timedelta(seconds=found.slot_seconds)
    drawn = []
    for moment in row.moments:
        height = max(_MIN_HEIGHT, 100 * moment.count / row.peak)
        drawn.append(
            Bar(
                x=round((moment.start - found.first) // slot * width, 3),
                y=round(100 - height, 3),
                width=round(width * (1 - _GAP), 3),
                height=round(height, 3),
                label=f"{moment.start:%Y-%m-%d %H:%M:%S}: {moment.count:,}",
            )
        )
    busiest = next(moment.start for moment in row.moments if moment.count == row.peak)
    return Series(row.what, tuple(drawn), row.total, row.peak, f"{busiest:%Y-%m-%d %H:%M:%S}")


def _ticks(found: OverTime) -> Iterator[Tick]:
    """Labels of the first bar and of the last one; the day is added where there are several."""
    form = "%H:%M:%S" if found.first.date() == found.last.date() else "%d %b %H:%M"
    yield Tick(0.0, "start", f"{found.first:{form}}")
    if found.slots >= _SLOTS_MIN:
        yield Tick(100.0, "end", f"{found.last:{form}}")
