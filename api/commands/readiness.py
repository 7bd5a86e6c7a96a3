"""`hindcast readiness`: says whether these policies may deny, how sure that is, and whom they would deny."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing import report_options
from api.printing.report_options import ReportFormat

from .parts import options

if TYPE_CHECKING:
    from pipeline.readiness.report import Report


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
    from pipeline.readiness.flow import Wanted
    from pipeline.readiness.report import with_caveats
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.readiness.together import joined_over
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked as StageAsked

    from .exemptions import check_present, parse_expiry
    from .parts.clusters import cluster_files
    from .parts.made_reports import make_reports, write_extra
    from .parts.texts import read_texts
    from .parts.window import check_window

    own: Context = context.obj
    version, window = asked_values.parse_version(kubernetes_version), Window(*asked_values.parse_window(since, until))
    if check_exemptions:
        present = given_of(read_texts(policies), version, own.lake)
        return check_present(own, present, StageAsked(window, version), workers, output.value, exit_code)
    reports.check_outputs(report_file, export)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    given = given_of(read_texts(policies), version, own.lake)
    warn_of(own, given)
    for hint in (each for stage, rules in given.stages for each in stage.readiness.hints(rules)):
        own.say(hint)
    files = cluster_files(own, cluster)
    check_window(own, window)
    asked = StageAsked(window, version, other_authorizers, only_given)
    day = parse_expiry(expires, datetime.now(UTC).date())
    wanted = Wanted(chosen, calibration, with_exemptions, day)
    made = make_reports(own, given.texts, given.stages, asked, wanted, workers, export, files)
    if extra_roles is not None and any(each.extra for each in made):
        write_extra(made, extra_roles)
    found = [each.report for each in made]
    for report in found if cluster else ():
        keep_cluster(own.lake, report.run_id, cluster)
    report = with_caveats(joined_over(own.lake, files, found), own.warnings)
    return _finish(own, report, output, report_file, export, limit, exit_code, day)


def _finish(
    own: Context,
    report: Report,
    output: ReportFormat,
    report_file: list[Path] | None,
    export: Path | None,
    limit: int | None,
    exit_code: bool,
    day: date,
) -> int:
    from api.printing import reports

    for path in reports.write_report(report, report_file, export):
        own.say(f"report: {path}")
    if output is ReportFormat.OWNERS:
        reports.print_messages(own, report, day)
    else:
        reports.print_report(report, output, limit=limit)
    return _exit_code(report) if exit_code else 0


def _exit_code(report: Report) -> int:
    from pipeline.readiness.model import Status

    statuses = {entry.status for entry in report.policies}
    if Status.NOT_READY in statuses:
        return 1
    return 3 if Status.INSUFFICIENT_EVIDENCE in statuses else 0
