"""`hindcast replay`: the decisions of policies over the recorded requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import click
import typer
import yaml

from api.beside_runs import keep_policies
from api.context import Context
from api.output import Column, Format, Table, render
from pipeline.admission.policies import PolicySet
from pipeline.authorization import OtherAuthorizers
from pipeline.readiness.flow import Walk
from pipeline.replay import (
    ExpressionDifference,
    ReplayPlan,
    RequestDifference,
    Window,
    difference,
    open_for_plan,
    plan_replay,
    request_difference,
    run_replay,
    start_processes,
)
from pipeline.runs import Defect, RunKind, RunStore, RunSummary
from queries.catalog import LakeFiles

from . import options
from .policies import chosen_policies, only
from .window import check_window

Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")]
OtherAuthorizersOption = Annotated[
    OtherAuthorizers | None,
    typer.Option(
        "--other-authorizers",
        help="Authorizers of the clusters other than RBAC: none, node, or any (then a permission that RBAC lacks is unknown). "
        "Default: as the log shows.",
    ),
]


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    plan: Annotated[bool, typer.Option("--plan", help="Count the requests, print the plan, and stop.")] = False,
    against: Annotated[
        list[Path] | None, typer.Option(help="Compare with the version before: a file or a folder; repeatable.")
    ] = None,
    against_log: Annotated[
        str | None,
        typer.Option("--against-log", help="Compare with the policies in force at this time (RFC 3339), as the log shows."),
    ] = None,
    from_log: Annotated[
        str | None, typer.Option("--from-log", help="Replay the policies in force at this time (RFC 3339), as the log shows.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster whose policies --from-log and --against-log take.")] = None,
    other_authorizers: OtherAuthorizersOption = None,
    workers: Workers = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay policies over the recorded requests, and count the decisions of each (policy, binding)."""
    own: Context = context.obj
    window, version = Window(*options.parse_window(since, until)), options.parse_version(kubernetes_version)
    check_window(own, window)
    new = chosen_policies(own, policies, from_log, cluster, version)
    planned = plan_of(own, new, window, version, other_authorizers, 1 if plan else workers)
    if plan:
        _print_plan(planned, output)
        return 0
    summary = run(own, planned, workers)
    tables = [summary_table(summary), not_evaluated_table(planned, summary)]
    if against or against_log:
        before = chosen_policies(own, against, against_log, cluster, version)
        if not against:
            # The other policies of the cluster do not change.
            before = only(before, {policy.name for policy in new.policies})
        old = run(own, plan_of(own, before, window, version, other_authorizers, workers, planned.files), workers, RunKind.BASE)
        both = verdicts_of(own, old), verdicts_of(own, summary)
        notes = unpaired(before, new)
        tables = [request_difference_table(request_difference(*both), notes), difference_table(difference(*both)), *tables]
    render(tables, output, limit=limit)
    own.say(planned.words_of_window)
    own.say(f"verdicts: {verdicts_of(own, summary)}")
    return 0


def _print_plan(plan: ReplayPlan, output: Format) -> None:
    """The plan: for a terminal a summary, for a program the whole document, or its counts as tables."""
    match output:
        case Format.TABLE | Format.WIDE:
            sys.stdout.write(f"{plan}\n")
        case Format.JSON:
            sys.stdout.write(plan.to_json())
        case Format.YAML:
            yaml.safe_dump(json.loads(plan.to_json()), sys.stdout, sort_keys=False, allow_unicode=True)
        case _:
            render(plan_tables(plan), output)


def plan_tables(plan: ReplayPlan) -> list[Table]:
    """Requests that each (policy, binding) may match, their resources, and the requests left out."""
    bindings = [Column("policy"), Column("binding"), Column("requests", number=True), Column("actions")]
    classes = [Column("operation"), Column("resource"), Column("requests", number=True)]
    rows = [(operation, resource, count) for (operation, resource), count in plan.by_resource().most_common()]
    if others := plan.requests - plan.by_resource().total():
        rows.append(("", "requests of these resources and verbs that no policy matches", others))
    title = f"Run {plan.run_id}: {plan.requests:,} requests to replay"
    return [
        Table("bindings", bindings, [(item.policy, item.binding, item.requests, item.actions) for item in plan.bindings], title),
        Table("requests", classes, rows, "Requests to replay"),
        Table(
            "excluded",
            [Column("reason"), Column("requests", number=True)],
            plan.excluded,
            "Requests that are not replayed, and why",
        ),
    ]


def verdicts_of(own: Context, summary: RunSummary) -> Path:
    """The verdict table of a run."""
    return RunStore(own.lake).run(summary.run_id).verdicts


def make_plan(
    own: Context,
    policies: list[Path] | None,
    since: str | None,
    until: str | None,
    kubernetes_version: str,
    other_authorizers: OtherAuthorizers | None,
    workers: int | None,
) -> ReplayPlan:
    """The plan of the policies of `-f` over the window; see plan_of. Raises InputError without policies."""
    version = options.parse_version(kubernetes_version)
    window = Window(*options.parse_window(since, until))
    return plan_of(own, chosen_policies(own, policies, None, None, version), window, version, other_authorizers, workers)


def plan_of(
    own: Context,
    policies: PolicySet,
    window: Window,
    version: tuple[int, int],
    other_authorizers: OtherAuthorizers | None,
    workers: int | None,
    files: LakeFiles | None = None,
) -> ReplayPlan:
    """The plan of given policies over the lake, or over these files of it. Meanwhile the workers that will walk it start."""
    start_processes(own.lake, workers_or_default(workers))
    reader = open_for_plan(own.lake, files)
    try:
        return plan_replay(reader, policies, window, version, other_authorizers=other_authorizers)
    finally:
        reader.close()


def run(own: Context, plan: ReplayPlan, workers: int | None, kind: RunKind = RunKind.REPLAY) -> RunSummary:
    """Walk a plan with progress. The run counts as in use until the command ends."""
    with own.progress("replaying what was bound" if kind is RunKind.CALIBRATION else "replaying") as step:
        summary = run_replay(plan, own.lake, workers_or_default(workers), step, kind)
    if (command := click.get_current_context(silent=True)) is not None:
        command.with_resource(RunStore(own.lake).run(summary.run_id).in_use())
    note_defects(own, summary.defects)
    keep_policies(own.lake, summary.run_id, plan.policies)
    return summary


def walk(own: Context, workers: int | None) -> Walk:
    """The function with which a command walks the plans of a report: with progress, and each run counts as in use until the
    command ends."""
    return lambda plan, kind: run(own, plan, workers, kind)


def note_defects(own: Context, defects: Iterable[Defect]) -> None:
    """Make the end of the command name the policies that Hindcast failed to judge."""
    for defect in defects:
        where = f" in {defect.requests:,} requests" if defect.requests else ""
        sentence = f"policy {defect.policy} could not be judged{where}: {defect.why}"
        if sentence not in own.defects:
            own.defects.append(sentence)


def workers_or_default(workers: int | None) -> int:
    """One worker process per core unless a number is asked for."""
    return workers or os.cpu_count() or 1


def unpaired(before: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """A sentence on the policies that only one version has; versions are paired by name alone."""
    old_names, new_names = ([policy.name for policy in each.policies] for each in (before, new))
    added = [f"no version before: the other version has no policy named {name}" for name in new_names if name not in old_names]
    gone = [f"no version now: only the other version has a policy named {name}" for name in old_names if name not in new_names]
    return (*added, *gone)


def request_difference_table(rows: Sequence[RequestDifference], notes: tuple[str, ...] = ()) -> Table:
    """One row per policy: requests newly denied, newly allowed, and so on. `notes` are printed below."""
    names = ("newly_denied", "newly_allowed", "still_denied", "still_allowed", "unknown")
    columns = [Column("policy"), *(Column(name, number=True) for name in names)]
    return Table(
        "requests", columns, [[getattr(row, column.key) for column in columns] for row in rows], "Requests by change", notes
    )


def difference_table(rows: Sequence[ExpressionDifference]) -> Table:
    """One row per expression: the changes from the old policies to the new."""
    names = ("newly_denied", "newly_allowed", "message_changed", "unchanged", "unknown")
    columns = [
        Column("policy"),
        Column("binding"),
        Column("expression_index", "EXPRESSION", number=True),
        *(Column(name, number=True) for name in names),
        Column("denied_message", "EXAMPLE OF A NEW DENIAL", prose=True),
        Column("denied_example", "AUDIT ID", wide=True),
    ]
    cells = [[getattr(row, column.key) for column in columns] for row in rows]
    notes = ("unknown: either version could not be judged", "a row without an expression stands for all of them")
    return Table(
        "difference", columns, cells, "Changes by expression", notes[: 1 + any(row.expression_index is None for row in rows)]
    )


def summary_table(summary: RunSummary) -> Table:
    """One row per (policy, binding)."""
    counts = ("matched", "admit", "deny", "error", "unknown")
    columns = [
        Column("policy"),
        Column("binding"),
        *(Column(name, number=True) for name in counts),
        Column("nomatch", "NO MATCH", wide=True, number=True),
        Column("actions"),
    ]
    rows = [
        [entry.policy, entry.binding, *(getattr(entry, name) for name in counts), entry.nomatch, entry.actions]
        for entry in summary.bindings
    ]
    note = "an error that failurePolicy Fail turns into a denial counts as deny"
    return Table("bindings", columns, rows, f"Run {summary.run_id}: {summary.evaluated:,} requests replayed", (note,))


def not_evaluated_table(plan: ReplayPlan, summary: RunSummary) -> Table:
    """Requests without a verdict, by reason."""
    reasons = [*summary.not_evaluated, *plan.excluded]
    rows = sorted(((reason, count) for reason, count in reasons), key=lambda row: (-row[1], row[0]))
    return Table(
        "not_evaluated", [Column("reason"), Column("requests", number=True)], rows, "Requests that were not replayed, and why"
    )
