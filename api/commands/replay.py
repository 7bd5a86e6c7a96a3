"""`hindcast replay`: the decisions of policies over the recorded requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click
import typer

from api.context import Context
from api.on_ray import On
from api.printing.output import Format
from ingest.errors import InputError
from pipeline.runs import RunKind
from pipeline.stages.names import DEFAULT, IN_LOG

from .parts import options
from .parts.level import Level, LevelNamespaces

if TYPE_CHECKING:
    from api.given import Texts
    from api.printing.output import Table
    from pipeline.other_authorizers import OtherAuthorizers
    from pipeline.policies.model import PolicySet
    from pipeline.runs import RunSummary
    from pipeline.runs.executors import Executor
    from pipeline.runs.plan import RunPlan
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked
    from pipeline.stages.validating.plan import ReplayPlan
    from queries.catalog import LakeFiles

    from .parts.staged import Replayed


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    level: Level = None,
    namespaces: LevelNamespaces = None,
    plan: Annotated[bool, typer.Option("--plan", help="Count the requests, print the plan, and stop.")] = False,
    against: Annotated[
        list[Path] | None, typer.Option(help="Compare with the version before: a file or a folder; repeatable.")
    ] = None,
    against_log: Annotated[
        str | None,
        typer.Option("--against-log", help="Compare with the manifests in force at this time (RFC 3339), as the log shows."),
    ] = None,
    from_log: Annotated[
        str | None, typer.Option("--from-log", help="Replay the policies in force at this time (RFC 3339), as the log shows.")
    ] = None,
    stage_of_log: Annotated[
        str,
        typer.Option("--stage", click_type=click.Choice(IN_LOG), help="Without -f: the stage whose manifests --from-log takes."),
    ] = DEFAULT,
    cluster: Annotated[str | None, typer.Option(help="The cluster whose policies --from-log and --against-log take.")] = None,
    other_authorizers: options.OtherAuthorizersOption = None,
    only_given: Annotated[
        bool, typer.Option("--only", help="The given manifests replace all others of their stage in the cluster.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="One answer per request: the stages in the server's order, each with what the others left."),
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE.parquet", help="Also write every verdict to a Parquet file.")
    ] = None,
    with_objects: Annotated[
        bool, typer.Option("--with-objects", help="Fill the column `object` of --export, where a stage changes objects.")
    ] = False,
    workers: options.Workers = None,
    on: On = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay manifests over the recorded requests, and count the decisions of each (policy, binding).

    The kind of a manifest says which stage of the API server it belongs to.
    """
    from api import asked_values
    from api.given import given_of, warn_of
    from api.on_ray import connected
    from api.printing.output import render
    from api.printing.targets import check_file
    from pipeline.manifests.files import manifests_of
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked

    from .parts.level import check_namespaces, labels_of
    from .parts.staged import replay_chain, replay_stage, rules_as_of, write_export
    from .parts.window import check_window
    from .policies import chosen_texts, read_texts

    own: Context = context.obj
    if export is not None:
        check_file("--export", export)
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    asked = Asked(window, version, other_authorizers, only_given, with_objects)
    check_window(own, window)
    check_namespaces(own, namespaces)
    texts = _texts(own, policies, from_log, stage_of_log, cluster, labels_of(level, namespaces))
    given = given_of(texts, version if from_log is None else None)
    if from_log is None:
        warn_of(own, given)
    old_texts = read_texts(against) if against else []
    base = _Base(old_texts, against_log, cluster)
    replays = []
    before = given_of(old_texts) if old_texts else None
    count = workers_or_default(own, workers)
    with nullcontext() if on is None or plan else connected(on, workers) as executor:
        if chain:
            replays.append(replay_chain(own, asked, texts, bool(against or against_log or from_log), count, plan, executor))
        elif given.judges_policies:
            new = chosen_texts(own, texts, from_log, cluster, version)
            replays.append(_replay_policies(own, new, base, asked, workers, plan, executor))
        for stage, rules in () if chain else given.stages:
            old = before.rules_of(stage) if before is not None else None
            if against_log is not None and before is None:
                old = rules_as_of(own, stage, rules, against_log, cluster, only_given)
            replays.append(replay_stage(own, stage, rules, asked, texts, old, count, plan, executor))
    if plan:
        for each in replays:
            _print_plan(each.plan, output)
        return 0
    render([*_compared(own, replays), *(table for each in replays for table in each.tables)], output, limit=limit)
    files = replays[0].plan.files
    own.tell_window(window.words(files.newest_us if files else None))
    for each in replays:
        own.say(f"verdicts: {each.verdicts}")
    if export is not None:
        write_export(own, replays, manifests_of(texts), export, only_given)
    return 0


def _texts(own: Context, files: list[Path] | None, from_log: str | None, stage: str, cluster: str | None, labels: Texts) -> Texts:
    """The given manifests, or those of a stage that the log shows; none for the policies of the log."""
    from pipeline.stages.registry import stage_of

    from .parts.from_log import texts_from_log
    from .policies import read_texts

    if labels:
        return [*(read_texts(files) if files else ()), *labels]
    if from_log is not None and not files:
        return texts_from_log(own, stage_of(stage), from_log, cluster)
    if stage != DEFAULT:
        raise InputError(f"--stage {stage} is for --from-log without -f", "with -f, the kinds of the manifests say the stage")
    return read_texts(files)


def _compared(own: Context, replays: Sequence[Replayed]) -> list[Table]:
    """The comparison of the verdicts of several stages, such as of a chain of authorizers with policies."""
    from pipeline.stages.registry import stage_of
    from queries import open_lake

    if len(replays) == 1:
        return []
    by_stage = {each.plan.stage: each.verdicts for each in replays}
    with closing(open_lake(own.lake, files=replays[0].plan.files)) as reader:
        return [table for name in by_stage for table in stage_of(name).readiness.compared(reader, by_stage)]


class _Base(NamedTuple):
    """The version before: the named texts of files, or the policies in force at a time."""

    texts: Sequence[tuple[str, str]]
    moment: str | None
    cluster: str | None


def _replay_policies(
    own: Context, new: PolicySet, base: _Base, asked: Asked, workers: int | None, is_plan: bool, executor: Executor | None
) -> Replayed:
    from pipeline.runs import RunStore
    from pipeline.stages.validating.difference import difference, request_difference

    from .parts.replay_tables import difference_table, not_evaluated_table, request_difference_table, summary_table
    from .parts.staged import Replayed
    from .policies import chosen_texts, only

    starting = 1 if is_plan or executor else workers
    planned = plan_of(own, new, asked.window, asked.kubernetes_version, asked.other_authorizers, starting)
    verdicts = RunStore(own.lake).run(planned.run_id).verdicts
    if is_plan:
        return Replayed(planned, verdicts)
    summary = run(own, planned, workers, executor=executor)
    tables = [summary_table(summary), not_evaluated_table(planned, summary)]
    if base.texts or base.moment:
        before = chosen_texts(own, base.texts, base.moment, base.cluster, asked.kubernetes_version, are_stored=True)
        if not base.texts:
            # The other policies of the cluster do not change.
            before = only(before, {policy.name for policy in new.policies})
        others = asked.other_authorizers
        bound = plan_of(own, before, asked.window, asked.kubernetes_version, others, starting, planned.files)
        both = verdicts_of(own, run(own, bound, workers, RunKind.BASE, executor)), verdicts
        notes = unpaired(before, new)
        tables = [request_difference_table(request_difference(*both), notes), difference_table(difference(*both)), *tables]
    return Replayed(planned, verdicts, tuple(tables))


def _print_plan(plan: RunPlan, output: Format) -> None:
    """The plan: for a terminal a summary, for a program the whole document, or its counts as tables."""
    from api.printing.output import render
    from pipeline.report.texts import yaml_text
    from pipeline.stages.validating.plan import ReplayPlan

    from .parts.replay_tables import plan_tables

    match output:
        case Format.TABLE | Format.WIDE:
            sys.stdout.write(f"{plan}\n")
        case Format.JSON:
            sys.stdout.write(plan.to_json())
        case Format.YAML:
            sys.stdout.write(yaml_text([json.loads(plan.to_json())]))
        case _:
            if not isinstance(plan, ReplayPlan):
                raise InputError(f"-o {output}: the plan of stage {plan.stage} has no tables", "use -o json, yaml or table")
            render(plan_tables(plan), output)


def verdicts_of(own: Context, summary: RunSummary) -> Path:
    """The verdict table of a run."""
    from pipeline.runs import RunStore

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
    from api import asked_values
    from pipeline.runs.window import Window

    from .policies import chosen_policies

    version = asked_values.parse_version(kubernetes_version)
    window = Window(*asked_values.parse_window(since, until))
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
    from pipeline.runs.processes import start_processes
    from pipeline.stages.validating.planning import plan_replay
    from queries import open_lake

    start_processes(own.lake, workers_or_default(own, workers))
    reader = open_lake(own.lake, files=files)
    try:
        return plan_replay(reader, policies, window, version, other_authorizers=other_authorizers)
    finally:
        reader.close()


def run(
    own: Context, plan: ReplayPlan, workers: int | None, kind: RunKind = RunKind.REPLAY, executor: Executor | None = None
) -> RunSummary:
    """Walk a plan with progress. The run counts as in use until the command ends."""
    from api.beside_runs import keep_policies
    from api.given import use_until_end
    from pipeline.runs import RunStore
    from pipeline.stages.validating.execute import run_replay

    title = "replaying the policies in force" if kind is RunKind.CALIBRATION else "replaying"
    stored = RunStore(own.lake).run(plan.run_id)
    with own.progress(title) as step, stored.owned():
        summary = run_replay(plan, own.lake, workers_or_default(own, workers), step, kind, executor)
        use_until_end(stored)
    own.note_defects(summary.defects)
    keep_policies(own.lake, summary.run_id, plan.policies)
    return summary


def workers_or_default(own: Context, workers: int | None) -> int:
    """As many worker processes as asked for; by default as many as the lake is worth."""
    from pipeline.runs.processes import default_workers

    return workers or default_workers(own.lake)


def unpaired(before: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """A sentence on the policies that only one version has; versions are paired by name alone."""
    old_names, new_names = ([policy.name for policy in each.policies] for each in (before, new))
    added = [f"no version before: the other version has no policy named {name}" for name in new_names if name not in old_names]
    gone = [f"no version now: only the other version has a policy named {name}" for name in old_names if name not in new_names]
    return (*added, *gone)
