"""The counts of a stage over time as a part of an HTML page, and as a row of signs where there are no pictures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from html import escape

from pipeline.stages.over_time import Bars, OverTime, span_words

from . import charts
from .cells import visible

_SIGNS = "▁▂▃▄▅▆▇█"
_SIGNS_MAX = 48  # as many as fit into a column of a table
MOMENT = "%Y-%m-%d %H:%M:%S"


def section(name: str, found: OverTime) -> str:
    """A chart for wide and for narrow pages, and a table with the same counts, as HTML. Every text in it is escaped.

    `name` begins the identifiers within, and must be the chart's own on its page.
    """
    step = span_words(found.slot_seconds)
    drawn = "".join(
        f'<div class="{kind}" aria-hidden="true">{charts.over_time(f"{name}-{kind}", found, width)}</div>'
        for kind, width in (("wide", charts.WIDE), ("narrow", charts.NARROW))
    )
    alternative = f"{found.chart}: {found.unit} per {step}; the same as in the table below"
    return (
        f'<p class="soft small">{_text(found.note)} Each bar is {_text(found.unit)} per {step} (UTC); '
        "each row has a scale of its own.</p>\n"
        f'<div class="chart" role="img" aria-label="{_text(alternative)}">{drawn}</div>\n'
        f"<details><summary>{_text(found.chart)} as a table</summary>\n"
        f'<div class="scroll" role="region" aria-label="{_text(found.chart)}" tabindex="0"><table>\n{"".join(_table(found))}'
        "</table></div></details>"
    )


def _table(found: OverTime) -> Iterator[str]:
    """One row for each span with a count, one column for each row of bars."""
    heads = "".join(f'<th scope="col" class="n">{_text(row.what)}</th>' for row in found.bars)
    yield f'<thead><tr><th scope="col">From (UTC)</th>{heads}</tr></thead><tbody>\n'
    counts = [{moment.start: moment.count for moment in row.moments} for row in found.bars]
    for start in sorted({start for row in counts for start in row}):
        cells = "".join(f'<td class="n">{row.get(start, 0):,}</td>' for row in counts)
        yield f'<tr><td class="time">{start:{MOMENT}}</td>{cells}</tr>\n'
    yield "</tbody>"


def _text(words: str) -> str:
    return escape(visible(words), quote=True)


def sparkline(found: OverTime, row: Bars) -> str:
    """One sign for each span, or for a few together, by how its count compares with the largest; a dot without a count."""
    together = -(-found.slots // _SIGNS_MAX)
    counts = [0] * -(-found.slots // together)
    for moment in row.moments:
        counts[(moment.start - found.first) // timedelta(seconds=found.slot_seconds) // together] += moment.count
    peak = max(counts)
    return "".join(_SIGNS[-(-count * len(_SIGNS) // peak) - 1] if count else "·" for count in counts)
