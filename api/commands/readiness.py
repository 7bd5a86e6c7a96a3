"""`hindcast readiness`: may these policies go to Deny, how sure is that, and who would be hit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from ingest.errors import InputError
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.readiness.build import build_report
from pipeline.readiness.model import Fidelity, PolicyReadiness, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.report.data import to_json
from pipeline.report.html import to_html
from pipeline.report.markdown import to_markdown
from pipeline.report.model import Report
from pipeline.report.words import percent, workload
from queries import open_lake

from . import options, replay
from .calibrate import calibrate

_OWNERS_SHOWN = 10


class ReportFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


_RENDERERS = {ReportFormat.JSON: to_json, ReportFormat.MARKDOWN: to_markdown, ReportFormat.HTML: to_html}


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    rules: Annotated[Path | None, typer.Option(help="A YAML file that overrides single readiness rules.")] = None,
    calibration: Annotated[
        bool,
        typer.Option("--calibrate/--no-calibrate", help="Also replay what was bound, to say how far the replay can be trusted."),
    ] = True,
    workers: replay.Workers = None,
    output: Annotated[ReportFormat, typer.Option("-o", "--output", help="How to print the report.")] = ReportFormat.TABLE,
    report_file: Annotated[Path | None, typer.Option("--report-file", help="Write the report there; .html, .md or .json.")] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when a policy is NOT READY, 3 when evidence is insufficient.")
    ] = False,
) -> int:
    """Replay policies and print for each (policy, binding) whether it may go to Deny, with the figures behind it."""
    own: Context = context.obj
    writer = _renderer_of(report_file)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    asked = Question(policies, since, until, kubernetes_version, workers)
    report = make_report(own, asked, chosen, CHANGE_DELAY if calibration else None)
    if report_file is not None and writer is not None:
        _write(report_file, _RENDERERS[writer](report))
        own.say(f"report: {report_file}")
    if output is ReportFormat.TABLE:
        render(report_tables(report), Format.TABLE)
    else:
        sys.stdout.write(_RENDERERS[output](report))
    return _exit_code(report) if exit_code else 0


@dataclass(frozen=True)
class Question:
    """Which policies to try over which requests."""

    policies: list[Path] | None
    since: str | None = None
    until: str | None = None
    kubernetes_version: str = "1.36"
    workers: int | None = None


def make_report(own: Context, asked: Question, rules: ReadinessRules, change_delay: timedelta | None) -> Report:
    """Plan, replay and assess; `change_delay` None leaves out the comparison with the record."""
    plan = replay.make_plan(own, asked.policies, asked.since, asked.until, asked.kubernetes_version)
    summary = replay.run(own, plan, asked.workers)
    fidelity: dict[str, Fidelity] = {}
    if change_delay is not None:
        fidelity = calibrate(own, plan.window, plan.kubernetes_version, asked.workers, change_delay).fidelity
    reader = open_lake(own.lake)
    try:
        return build_report(reader, own.lake, plan, summary, fidelity, rules)
    finally:
        reader.close()


def report_tables(report: Report) -> list[Table]:
    """The verdicts, and for each policy that is not ready the owners of its would-be denials."""
    columns = [
        Column("policy"),
        Column("binding"),
        Column("verdict"),
        *(Column(name, number=True) for name in ("matched", "deny", "unknown", "workloads")),
        Column("agreement", number=True),
    ]
    verdicts = Table("verdicts", columns, [_verdict_row(entry) for entry in report.policies], report.title)
    return [verdicts, *(table for entry in report.policies for table in _policy_tables(entry))]


def _verdict_row(entry: PolicyReadiness) -> list[object]:
    agreement = entry.fidelity.agreement
    return [
        entry.policy,
        entry.binding,
        entry.status,
        entry.exposure.requests_matched,
        entry.denials.requests,
        entry.exposure.requests_unknown,
        entry.exposure.units_judged,
        "not known" if agreement is None else percent(agreement),
    ]


def _policy_tables(entry: PolicyReadiness) -> list[Table]:
    title = f"{entry.policy}: {entry.status}"
    reasons = Table("reasons", [Column("reason", "WHY")], [[reason] for reason in entry.reasons], title)
    if not entry.owners:
        return [reasons]
    columns = [Column(name) for name in ("namespace", "workload", "user", "requests", "last_seen", "message")]
    rows = [
        [owner.namespace, workload(owner), owner.user, owner.requests, owner.last_ts, owner.message]
        for owner in entry.owners[:_OWNERS_SHOWN]
    ]
    more = len(entry.owners) - len(rows)
    notes = (f"{more} more in the report",) if more > 0 else ()
    return [reasons, Table("owners", columns, rows, "Who would have been denied", notes)]


def _exit_code(report: Report) -> int:
    statuses = {entry.status for entry in report.policies}
    if Status.NOT_READY in statuses:
        return 1
    return 3 if Status.INSUFFICIENT_EVIDENCE in statuses else 0


def _renderer_of(path: Path | None) -> ReportFormat | None:
    if path is None:
        return None
    known = {".html": ReportFormat.HTML, ".md": ReportFormat.MARKDOWN, ".json": ReportFormat.JSON}
    if path.suffix not in known:
        raise InputError(f"--report-file: {path} ends in {path.suffix or 'nothing'}", f"use one of {', '.join(known)}")
    return known[path.suffix]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--report-file: {path} cannot be written: {error.strerror}") from error
