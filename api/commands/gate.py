"""`hindcast gate`: for CI. May these policies deny, or, against the version before, do they deny anything new?"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing import report_options
from api.printing.report_options import ReportFormat
from ingest.errors import InputError
from pipeline.readiness.model import COUNTEREXAMPLES_MAX

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from api.work.gating import GateAnswer, GateQuestion
    from pipeline.readiness.model import Counterexample, Status
    from pipeline.readiness.report import Report


@dataclass(frozen=True, slots=True)
class Allowed:
    """Verdicts that pass although a policy is not READY."""

    insufficient: bool = False
    exemptions: bool = False


def command(
    context: typer.Context,
    policies: options.Policies = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="The version before, a file or a folder; repeatable. Only new denials count. Policies are paired by name."
        ),
    ] = None,
    renamed: Annotated[list[str] | None, typer.Option(help="With --against: a renamed policy, as OLD=NEW; repeatable.")] = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    rules: options.Rules = None,
    max_denied_units: Annotated[
        int | None,
        typer.Option("--max-denied-workloads", min=0, help="Workloads that may be denied; overrides the rule denied_units_max."),
    ] = None,
    allow_insufficient: Annotated[bool, typer.Option(help="Pass without enough evidence, instead of exit code 3.")] = False,
    allow_exemptions: Annotated[bool, typer.Option(help="Pass if few and narrow exemptions suffice.")] = False,
    expires: options.Expires = "90d",
    calibration: Annotated[
        bool,
        typer.Option("--calibrate/--no-calibrate", help="Also replay the bound policies, and compare with the recorded outcomes."),
    ] = True,
    redact: Annotated[
        list[str] | None,
        typer.Option("--hide", help="Remove this path from shown objects, as spec.containers[*].env; repeatable."),
    ] = None,
    counterexamples: Annotated[
        int, typer.Option(min=0, help="How many denied requests to show for each policy.")
    ] = COUNTEREXAMPLES_MAX,
    other_authorizers: options.OtherAuthorizersOption = None,
    only_given: Annotated[
        bool, typer.Option("--only", help="The given roles and bindings replace all others in the cluster.")
    ] = False,
    workers: options.Workers = None,
    server: Annotated[
        str | None,
        typer.Option(
            envvar="HINDCAST_SERVER",
            help="Ask a running `hindcast serve` instead of a lake on this machine. URL is the address of its pages, as "
            "https://hindcast.example:7444. HINDCAST_TOKEN holds the token.",
            metavar="URL",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="With --server: a file that holds the token, in place of HINDCAST_TOKEN.")
    ] = None,
    server_ca: Annotated[
        Path | None, typer.Option("--server-ca", help="With --server: a PEM file with the authority that signed its certificate.")
    ] = None,
    limit: options.Limit = None,
    output: report_options.Output = ReportFormat.TABLE,
    report_file: report_options.Files = None,
    export: report_options.Export = None,
) -> int:
    """Decide in CI. Exit code 0: every policy may deny; 1: one may not; 3: not enough evidence."""
    from api import asked_values
    from api.printing import reports
    from api.work.gating import GateQuestion
    from pipeline.readiness.rules import ReadinessRules

    from .exemptions import parse_expiry
    from .parts.texts import read_texts

    own: Context = context.obj
    reports.check_outputs(report_file, export)
    if output is ReportFormat.OWNERS:
        raise InputError("-o owners belongs to hindcast readiness", "use another format here")
    if against and allow_exemptions:
        raise InputError("--allow-exemptions does not go with --against", "write the exemptions into the new version")
    if renamed and not against:
        raise InputError("--renamed was given without --against", "name the version before with --against")
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    if max_denied_units is not None:
        chosen = replace(chosen, denied_units_max=max_denied_units)
    moments = asked_values.parse_window(since, until)
    question = GateQuestion(
        policies=tuple(read_texts(policies)),
        against=tuple(read_texts(against)) if against else (),
        renamed=tuple(renamed or ()),
        since=moments[0],
        until=moments[1],
        kubernetes_version=asked_values.parse_version(kubernetes_version),
        rules=asdict(chosen),
        review_by=parse_expiry(expires, datetime.now(UTC).date()) if allow_exemptions else None,
        calibrate=calibration,
        redact=tuple(redact or ()),
        counterexamples_max=counterexamples,
        other_authorizers=other_authorizers,
        only=only_given,
    )
    found = _answer_here(own, question, workers) if server is None else _answer_of(own, question, server, token_file, server_ca)
    report = found.report
    for path in reports.write_report(report, report_file, export):
        own.say(f"report: {path}")
    tables = [*reports.report_tables(report, wide=output is not ReportFormat.TABLE), *counterexample_tables(report)]
    reports.print_report(report, output, tables, limit)
    own.tell_window(found.window)
    code = exit_code(report, Allowed(allow_insufficient, allow_exemptions))
    own.tell(f"gate: {_sentence(report)}; exit code {code}")
    return code


def _answer_here(own: Context, question: GateQuestion, workers: int | None) -> GateAnswer:
    from api.work.gating import answer

    return answer(own, question, replay.workers_or_default(own, workers))


def _answer_of(own: Context, question: GateQuestion, url: str, token_file: Path | None, authority: Path | None) -> GateAnswer:
    """The answer of a server. Policies that it failed to judge affect the exit as in a local run."""
    from api.work.remote import Server

    found = Server.of(url, token_file, authority, os.environ).answer(own, question)
    own.defects.extend(found.defects)
    return found


def exit_code(report: Report, allowed: Allowed) -> int:
    """0, 1 or 3: a policy that may not deny outweighs any number without enough evidence."""
    codes = {_code(entry.status, allowed) for entry in report.policies}
    return 1 if 1 in codes else max(codes, default=3)


def _code(status: Status, allowed: Allowed) -> int:
    from pipeline.readiness.model import Status

    match status:
        case Status.READY | Status.NO_NEW_DENIALS:
            return 0
        case Status.READY_WITH_EXEMPTIONS:
            return 0 if allowed.exemptions else 1
        case Status.INSUFFICIENT_EVIDENCE:
            return 0 if allowed.insufficient else 3
    return 1


def _sentence(report: Report) -> str:
    from pipeline.readiness.model import Status

    counts = Counter(entry.status for entry in report.policies)
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "no policy"


def counterexample_tables(report: Report) -> list[Table]:
    """The counterexamples for a terminal: one table for each policy with some."""
    from api.printing.output import Column, Table

    columns = [Column(name) for name in ("when", "who", "what")]
    columns += [Column(name, prose=True) for name in ("message", "object")]
    columns.append(Column("audit_id", "AUDIT ID", wide=True))
    return [
        Table("counterexamples", columns, [_row(item) for item in entry.counterexamples], f"{entry.policy}: counterexamples")
        for entry in report.policies
        if entry.counterexamples
    ]


def _row(item: Counterexample) -> list[object]:
    from pipeline.report.texts import yaml_text

    what = f"{item.verb} {item.resource} {item.namespace}/{item.name}"
    part = yaml_text([item.object], width=2**31, flow=True).strip()
    return [item.ts, item.user, what, item.message, part, item.audit_id]
