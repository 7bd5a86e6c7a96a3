"""`hindcast replay`: the decisions of policies over the recorded requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import click
import typer
import yaml

from api.beside_runs import keep_policies
from api.context import Context
from api.output import Format, render
from api.targets import check_file
from ingest.errors import InputError
from pipeline.admission.policies import PolicySet
from pipeline.authorization import OtherAuthorizers
from pipeline.manifests.files import manifests_of
from pipeline.readiness.flow import Walk
from pipeline.replay import (
    ReplayPlan,
    Window,
    difference,
    open_for_plan,
    plan_replay,
    request_difference,
    run_replay,
    start_processes,
)
from pipeline.runs import Defect, RunKind, RunStore, RunSummary
from pipeline.stages.assign import assign
from pipeline.stages.registry import VALIDATING
from pipeline.stages.stage import Asked, StagePlan
from queries.catalog import LakeFiles

from . import options
from .policies import chosen_policies, chosen_texts, only, read_texts
from .replay_tables import difference_table, not_evaluated_table, plan_tables, request_difference_table, summary_table
from .staged import Replayed, replay_stage, write_export
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
    only_given: Annotated[
        bool, typer.Option("--only", help="The given manifests replace all others of their stage in the cluster.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE.parquet", help="Also write every verdict to a Parquet file.")
    ] = None,
    with_objects: Annotated[
        bool, typer.Option("--with-objects", help="Fill the column `object` of --export, where a stage changes objects.")
    ] = False,
    workers: Workers = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay manifests over the recorded requests, and count the decisions of each (policy, binding).

    The kind of a manifest says which stage of the API server it belongs to.
    """
    own: Context = context.obj
    if export is not None:
        check_file("--export", export)
    window, version = Window(*options.parse_window(since, until)), options.parse_version(kubernetes_version)
    asked = Asked(window, version, other_authorizers, only_given, with_objects)
    check_window(own, window)
    texts = read_texts(policies) if policies or from_log is None else []
    manifests = manifests_of(texts)
    given = assign(manifests)
    if given.left and from_log is None:
        own.say(given.words_of_left)
    old_texts = read_texts(against) if against else []
    base = _Base(old_texts, against_log, cluster)
    others = [(stage, rules) for stage, rules in given.rules if stage is not VALIDATING]
    replays = []
    if not others or len(others) < len(given.rules):
        new = chosen_texts(own, texts, from_log, cluster, version)
        replays.append(_replay_policies(own, new, base, asked, workers, plan))
    if others:
        before = assign(manifests_of(old_texts))
        count = workers_or_default(workers)
        replays += [replay_stage(own, stage, rules, asked, before, count, plan) for stage, rules in others]
    if plan:
        for each in replays:
            _print_plan(each.plan, output)
        return 0
    render([table for each in replays for table in each.tables], output, limit=limit)
    files = replays[0].plan.files
    own.say(window.words(files.newest_us if files else None))
    for each in replays:
        own.say(f"verdicts: {each.verdicts}")
    if export is not None:
        write_export(own, replays, manifests, export, only_given)
    return 0


class _Base(NamedTuple):
    """The version before: the named texts of files, or the policies in force at a time."""

    texts: Sequence[tuple[str, str]]
    moment: str | None
    cluster: str | None


def _replay_policies(own: Context, new: PolicySet, base: _Base, asked: Asked, workers: int | None, is_plan: bool) -> Replayed:
    planned = plan_of(own, new, asked.window, asked.kubernetes_version, asked.other_authorizers, 1 if is_plan else workers)
    verdicts = RunStore(own.lake).run(planned.run_id).verdicts
    if is_plan:
        return Replayed(planned, verdicts)
    summary = run(own, planned, workers)
    tables = [summary_table(summary), not_evaluated_table(planned, summary)]
    if base.texts or base.moment:
        before = chosen_texts(own, base.texts, base.moment, base.cluster, asked.kubernetes_version)
        if not base.texts:
            # The other policies of the cluster do not change.
            before = only(before, {policy.name for policy in new.policies})
        others = asked.other_authorizers
        bound = plan_of(own, before, asked.window, asked.kubernetes_version, others, workers, planned.files)
        both = verdicts_of(own, run(own, bound, workers, RunKind.BASE)), verdicts
        notes = unpaired(before, new)
        tables = [request_difference_table(request_difference(*both), notes), difference_table(difference(*both)), *tables]
    return Replayed(planned, verdicts, tuple(tables))


def _print_plan(plan: StagePlan, output: Format) -> None:
    """The plan: for a terminal a summary, for a program the whole document, or its counts as tables."""
    match output:
        case Format.TABLE | Format.WIDE:
            sys.stdout.write(f"{plan}\n")
        case Format.JSON:
            sys.stdout.write(plan.to_json())
        case Format.YAML:
            yaml.safe_dump(json.loads(plan.to_json()), sys.stdout, sort_keys=False, allow_unicode=True)
        case _:
            if not isinstance(plan, ReplayPlan):
                raise InputError(f"-o {output}: the plan of stage {plan.stage} has no tables", "use -o json, yaml or table")
            render(plan_tables(plan), output)


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
