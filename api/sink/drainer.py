"""The second process of `serve`: it stores the spool's events in the lake, and maintains the lake.

The supervisor starts it as `python -m api.sink.drainer`. It may be killed at any moment. On a signal it stores the sealed segments
and ends; it ends at once when the server is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import structlog

from ingest.errors import HindcastError, LakeError
from ingest.lake import Lake
from ingest.maintain import Compacted, compact, remove_retired
from ingest.retention import GAP, expire, expire_objects, expire_quarantine, present_day
from ingest.spooling.drain import drain
from ingest.spooling.segment_files import sealed_segments
from ingest.store import Counts
from ingest.telemetry import DRAIN_RESULTS
from pipeline.runs.expiry import Cut, expire_runs

from .. import logs, priorities
from ..damage import ENGINE_ERRORS, explained
from ..settings import Settings
from .preparer import Preparer

_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 5.0
_DAMAGED_RETRY_SECONDS = 60.0  # finding the damaged file costs one reading of the lake
# Less than the supervisor's patience, so that the drain stops in order even with a long backlog.
_LAST_PASS_SECONDS = 8.0

_TROUBLES: tuple[type[Exception], ...] = (HindcastError, *ENGINE_ERRORS)

_log = structlog.get_logger("hindcast.drain")


class _Stop:
    """A termination signal, and whether the time for finishing is over."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._since = 0.0

    def __call__(self, number: int, frame: object) -> None:
        self._since = time.monotonic()
        self.event.set()

    def is_overdue(self) -> bool:
        return self.event.is_set() and time.monotonic() - self._since > _LAST_PASS_SECONDS


def main() -> int:
    """Drain until told to stop; returns an exit code."""
    settings = Settings.read(os.environ)
    logs.configure(settings.log_level, as_json=settings.log_json)
    os.nice(priorities.DRAIN)
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop)
    # Ctrl-C reaches the whole terminal; the server then signals this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        # The server made the lake when it started. A new lake made here would hide that its folder was deleted.
        lake = Lake.open(settings.lake)
    except HindcastError as error:
        _log.error("drain_cannot_start", error=str(error))
        return error.exit_code
    preparer = Preparer(settings.lake)
    try:
        return _drain_until(lake, settings, stop, preparer)
    finally:
        preparer.stop()
        lake.close()


def _drain_until(lake: Lake, settings: Settings, stop: _Stop, preparer: Preparer) -> int:
    maintained = time.monotonic()
    while True:
        try:
            lake.check_place()
        except LakeError as error:
            # The next drain opens the lake that is there then, and fails while there is no lake.
            _log.error("drain_lost_its_lake", error=str(error))
            return error.exit_code
        last_pass = stop.event.is_set()
        pause_seconds = drain_once(lake, settings, stop.is_overdue)
        if last_pass:
            return 0
        # The spool's events come first; a lake of many small files only answers more slowly.
        is_due = 0 < settings.maintain_interval_seconds <= time.monotonic() - maintained
        if pause_seconds and is_due and maintain_once(lake, settings, stop.event.is_set, preparer.after):
            maintained = time.monotonic()
        stop.event.wait(pause_seconds)


def drain_once(lake: Lake, settings: Settings, stopped: Callable[[], bool]) -> float:
    """Store the sealed segments now; returns the seconds to wait before the next look."""
    if not sealed_segments(settings.spool):
        return _LOOK_SECONDS
    started = time.monotonic()
    try:
        with lake.writer() as writer:
            counts = drain(writer, settings.spool, stopped, _report)
    except _TROUBLES as error:
        # Another process may be ingesting files, or the disk may be full. Acknowledged events wait in the spool.
        _report(None)
        retry_seconds = _RETRY_SECONDS if isinstance(error, HindcastError) else _DAMAGED_RETRY_SECONDS
        _log.error("drain_failed", error=_told(error, settings), again_in_seconds=retry_seconds)
        return retry_seconds
    _log.info(
        "drained",
        stored=counts.stored,
        duplicate=counts.duplicate,
        quarantined=counts.quarantined,
        seconds=round(time.monotonic() - started, 3),
    )
    return 0.0 if counts.read else _LOOK_SECONDS


def _cut(settings: Settings, today: date | None) -> Cut:
    spans = (settings.retention_days, settings.objects_retention_days)
    return Cut.of(*(today - timedelta(days=span) if span and today else None for span in spans))


def _nothing(merged: Compacted) -> None:
    pass


def maintain_once(
    lake: Lake, settings: Settings, stopped: Callable[[], bool], after: Callable[[Compacted], None] = _nothing
) -> bool:
    """Merge small files, and remove files that are too old or were replaced a while ago; returns whether that is finished.

    After each unit it stops if segments wait in the spool. It is then not finished, and goes on once they are stored. At the
    end it gives `after` the numbers of merged files and events.
    """
    now_ts = time.time()
    try:
        with lake.writer() as writer:
            # Deletion comes first: on a full disk nothing can be merged.
            removed = remove_retired(writer, now_ts)
            today = _today(lake, settings, now_ts)
            if settings.retention_days and today:
                first_day = today - timedelta(days=settings.retention_days)
                expired = expire(writer, first_day, now_ts)
                expire_quarantine(writer, first_day)
                _log.info("expired", before=first_day.isoformat(), files=expired.files, rows=expired.rows)
            if settings.objects_retention_days and today:
                first_day = today - timedelta(days=settings.objects_retention_days)
                expire_quarantine(writer, first_day)
                expired = expire_objects(writer, first_day, now_ts)
                _log.info("objects_expired", before=first_day.isoformat(), files=expired.files, rows=expired.rows)
            expire_runs(lake.path, _cut(settings, today))
            merged = compact(writer, now_ts, stopped=lambda: stopped() or bool(sealed_segments(settings.spool)))
    except _TROUBLES as error:
        _log.error("maintenance_failed", error=_told(error, settings))
        return True
    event = "maintained" if merged.is_whole else "maintenance_gave_way"
    _log.info(event, files_before=merged.files_before, files_after=merged.files_after, files_removed=removed)
    after(merged)
    return merged.is_whole


def _today(lake: Lake, settings: Settings, now_ts: float) -> date | None:
    """The day from which retention counts back; the log names a clock that is far ahead of the events."""
    clock, today = datetime.fromtimestamp(now_ts, UTC).date(), present_day(lake, now_ts)
    if (settings.retention_days or settings.objects_retention_days) and today and clock - today > GAP:
        _log.warning("retention_waits", clock=clock.isoformat(), counts_from=today.isoformat())
    return today


def _report(counts: Counts | None) -> None:
    """Print the result of a unit, or that a pass failed, for the supervisor's metrics; the supervisor reads this process's
    output."""
    with suppress(OSError):  # the server is gone
        sys.stdout.write(json.dumps(None if counts is None else {name: getattr(counts, name) for name in DRAIN_RESULTS}) + "\n")
        sys.stdout.flush()


def _told(error: Exception, settings: Settings) -> str:
    """The message for an error; a defect of Hindcast is raised again."""
    found = error if isinstance(error, HindcastError) else explained(error, settings.lake)
    if found is None:
        raise error
    return str(found)


def _end_with_server() -> None:
    """Wait for the end of the pipe that the server holds open, and then end at once."""
    # Read the bare descriptor: a thread that waits inside sys.stdin holds its lock, and the interpreter could not end in order.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
