"""`hindcast expire`: removes old events from the lake, and bodies before their events."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from ingest.lake import Lake
    from ingest.retention import Expired

    _Row = tuple[str, date, Expired]


def command(
    context: typer.Context,
    before: Annotated[
        str | None,
        typer.Option(help="Delete the events of whole UTC days before this time: 90d (90 days ago), or RFC 3339."),
    ] = None,
    objects_before: Annotated[
        str | None, typer.Option(help="Delete only the bodies of events before this time. Users, verbs and names stay.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only count.")] = False,
    output: options.Output = Format.TABLE,
) -> int:
    """Delete the events of past days, or only their bodies. Without bodies, most verdicts on these requests are unknown.

    Runs lose what they quote of them.
    """
    from api.printing.output import render
    from api.shared_names import warn_of
    from ingest.lake import Lake

    own: Context = context.obj
    if before is None and objects_before is None:
        raise InputError(
            "no option says which events to drop", "give --before or --objects-before, for example --objects-before 30d"
        )
    lake = Lake.open(own.lake)
    warn_of(own)  # before the events go that show it
    try:
        now = _now(lake)
        events_day, bodies_day = _day("--before", before, now), _day("--objects-before", objects_before, now)
        rows = (_planned if plan else _expired)(lake, events_day, bodies_day)
    finally:
        lake.close()
    render([_table(rows, plan)], output)
    return 0


def _now(lake: Lake) -> datetime:
    """The moment from which spans count back: see present_day. A clock that is far ahead of the events decides nothing."""
    from ingest.retention import GAP, present_day

    now = datetime.now(UTC)
    today = present_day(lake, now.timestamp())
    return now if today is None or now.date() - today <= GAP else datetime.combine(today, now.timetz())


def _day(option: str, text: str | None, now: datetime) -> date | None:
    from api import asked_values

    moment = asked_values.parse_time(option, text, now)
    return None if moment is None else moment.date()


def _planned(lake: Lake, events_day: date | None, bodies_day: date | None) -> list[_Row]:
    from ingest.retention import Expired, bodies_before, events_before, quarantine_before, sizes
    from pipeline.runs.expiry import Cut, about_expired

    rows: list[_Row] = []
    if events_day is not None:
        rows.append(("events", events_day, sizes(events_before(lake, events_day))))
    if bodies_day is not None:
        kept = [file for file in bodies_before(lake, bodies_day) if events_day is None or file.dt >= events_day.isoformat()]
        found = sizes(kept)
        # The smaller size of a file is known only after the rewrite.
        rows.append(("bodies", bodies_day, Expired(found.files, found.rows, 0)))
    last = _last(events_day, bodies_day)
    rows.append(("quarantine files", last, Expired(len(quarantine_before(lake, last)), 0, 0)))
    rows.append(("runs", last, Expired(len(about_expired(lake.path, Cut.of(events_day, bodies_day))), 0, 0)))
    return rows


def _last(events_day: date | None, bodies_day: date | None) -> date:
    """The day for what has bodies in it: quarantined records, and runs."""
    return max(day for day in (events_day, bodies_day) if day is not None)


def _expired(lake: Lake, events_day: date | None, bodies_day: date | None) -> list[_Row]:
    from ingest.maintain import remove_retired
    from ingest.retention import Expired, expire, expire_objects, expire_quarantine
    from pipeline.runs.expiry import Cut, expire_runs

    rows: list[_Row] = []
    with lake.writer() as writer:
        now_ts = time.time()
        if events_day is not None:
            rows.append(("events", events_day, expire(writer, events_day, now_ts)))
        if bodies_day is not None:
            rows.append(("bodies", bodies_day, expire_objects(writer, bodies_day, now_ts)))
        last = _last(events_day, bodies_day)
        rows.append(("quarantine files", last, Expired(expire_quarantine(writer, last), 0, 0)))
        rows.append(("runs", last, Expired(expire_runs(lake.path, Cut.of(events_day, bodies_day)), 0, 0)))
        remove_retired(writer, now_ts)
    return rows


def _table(rows: list[_Row], plan: bool) -> Table:
    from api.printing.output import Column, Table
    from ingest.maintain import GRACE_SECONDS

    columns = [Column("what"), Column("before"), *(Column(name, number=True) for name in ("files", "rows", "bytes"))]
    cells = [[what, day.isoformat(), found.files, found.rows, found.bytes] for what, day, found in rows]
    notes = (
        ["nothing was dropped; leave out --plan to do it"]
        if plan
        else [
            f"files are deleted {GRACE_SECONDS / 60:.0f} minutes later, by the next writer, because a reader may have listed them"
        ]
    )
    return Table("expired", columns, cells, "What would expire" if plan else "Expired", notes)
