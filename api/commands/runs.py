"""`hindcast runs`: list, show and remove the replays that the lake keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

from .parts import options

if TYPE_CHECKING:
    from api.ask.run_removal import Removed
    from api.printing.output import Table
    from api.stored_runs import Run


_NAMES_SHOWN = 3


class Action(StrEnum):
    """What to do with runs."""

    LIST = "list"
    SHOW = "show"
    RM = "rm"


def command(
    context: typer.Context,
    action: Annotated[Action, typer.Argument(help="list them all, show some, or remove (rm) some.")] = Action.LIST,
    run_ids: Annotated[list[str] | None, typer.Argument(metavar="[RUN_ID]...", help="The runs to show or to remove.")] = None,
    older: Annotated[
        str | None,
        typer.Option("--before", help="With rm: runs last requested before this time: 30d (30 days ago), 12h, or RFC 3339."),
    ] = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """List the replays of the lake with their kind and window, show some of them, or remove some of them."""
    from api import asked_values
    from api.ask.run_removal import in_use_error, older_than, remove_runs
    from api.printing.output import render
    from api.stored_runs import run, runs
    from pipeline.runs import RunStore
    from pipeline.runs.expiry import expired_before

    own: Context = context.obj
    if older is not None and action is not Action.RM:
        raise InputError(f"--before does not go with {action}", "give it with rm")
    if action is Action.LIST and run_ids:
        raise InputError(f"list takes no run ID, found {run_ids[0]!r}", f"use: hindcast runs show {run_ids[0]}")
    if action is Action.LIST:
        render([runs_table(runs(own.lake))], output, limit=limit)
        return 0
    if not run_ids and older is None:
        raise InputError(
            f"{action}: no run is named",
            "`hindcast runs list` prints their IDs" + (", or give --before" * (action is Action.RM)),
        )
    if action is Action.SHOW:
        found = [run(own.lake, run_id) for run_id in run_ids or ()]
        render([runs_table(found), bindings_table(found)], output, limit=limit)
        for each in found:
            if (moment := expired_before(RunStore(own.lake).run(each.run_id))) is not None:
                own.say(f"run {each.run_id}: its evidence before {moment:%Y-%m-%d} has expired, and the texts that quoted it")
        return 0
    moment = asked_values.parse_time("--before", older, datetime.now(UTC))
    chosen = [*(run_ids or ()), *(older_than(own.lake, moment) if moment is not None else ())]
    removed, kept = remove_runs(own.lake, chosen)
    render([removed_table(removed)], output, limit=limit)
    if kept:
        raise in_use_error(kept)
    return 0


def runs_table(found: Sequence[Run]) -> Table:
    """One row per run, the latest planned first."""
    from api.printing.output import Column, Table

    columns = [
        Column("run_id", "RUN ID"),
        Column("kind"),
        Column("stage", wide=True),
        Column("asked_ts", "LAST REQUESTED", may_go=2),
        Column("since"),
        Column("until"),
        Column("requests", number=True),
        Column("finished", may_go=1),
        Column("tried", "POLICIES", prose=True),
        Column("policies", "ALL POLICIES", wide=True),
    ]
    rows = [
        [
            *(getattr(each, column.key) for column in columns[:-2]),
            _shortly(each.policies),
            each.policies,
        ]
        for each in found
    ]
    kinds = "base: the version before in a comparison; calibration: the bound policies, compared with the record"
    window = "without since and until, a run took the whole log as it was then"
    return Table("runs", columns, rows, "Runs of the lake", (kinds, window) if rows else ())


def _shortly(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def bindings_table(found: Sequence[Run]) -> Table:
    """One row per (policy, binding) of each run."""
    from api.printing.output import Column, Table

    counts = ("matched", "admit", "deny", "error", "unknown")
    columns = [Column("run_id", "RUN ID"), Column("policy"), Column("binding"), *(Column(name, number=True) for name in counts)]
    rows = [
        [each.run_id, *(getattr(entry, column.key) for column in columns[1:])]
        for each in found
        if each.summary is not None
        for entry in each.summary.bindings
    ]
    return Table("bindings", columns, rows, "Verdicts")


def removed_table(removed: Sequence[Removed]) -> Table:
    """One row per removed run."""
    from api.printing.output import Column, Table

    columns = [Column("run_id", "RUN ID"), Column("kind"), Column("bytes", number=True), Column("policies")]
    rows = [[getattr(each, column.key) for column in columns] for each in removed]
    return Table("removed", columns, rows, "Removed")
