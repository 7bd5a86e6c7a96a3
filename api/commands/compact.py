"""`hindcast compact`: many small files become few sorted ones."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.on_ray import On
from api.printing.output import Format
from ingest.errors import LakeError

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from ingest.maintain import Compacted


_FILES_MIN = 2


def command(
    context: typer.Context,
    files_min: Annotated[
        int, typer.Option(min=2, help="Merge the files of a cluster and day once there are this many.")
    ] = _FILES_MIN,
    prepare: Annotated[
        bool, typer.Option("--prepare/--no-prepare", help="Also keep what most replays need, so that the first one is quick.")
    ] = True,
    on: On = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Merge small files into larger, sorted ones, and delete files that no reader uses. Safe to interrupt."""
    from api.on_ray import check_place
    from api.printing.output import render
    from ingest.folding import fold_stored
    from ingest.lake import Lake
    from ingest.maintain import compact, remove_retired

    own: Context = context.obj
    if on is not None:
        check_place(on)
    lake = Lake.open(own.lake)
    try:
        with lake.writer() as writer:
            now_ts = time.time()
            done = compact(writer, now_ts, files_min)
            fold_stored(writer, now_ts, done)
            removed = remove_retired(writer, now_ts)
            waiting = len(lake.manifest.retired(float("inf")))
    finally:
        lake.close()
    problem = _prepare(own, on) if prepare else ""
    render([_table(done, removed, waiting, problem)], output)
    return 0


def _prepare(own: Context, on: str | None) -> str:
    """Make the derived tables of the lake; returns why this failed, or an empty text. Replays make whatever is missing."""
    from api.on_ray import connected
    from pipeline.readiness.prepared import prepare  # loads the language of policies, which takes a while

    try:
        with nullcontext() if on is None else connected(on, None) as executor:
            prepare(own.lake, executor=executor)
    except LakeError as error:
        return str(error)
    return ""


def _table(done: Compacted, removed: int, waiting: int, problem: str) -> Table:
    from api.printing.output import Column, Table
    from ingest.maintain import GRACE_SECONDS

    names = ("units", "files_before", "files_after", "rows", "bytes_before", "bytes_after")
    columns = [*(Column(name, number=True) for name in names), Column("files_deleted", number=True)]
    notes = []
    if waiting:
        notes.append(f"{waiting} replaced files stay for {GRACE_SECONDS / 60:.0f} minutes, because a reader may have listed them")
    if problem:
        notes.append(f"replays are not prepared: {problem}")
    return Table("compacted", columns, [[*(getattr(done, name) for name in names), removed]], "Files merged", notes)
