"""How the outcomes of a run's requests differ from the record, over time: the chart of any stage whose verdicts have `flip`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from queries import LakeReader

from ..runs.sql import statement
from ..runs.verdict import Flip
from .over_time import OverTime, Tone, bars, over_time, slot_width

# A request with several verdicts counts under the first of these that one of them has.
_ROWS: Sequence[tuple[str, Tone, tuple[Flip, ...]]] = (
    ("newly denied", Tone.DENIED, (Flip.NEWLY_DENIED,)),
    ("unknown", Tone.UNKNOWN, (Flip.UNKNOWN,)),
    ("newly allowed", Tone.ADMITTED, (Flip.NEWLY_ALLOWED,)),
    ("allowed, with another stored object", Tone.ADMITTED, (Flip.CHANGED,)),
    ("as recorded", Tone.ADMITTED, (Flip.STILL_DENIED, Flip.SAME)),
)


def flips_over_time(reader: LakeReader, verdicts: Path) -> OverTime | None:
    """The requests of a run by how their outcomes differ from the record; None if no verdict was compared with it."""
    connection = reader.connection
    span = "SELECT min(ts), max(ts) FROM read_parquet($verdicts) WHERE flip IS NOT NULL"
    ((first, last),) = connection.execute(span, {"verdicts": str(verdicts)}).fetchall()
    if first is None:
        return None
    width = slot_width(int((last - first).total_seconds()) + 1)
    order = [flip.value for _, _, flips in _ROWS for flip in flips]
    told = connection.execute(statement("flips_over_time"), {"verdicts": str(verdicts), "width": width, "order": order}).fetchall()
    rows = (bars(what, tone, ((start, requests) for flip, start, requests in told if flip in flips)) for what, tone, flips in _ROWS)
    note = "Each request counts once, by the verdict on it that needs a look first."
    return over_time("Outcomes against the record over time", note, "requests", width, rows)
