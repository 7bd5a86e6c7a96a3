"""`hindcast readiness`: says whether these policies may deny, how sure that is, and whom they would deny."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from api import reports
from api.beside_runs import keep_report
from api.context import Context
from api.reports import ReportFormat
from pipeline.authorization import OtherAuthorizers
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.manifests.files import manifests_of as manifests_in
from pipeline.manifests.files import texts_of
from pipeline.readiness import flow
from pipeline.readiness.model import Status
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay import Window
from pipeline.stages.assign import assign
from pipeline.stages.authorization.overlay import Proposal
from pipeline.stages.registry import AUTHORIZATION
from pipeline.stages.stage import Asked
from queries import LakeReader

from . import options, replay, role_readiness
from .exemptions import Expires, check_present, manifests_of, parse_expiry
from .policies import STDIN, chosen_policies
from .window import check_window

WithExemptions = Annotated[
    bool,
    typer.Option("--exemptions/--no-exemptions", help="Also look for exemptions that make a policy ready."),
]


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    rules: Annotated[Path | None, typer.Option(help="A YAML file that overrides single readiness rules.")] = None,
    calibration: Annotated[
        bool,
        typer.Option("--calibrate/--no-calibrate", help="Also replay the bound policies, and compare with the recorded outcomes."),
    ] = True,
    with_exemptions: WithExemptions = True,
    expires: Expires = "90d",
    check_exemptions: Annotated[bool, typer.Option("--check-exemptions", help="Review the existing exemptions instead.")] = False,
    other_authorizers: replay.OtherAuthorizersOption = None,
    workers: replay.Workers = None,
    limit: options.Limit = None,
    output: reports.Output = ReportFormat.TABLE,
    report_file: reports.Files = None,
    export: reports.Export = None,
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
    """Replay policies, and print for each (policy, binding) whether it may deny, with the figures."""
    own: Context = context.obj
    if check_exemptions:
        version, window = options.parse_version(kubernetes_version), Window(*options.parse_window(since, until))
        manifests = manifests_of(chosen_policies(own, policies, None, None, version), policies)
        return check_present(own, manifests, window, version, workers, output.value, exit_code)
    reports.check_outputs(report_file, export)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    if (proposal := roles_of(policies)) is not None:
        window = Window(*options.parse_window(since, until))
        check_window(own, window)
        wanted = Asked(window, options.parse_version(kubernetes_version), other_authorizers, only_given)
        made = role_readiness.make_report(own, proposal, wanted, chosen, calibration, with_exemptions, export)
        if extra_roles is not None and made.extra:
            role_readiness.write_extra(made, extra_roles)
        return _finish(own, made.report, output, report_file, export, limit, exit_code)
    day = parse_expiry(expires, datetime.now(UTC).date()) if with_exemptions else None
    asked = Question(policies, since, until, kubernetes_version, workers, day, other_authorizers)
    report = make_report(own, asked, chosen, CHANGE_DELAY if calibration else None, export)
    return _finish(own, report, output, report_file, export, limit, exit_code)


def roles_of(paths: list[Path] | None) -> Proposal | None:
    """The roles and bindings of files that hold these and no policies; None for all other files. Raises InputError."""
    if not paths or STDIN in paths:
        return None
    given = assign(manifests_in(texts_of(paths)))
    stages = {stage.name: rules for stage, rules in given.rules}
    if set(stages) != {AUTHORIZATION.name}:
        return None
    proposal: Proposal = stages[AUTHORIZATION.name]
    return proposal


def _finish(
    own: Context,
    report: Report,
    output: ReportFormat,
    report_file: list[Path] | None,
    export: Path | None,
    limit: int | None,
    exit_code: bool,
) -> int:
    for path in reports.write_report(report, report_file, export):
        own.say(f"report: {path}")
    reports.print_report(report, output, limit=limit)
    return _exit_code(report) if exit_code else 0


@dataclass(frozen=True)
class Question:
    """Which policies to try over which requests. `expires` is the review date of exemptions; None proposes no exemptions."""

    policies: list[Path] | None
    since: str | None = None
    until: str | None = None
    kubernetes_version: str = "1.36"
    workers: int | None = None
    expires: date | None = None
    other_authorizers: OtherAuthorizers | None = None


def make_report(
    own: Context, asked: Question, rules: ReadinessRules, change_delay: timedelta | None, export: Path | None = None
) -> Report:
    """Plan, replay and assess; `change_delay` None leaves out the comparison with the record.

    The rows behind the figures are written into the folder `export`.
    """
    others = asked.other_authorizers
    check_window(own, Window(*options.parse_window(asked.since, asked.until)))
    plan = replay.make_plan(own, asked.policies, asked.since, asked.until, asked.kubernetes_version, others, asked.workers)
    summary = replay.run(own, plan, asked.workers)
    looks_for_exemptions = asked.expires is not None and plan.policies is not None
    wanted = flow.Asked(
        rules,
        change_delay,
        others,
        manifests_of(plan.policies, asked.policies) if looks_for_exemptions and plan.policies else None,
        asked.expires,
        replay.workers_or_default(asked.workers),
        partial(replay.note_defects, own),
    )

    def counted(reader: LakeReader) -> None:
        if export is not None:
            reports.write_outcomes(reader, export)

    made = flow.make_report(own.lake, plan, summary, wanted, replay.walk(own, asked.workers), counted=counted)
    keep_report(own.lake, made.report, made.fidelity)
    own.say(plan.words_of_window)
    return made.report


def _exit_code(report: Report) -> int:
    statuses = {entry.status for entry in report.policies}
    if Status.NOT_READY in statuses:
        return 1
    return 3 if Status.INSUFFICIENT_EVIDENCE in statuses else 0
