"""`hindcast replay`: the decisions of policies over the recorded requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from api.context import Context
from api.on_ray import On
from api.printing.output import Format
from api.stages.level import Level, LevelNamespaces
from ingest.errors import InputError
from pipeline.stages.names import DEFAULT, IN_LOG

from .parts import options

if TYPE_CHECKING:
    from api.given import Given, Texts
    from api.printing.output import Table
    from pipeline.runs.plan import RunPlan
    from pipeline.stages.stage import Asked, Stage

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
    from api.stages.level import check_namespaces, labels_of
    from pipeline.manifests.files import manifests_of
    from pipeline.runs.processes import start_processes
    from pipeline.runs.window import Window
    from pipeline.stages.registry import stage_of
    from pipeline.stages.stage import Asked

    from .parts.from_log import given_from_log
    from .parts.staged import replay_chain, replay_stage, write_export
    from .parts.texts import read_texts
    from .parts.window import check_window

    own: Context = context.obj
    if export is not None:
        check_file("--export", export)
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    asked = Asked(window, version, other_authorizers, only_given, with_objects)
    check_window(own, window)
    check_namespaces(own, namespaces)
    labels = labels_of(level, namespaces)
    if stage_of_log != DEFAULT and (policies or labels or from_log is None):
        raise InputError(
            f"--stage {stage_of_log} is for --from-log without -f", "with -f, the kinds of the manifests say the stage"
        )
    texts: Texts = [*(read_texts(policies) if policies or not (labels or from_log) else ()), *labels]
    if from_log is None:
        given = given_of(texts, version, own.lake, needs_all=not chain)
        warn_of(own, given)
    else:
        given = given_from_log(own, texts, stage_of(stage_of_log), from_log, cluster, version)
    base = _Base.of(own, given, read_texts(against) if against else [], against_log, cluster, asked)
    replays = []
    count = workers_or_default(own, workers)
    if on is None and not plan:
        start_processes(own.lake, count)
    with nullcontext() if on is None or plan else connected(on, workers) as executor:
        if chain:
            replays.append(replay_chain(own, asked, texts, bool(against or against_log or from_log), count, plan, executor))
        for stage, rules in () if chain else given.stages:
            replays.append(replay_stage(own, stage, rules, asked, given.texts, base.of_stage(stage, rules), count, plan, executor))
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


def _compared(own: Context, replays: Sequence[Replayed]) -> list[Table]:
    """The comparison of the verdicts of several stages, such as of a chain of authorizers with policies."""
    from pipeline.stages.registry import stage_of
    from queries import open_lake

    if len(replays) == 1:
        return []
    by_stage = {each.plan.stage: each.verdicts for each in replays}
    with closing(open_lake(own.lake, files=replays[0].plan.files)) as reader:
        return [table for name in by_stage for table in stage_of(name).readiness.compared(reader, by_stage)]


@dataclass(frozen=True)
class _Base:
    """The version before: manifests of files, perhaps over those of the log, or those that the log shows at a time."""

    own: Context
    given: Given | None
    moment: str | None
    cluster: str | None
    replaces_all: bool

    @classmethod
    def of(cls, own: Context, given: Given, texts: Texts, moment: str | None, cluster: str | None, asked: Asked) -> _Base:
        """Read the version before of some manifests. Raises InputError for a version before that has none of the same kinds."""
        from api.given import given_of

        from .parts.from_log import given_from_log

        before = None
        if texts and moment:
            before = given_from_log(own, texts, given.stages[0][0], moment, cluster, asked.kubernetes_version, are_stored=True)
        elif texts:
            before = given_of(texts, asked.kubernetes_version, are_stored=True)
        if before is not None:
            for stage, _ in given.stages:
                before.needed(stage)
        return cls(own, before, moment, cluster, asked.replaces_all)

    def of_stage(self, stage: Stage[Any, Any], rules: Any) -> Any:
        """The rules of a stage before; None if there is no version before."""
        from .parts.staged import rules_as_of

        if self.given is not None:
            return self.given.rules_of(stage)
        return rules_as_of(self.own, stage, rules, self.moment, self.cluster, self.replaces_all) if self.moment else None


def _print_plan(plan: RunPlan, output: Format) -> None:
    """The plan: for a terminal a summary, for a program the whole document, or its counts as tables."""
    from api.printing.output import render
    from pipeline.report.texts import yaml_text

    from .parts.plan_tables import plan_tables

    match output:
        case Format.TABLE | Format.WIDE:
            sys.stdout.write(f"{plan}\n")
        case Format.JSON:
            sys.stdout.write(plan.to_json())
        case Format.YAML:
            sys.stdout.write(yaml_text([json.loads(plan.to_json())]))
        case _:
            render(plan_tables(plan), output)


def workers_or_default(own: Context, workers: int | None) -> int:
    """As many worker processes as asked for; by default as many as the lake is worth."""
    from pipeline.runs.processes import default_workers

    return workers or default_workers(own.lake)
