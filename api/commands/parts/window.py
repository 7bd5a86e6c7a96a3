"""Checks the window of a question against the time that the lake covers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import EvidenceError

if TYPE_CHECKING:
    from pipeline.runs.window import Window


_IN_WINDOW = """
    SELECT count(*) FROM (
        SELECT 1 FROM events WHERE ts >= coalesce($since, '-infinity'::TIMESTAMPTZ)
            AND ts < coalesce($until, 'infinity'::TIMESTAMPTZ) LIMIT 1
    )
"""


def check_window(own: Context, window: Window) -> None:
    """Raise EvidenceError where the lake has no request in a window: its verdicts would rest on nothing."""
    from queries import open_lake

    if window.since is None and window.until is None:
        return
    reader = open_lake(own.lake)
    try:
        ((first, last),) = reader.connection.execute("SELECT min(ts), max(ts) FROM events").fetchall()
        ((found,),) = reader.connection.execute(_IN_WINDOW, window.parameters).fetchall()
    finally:
        reader.close()
    if found or first is None:
        return  # every report of an empty lake already says that it is empty
    raise EvidenceError(
        f"no request lies in the window from {_moment(window.since, 'the first event')} to {_moment(window.until, 'the last')}: "
        f"the events of this lake are from {_moment(first)} to {_moment(last)}",
        "choose --since and --until within that time, or ingest a newer log",
    )


def _moment(ts: datetime | None, otherwise: str = "") -> str:
    return ts.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts is not None else otherwise
