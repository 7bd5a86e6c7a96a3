"""`hindcast fleet readiness` and `fleet rollout`: the same manifests on every cluster of a lake."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.stages.level import Level
from ingest.errors import InputError
from pipeline.readiness.model import Status

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.fleet import FleetReport, Question
    from pipeline.fleet.model import FleetCell
    from pipeline.readiness.judging import Judgement


_SHOWN = 12


class FleetAction(StrEnum):
    """What to ask of the clusters."""

    READINESS = "readiness"
    ROLLOUT = "rollout"


class FleetFormat(StrEnum):
    """The formats of a report on a fleet."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"
    HTML = "html"


def command(
    context: typer.Context,
    action: Annotated[
        FleetAction, typer.Argument(help="readiness: whether manifests may be enforced; rollout: where to begin.")
    ] = FleetAction.READINESS,
    policies: options.Policies = None,
    level: Level = None,
    cluster: Annotated[list[str] | None, typer.Option(help="Only this cluster; repeatable. Default: all.")] = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: Annotated[
        str | None, typer.Option("--kubernetes-version", help="The minor version of all clusters. [default: as each log shows]")
    ] = None,
    rules: options.Rules = None,
    calibration: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Also compare with the recorded outcomes of each cluster.")
    ] = True,
    with_exemptions: Annotated[
        bool, typer.Option("--exemptions/--no-exemptions", help="Also look for exemptions that make a policy ready.")
    ] = True,
    other_authorizers: options.OtherAuthorizersOption = None,
    only_given: Annotated[bool, typer.Option("--only", help="The given roles replace all others in each cluster.")] = False,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="rollout: write the manifests of each wave into this new folder, a folder per cluster."),
    ] = None,
    workers: options.Workers = None,
    limit: options.Limit = None,
    output: Annotated[FleetFormat, typer.Option("-o", "--output", help="How to print the report.")] = FleetFormat.TABLE,
    report_file: Annotated[
        list[Path] | None, typer.Option("--report-file", help="Also write the report to this file, by its ending; repeatable.")
    ] = None,
) -> int:
    """Judge the same manifests on every cluster of the lake, each cluster alone, or plan their way into force there.

    The clusters that cannot be judged stand apart with the reason. An interrupted command goes on where it stopped.
    """
    from api import asked_values
    from api.given import given_for_any, warn_of
    from api.printing.output import Format, render
    from api.printing.targets import check_file
    from api.stages.level import labels_of
    from pipeline.fleet import Question
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.report.fleet import FLEET_FORMATS, fleet_format_of
    from pipeline.runs.window import Window

    from .parts.fleet_rollout import roll_out
    from .parts.texts import read_texts

    own: Context = context.obj
    for path in report_file or ():
        fleet_format_of(path.name)
        check_file("--report-file", path)
    if write is not None and action is not FleetAction.ROLLOUT:
        raise InputError("--write is for `hindcast fleet rollout`", "--report-file writes a report on readiness")
    labels = labels_of(level, ())
    texts = (*(read_texts(policies) if policies or not labels else ()), *labels)
    # Whether a policy fits the version of a cluster is part of the answer on that cluster.
    given = given_for_any(texts)
    warn_of(own, given)
    question = Question(
        texts,
        Window(*asked_values.parse_window(since, until)),
        asked_values.parse_version(kubernetes_version) if kubernetes_version else None,
        ReadinessRules.load(rules) if rules else ReadinessRules(),
        other_authorizers,
        calibration,
        with_exemptions,
        only_given,
    )
    chosen, count = _chosen(own, cluster), replay.workers_or_default(own, workers)
    if action is FleetAction.ROLLOUT:
        return roll_out(own, question, given, chosen, count, output.value, limit, write)
    report = _judged(own, question, chosen, count)
    for path in report_file or ():
        try:
            path.write_text(FLEET_FORMATS[fleet_format_of(path.name)](report), encoding="utf-8")
        except OSError as error:
            raise InputError(f"--report-file: {path} cannot be written: {error.strerror}") from error
        own.say(f"report: {path}")
    if output.value in FLEET_FORMATS:
        typer.echo(FLEET_FORMATS[output.value](report), nl=False)
    else:
        render(fleet_tables(report), Format(output.value), limit=limit)
    return 0


def _chosen(own: Context, names: list[str] | None) -> list[str] | None:
    from pipeline.fleet.fleet import clusters_of

    known = clusters_of(own.lake)
    for name in names or ():
        if name not in known:
            raise InputError(f"--cluster: the lake has no events of {name!r}", f"it has {', '.join(known) or 'no events at all'}")
    return sorted(set(names)) if names else None


def _judged(own: Context, question: Question, clusters: list[str] | None, workers: int) -> FleetReport:
    from api.beside_runs import keep_cluster, keep_made, keep_rules
    from pipeline.fleet import judge_fleet
    from pipeline.manifests.files import manifests_of
    from pipeline.stages.registry import stage_of

    def keep(cluster: str, judgement: Judgement) -> None:
        for part in judgement.parts:
            keep_made(own.lake, part)
            keep_cluster(own.lake, part.report.run_id, cluster)
        for name, summary in judgement.runs.items():
            own.note_defects(summary.defects)
            stage = stage_of(name)
            keep_rules(own.lake, summary.run_id, stage, stage.read(manifests_of(question.texts)), question.texts)

    def begin(done: int, total: int, cluster: str) -> None:
        if cluster:
            own.say(f"{done + 1} of {total} clusters: {cluster}")

    return judge_fleet(own.lake, question, clusters=clusters, workers=workers, asked_ts=datetime.now(UTC), begin=begin, judged=keep)


def fleet_tables(report: FleetReport) -> list[Table]:
    """The report for a terminal: each manifest over all clusters, the clusters worst first, those apart, and differences."""
    return [_policies(report), _clusters(report), *_apart(report), *_differences(report)]


def _policies(report: FleetReport) -> Table:
    from api.printing.output import Column, Table
    from pipeline.report.fleet import fleet_answer, ready_in

    columns = [
        Column("policy", may_shorten=True),
        Column("binding", wide=True),
        Column("ready", "READY IN"),
        Column("exemptions", "WITH EXEMPTIONS", number=True),
        Column("not_ready", "NOT READY", number=True),
        Column("unjudged", "NOT JUDGED", number=True),
        Column("worst", "WORST", may_shorten=True),
        Column("begin_with", "BEGIN WITH", may_shorten=True),
    ]
    rows = [
        [
            each.policy,
            each.binding,
            ready_in(each),
            each.ready_with_exemptions,
            len(each.not_ready),
            len(each.unjudged),
            each.not_ready[0] if each.not_ready else "",
            each.start.cluster,
        ]
        for each in report.policies
    ]
    start = f"begin with {report.start.cluster}: {report.start.reason}" if report.start.cluster else report.start.reason
    return Table("policies", columns, rows, fleet_answer(report), (start, *report.caveats))


def _clusters(report: FleetReport) -> Table:
    from api.printing.output import Column, Table
    from pipeline.report.fleet import SIGNS

    keys = [(each.policy, each.binding, each.stage) for each in report.policies]
    columns = [Column("cluster"), Column("version", wide=True)]
    columns += [Column(each.policy, each.policy) for each in report.policies[:_SHOWN]]
    columns.append(Column("denied_workloads", "DENIED WORKLOADS", number=True))
    rows: list[list[object]] = []
    for each in report.clusters:
        cells = {(cell.policy, cell.binding, cell.stage): cell for cell in each.cells}
        shown = [_sign(cells.get(key)) for key in keys[:_SHOWN]]
        rows.append([each.cluster, each.kubernetes_version, *shown, max((cell.units_denied for cell in each.cells), default=0)])
    legend = ", ".join(f"{SIGNS[status]} {status}" for status in (Status.READY, *_OTHERS))
    more = (f"{len(keys) - _SHOWN:,} more manifests: -o json",) if len(keys) > _SHOWN else ()
    return Table("clusters", columns, rows, "Clusters, the worst first", (legend, *more))


_OTHERS = (Status.READY_WITH_EXEMPTIONS, Status.NOT_READY, Status.INSUFFICIENT_EVIDENCE)


def _sign(cell: FleetCell | None) -> str:
    from pipeline.report.fleet import SIGNS

    return SIGNS[cell.status] if cell is not None else ""


def _apart(report: FleetReport) -> Iterator[Table]:
    from api.printing.output import Column, Table
    from api.printing.reports import VERDICT_STYLES
    from pipeline.report.fleet import first_reason

    if report.apart:
        columns = [Column("cluster"), Column("reason", "WHY", prose=True)]
        rows = [[each.cluster, each.apart or first_reason(each.cells)] for each in report.apart]
        yield Table("apart", columns, rows, "Clusters that cannot be judged", style=VERDICT_STYLES[Status.INSUFFICIENT_EVIDENCE])


def _differences(report: FleetReport) -> Iterator[Table]:
    from api.printing.output import Column, Table

    if report.differences:
        columns = [Column("kind"), Column("name", may_shorten=True), Column("versions", "CLUSTERS BY VERSION", prose=True)]
        rows = [
            [each.kind, each.name, "; ".join(f"{version.digest}: {_names(version.clusters)}" for version in each.versions)]
            for each in report.differences
        ]
        yield Table("differences", columns, rows, "What clusters have recorded in different versions")


def _names(clusters: tuple[str, ...]) -> str:
    return ", ".join(clusters[:3]) + (f" and {len(clusters) - 3:,} more" if len(clusters) > 3 else "")
