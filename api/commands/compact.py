"""`hindcast compact`: many small files become few sorted ones."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from ingest.lake import Lake
from ingest.maintain import GRACE_SECONDS, Compacted, compact, remove_retired

from . import options

_FILES_MIN = 2


def command(
    context: typer.Context,
    files_min: Annotated[
        int, typer.Option(min=2, help="Rewrite what lies together of one cluster and day once it has so many files.")
    ] = _FILES_MIN,
    output: options.Output = Format.TABLE,
) -> int:
    """Merge small files into sorted ones, unit by unit, and delete files without readers; safe to interrupt."""
    own: Context = context.obj
    lake = Lake.open(own.lake)
    try:
        with lake.writer() as writer:
            now_ts = time.time()
            done = compact(writer, now_ts, files_min)
            removed = remove_retired(writer, now_ts)
            waiting = len(lake.manifest.retired(float("inf")))
    finally:
        lake.close()
    render([_table(done, removed, waiting)], output)
    return 0


def _table(done: Compacted, removed: int, waiting: int) -> Table:
    names = ("units", "files_before", "files_after", "rows", "bytes_before", "bytes_after")
    columns = [*(Column(name, number=True) for name in names), Column("files_deleted", number=True)]
    notes = []
    if waiting:
        notes.append(f"{waiting} replaced files stay for {GRACE_SECONDS / 60:.0f} minutes, because a reader may have listed them")
    return Table("compacted", columns, [[*(getattr(done, name) for name in names), removed]], "Files merged", notes)
