"""`hindcast readiness`: says whether these policies may deny, how sure that is, and whom they would deny."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing import report_options
from api.printing.report_options import ReportFormat
from pipeline.cel.minors import DEFAULT

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.given import Texts
    from pipeline.authorization import OtherAuthorizers
    from pipeline.readiness.report import Report
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.runs.window import Window
    from queries import LakeReader
    from queries.catalog import LakeFiles


WithExemptions = Annotated[
    bool,
    typer.Option("--exemptions/--no-exemptions", help="Also look for exemptions that make a policy ready."),
]


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    rules: options.Rules = None,
    calibration: Annotated[
        bool,
        typer.Option("--calibrate/--no-calibrate", help="Also replay the bound policies, and compare with the recorded outcomes."),
    ] = True,
    with_exemptions: WithExemptions = True,
    cluster: Annotated[str, typer.Option(help="Only this cluster of the lake. [default: all together]", show_default=False)] = "",
    expires: options.Expires = "90d",
    check_exemptions: Annotated[bool, typer.Option("--check-exemptions", help="Review the existing exemptions instead.")] = False,
    other_authorizers: options.OtherAuthorizersOption = None,
    workers: options.Workers = None,
    limit: options.Limit = None,
    output: report_options.Output = ReportFormat.TABLE,
    report_file: report_options.Files = None,
    export: report_options.Export = None,
    only_given: Annotated[
        bool, typer.Option("--only", help="The given roles and bindings replace all others in the cluster.")
    ] = False,
    extra_roles: Annotated[
        Path | None, typer.Option("--extra-roles", help="Write the roles that would keep everybody working to this file.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when a policy is NOT READY, 3 when evidence is insufficient.")
    ] = False,
) -> int:
    """Replay policies, and print whether each of them may deny, with the figures."""
    from api import asked_values
    from api.beside_runs import keep_cluster
    from api.given import given_of, warn_of
    from api.printing import reports
    from pipeline.history.in_force import CHANGE_DELAY
    from pipeline.readiness.report import with_caveats
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.readiness.stage_flow import Wanted
    from pipeline.readiness.together import joined_over
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked as StageAsked

    from .exemptions import check_present, manifests_of, parse_expiry
    from .parts import stage_readiness
    from .parts.clusters import cluster_files
    from .parts.window import check_window
    from .policies import chosen_policies, read_texts

    own: Context = context.obj
    if check_exemptions:
        version, window = asked_values.parse_version(kubernetes_version), Window(*asked_values.parse_window(since, until))
        manifests = manifests_of(chosen_policies(own, policies, None, None, version), policies)
        return check_present(own, manifests, window, version, workers, output.value, exit_code)
    reports.check_outputs(report_file, export)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    given = given_of(read_texts(policies), asked_values.parse_version(kubernetes_version))
    warn_of(own, given)
    window, files = Window(*asked_values.parse_window(since, until)), cluster_files(own, cluster)
    found: list[Report] = []
    if given.judges_policies:
        day = parse_expiry(expires, datetime.now(UTC).date()) if with_exemptions else None
        asked = Question(
            given.texts, window, asked_values.parse_version(kubernetes_version), workers, day, other_authorizers, files
        )
        found.append(make_report(own, asked, chosen, CHANGE_DELAY if calibration else None, export))
    if given.stages:
        check_window(own, window)
        wanted = StageAsked(window, asked_values.parse_version(kubernetes_version), other_authorizers, only_given)
        looked = Wanted(chosen, calibration, with_exemptions, parse_expiry(expires, datetime.now(UTC).date()))
        made = stage_readiness.make_reports(own, given, wanted, looked, replay.workers_or_default(own, workers), export, files)
        found += [each.report for each in made]
        if extra_roles is not None and any(each.extra for each in made):
            stage_readiness.write_extra(made, extra_roles)
    for report in found if cluster else ():
        keep_cluster(own.lake, report.run_id, cluster)
    report = with_caveats(joined_over(own.lake, files, found), own.warnings)
    return _finish(own, report, output, report_file, export, limit, exit_code)


def _finish(
    own: Context,
    report: Report,
    output: ReportFormat,
    report_file: list[Path] | None,
    export: Path | None,
    limit: int | None,
    exit_code: bool,
) -> int:
    from api.printing import reports

    for path in reports.write_report(report, report_file, export):
        own.say(f"report: {path}")
    reports.print_report(report, output, limit=limit)
    return _exit_code(report) if exit_code else 0


@dataclass(frozen=True)
class Question:
    """Which policies to try over which requests, also of some files of the lake alone.

    `expires` is the review date of exemptions; None proposes no exemptions.
    """

    texts: Texts
    window: Window | None = None
    kubernetes_version: tuple[int, int] = DEFAULT
    workers: int | None = None
    expires: date | None = None
    other_authorizers: OtherAuthorizers | None = None
    files: LakeFiles | None = None


def make_report(
    own: Context, asked: Question, rules: ReadinessRules, change_delay: timedelta | None, export: Path | None = None
) -> Report:
    """Plan, replay and assess; `change_delay` None leaves out the comparison with the record.

    The rows behind the figures are written into the folder `export`.
    """
    from api.printing import reports
    from pipeline.readiness import flow
    from pipeline.readiness.exempting.manifests import Manifests
    from pipeline.runs.window import Window
    from pipeline.stages.validating.load import parse_objects

    from .parts.made_once import made_once
    from .parts.window import check_window
    from .policies import checked_policies

    others, version = asked.other_authorizers, asked.kubernetes_version
    window = asked.window or Window()
    check_window(own, window)
    policies = checked_policies(own, asked.texts, version)
    plan = replay.plan_of(own, policies, window, version, others, asked.workers, asked.files)
    summary = replay.run(own, plan, asked.workers)
    wanted = flow.Asked(
        rules,
        change_delay,
        others,
        Manifests.of(policies, parse_objects(asked.texts)) if asked.expires is not None else None,
        asked.expires,
        replay.workers_or_default(own, asked.workers),
        own.note_defects,
    )

    def counted(reader: LakeReader) -> None:
        if export is not None:
            reports.write_outcomes(reader, export)

    report = partial(flow.make_report, own.lake, plan, summary, wanted, replay.walk(own, asked.workers), counted=counted)
    question = (asked.texts, asked.expires, others, rules, change_delay)
    made = made_once(own, plan, question, export, report)
    own.tell_window(plan.words_of_window)
    return made.report


def _exit_code(report: Report) -> int:
    from pipeline.readiness.model import Status

    statuses = {entry.status for entry in report.policies}
    if Status.NOT_READY in statuses:
        return 1
    return 3 if Status.INSUFFICIENT_EVIDENCE in statuses else 0
