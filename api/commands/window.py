"""A window of time that a question is about, held against the time that the lake covers."""

from __future__ import annotations

from datetime import UTC, datetime

from api.context import Context
from ingest.errors import InputError
from pipeline.replay import Window
from queries import open_lake


def check_window(own: Context, window: Window) -> None:
    """Raise InputError where the lake has no event in a window: its verdicts would rest on nothing."""
    if window.since is None and window.until is None:
        return
    reader = open_lake(own.lake)
    try:
        ((first, last),) = reader.connection.execute("SELECT min(ts), max(ts) FROM events").fetchall()
    finally:
        reader.close()
    if first is None:
        return  # an empty lake is told by every report
    if (window.since is not None and window.since > last) or (window.until is not None and window.until <= first):
        raise InputError(
            f"no event lies in the window from {_moment(window.since, 'the first event')} to {_moment(window.until, 'the last')}: "
            f"the events of this lake are from {_moment(first)} to {_moment(last)}",
            "choose --since and --until within that time, or ingest a newer log",
        )


def _moment(ts: datetime | None, otherwise: str = "") -> str:
    return ts.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts is not None else otherwise
