"""`hindcast gate`: for CI. May these policies deny, or, against the version before, do they deny anything new?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from api import reports
from api.context import Context
from api.output import Column, Table
from api.reports import ReportFormat
from ingest.errors import InputError
from pipeline.admission.policies import PolicySet
from pipeline.authorization import OtherAuthorizers
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.readiness.against import Base
from pipeline.readiness.build import build_report
from pipeline.readiness.change import Change
from pipeline.readiness.counterexamples import PER_POLICY_MAX, find_counterexamples
from pipeline.readiness.decision import decide_report
from pipeline.readiness.model import Counterexample, Fidelity, PolicyReadiness, Status
from pipeline.readiness.redaction import Redaction
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay import ReplayPlan, Window
from pipeline.replay.kinds import RunKind
from pipeline.report.model import Report
from queries import LakeReader, open_lake

from . import options, replay
from .calibrate import calibrate
from .exemptions import Expires, manifests_of, parse_expiry
from .policies import chosen_policies
from .window import check_window


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may pass although a policy is not plainly ready."""

    insufficient: bool = False
    exemptions: bool = False


def command(
    context: typer.Context,
    policies: options.Policies = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="The version before: only denials that its bindings did not enforce count. Policies are paired by name. "
            "A file or a folder; repeat it."
        ),
    ] = None,
    renamed: Annotated[
        list[str] | None, typer.Option(help="With --against: a policy that has another name now, as OLD=NEW; repeat it.")
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    rules: Annotated[Path | None, typer.Option(help="A YAML file that overrides single readiness rules.")] = None,
    max_denied_units: Annotated[
        int | None, typer.Option(min=0, help="Workloads that may be denied; overrides the rule denied_units_max.")
    ] = None,
    allow_insufficient: Annotated[
        bool, typer.Option(help="Pass where the evidence is not sufficient, instead of exit code 3.")
    ] = False,
    allow_exemptions: Annotated[bool, typer.Option(help="Pass where few and narrow exemptions suffice.")] = False,
    expires: Expires = "90d",
    calibration: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Also replay what was bound, to say how far to trust the replay.")
    ] = True,
    redact: Annotated[
        list[str] | None,
        typer.Option(help="Take this path out of the objects that are shown, as spec.containers[*].env; repeat it."),
    ] = None,
    counterexamples: Annotated[int, typer.Option(min=0, help="How many denied requests to show for each policy.")] = PER_POLICY_MAX,
    other_authorizers: replay.OtherAuthorizersOption = None,
    workers: replay.Workers = None,
    output: reports.Output = ReportFormat.TABLE,
    report_file: reports.Files = None,
    export: reports.Export = None,
) -> int:
    """Exit with 0 when every policy may deny, 1 when one may not, 3 when there is not enough evidence to say."""
    own: Context = context.obj
    reports.check_files(report_file)
    if against and allow_exemptions:
        raise InputError("--allow-exemptions does not go with --against", "exempt in the new version what it newly denies")
    if renamed and not against:
        raise InputError("--renamed was given without --against", "name the version before with --against")
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    if max_denied_units is not None:
        chosen = replace(chosen, denied_units_max=max_denied_units)
    check_window(own, Window(*options.parse_window(since, until)))
    plan = replay.make_plan(own, policies, since, until, kubernetes_version, other_authorizers, workers)
    summary = replay.run(own, plan, workers)
    base = _base(own, against, renamed, plan, workers, other_authorizers) if against else None
    fidelity: dict[str, Fidelity] | None = None
    if calibration:
        version = plan.kubernetes_version
        fidelity = calibrate(own, plan.window, version, workers, CHANGE_DELAY, other_authorizers, plan.files).fidelity
    reader = open_lake(own.lake, files=plan.files)
    try:
        report = build_report(reader, own.lake, plan, summary, fidelity, chosen, title_of(base), base)
        if allow_exemptions and plan.policies is not None:
            manifests, day = manifests_of(plan.policies, policies), parse_expiry(expires, datetime.now(UTC).date())
            count = replay.workers_or_default(workers)
            report = decide_report(reader, own.lake, plan, summary, report, manifests, day, count)
        verdicts, redaction = replay.verdicts_of(own, summary), Redaction(tuple(redact or ()))
        report = with_counterexamples(report, reader, verdicts, plan, redaction, counterexamples)
    finally:
        reader.close()
    for path in reports.write_report(report, report_file, export):
        own.say(f"report: {path}")
    reports.print_report(
        report, output, [*reports.report_tables(report, wide=output is not ReportFormat.TABLE), *counterexample_tables(report)]
    )
    own.say(plan.words_of_window)
    code = exit_code(report, Allowed(allow_insufficient, allow_exemptions))
    own.say(f"gate: {_sentence(report)}; exit code {code}")
    return code


def exit_code(report: Report, allowed: Allowed) -> int:
    """0, 1 or 3: one policy that may not deny decides over many that nobody can judge."""
    codes = {_code(entry.status, allowed) for entry in report.policies}
    return 1 if 1 in codes else max(codes, default=3)


def _code(status: Status, allowed: Allowed) -> int:
    match status:
        case Status.READY | Status.NO_NEW_DENIALS:
            return 0
        case Status.READY_WITH_EXEMPTIONS:
            return 0 if allowed.exemptions else 1
        case Status.INSUFFICIENT_EVIDENCE:
            return 0 if allowed.insufficient else 3
    return 1


def title_of(base: Base | None) -> str:
    """What the report is about: policies alone, or a change of them."""
    return "Policy readiness" if base is None else "Policies against the version before"


def _sentence(report: Report) -> str:
    counts = Counter(entry.status for entry in report.policies)
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "no policy"


def _base(
    own: Context,
    against: list[Path],
    renamed: list[str] | None,
    plan: ReplayPlan,
    workers: int | None,
    others: OtherAuthorizers | None,
) -> Base:
    """The version before, replayed over the same requests. Raises InputError for a renaming of what is not there."""
    old = chosen_policies(own, against, None, None, plan.kubernetes_version)
    names = parse_renamed(renamed, old, plan.policies or PolicySet())
    planned = replay.plan_of(own, old, plan.window, plan.kubernetes_version, others, workers, plan.files)
    summary = replay.run(own, planned, workers, RunKind.BASE)
    return Base(planned, summary, replay.verdicts_of(own, summary), names)


def parse_renamed(given: list[str] | None, old: PolicySet, new: PolicySet) -> dict[str, str]:
    """`OLD=NEW` pairs as a mapping. Raises InputError for another form, and for a name that its version does not have."""
    found: dict[str, str] = {}
    for text in given or ():
        before, equals, after = text.partition("=")
        if not equals:
            raise InputError(f"--renamed: {text!r} is not a pair", "give the name before and the name now, as OLD=NEW")
        for name, policies, which in ((before, old, "--against"), (after, new, "-f")):
            names = [policy.name for policy in policies.policies]
            if name not in names:
                raise InputError(
                    f"--renamed: {which} has no policy named {name!r}", f"its policies are {', '.join(names) or 'none'}"
                )
        found[before] = after
    return found


def with_counterexamples(
    report: Report, reader: LakeReader, verdicts: Path, plan: ReplayPlan, redaction: Redaction, per_policy_max: int
) -> Report:
    """The report with counterexamples, and with nothing in its messages that looks like a credential: it goes to a CI log."""
    is_change = any(entry.change is not None for entry in report.policies)
    found = (
        find_counterexamples(reader, verdicts, plan.policies, plan.kubernetes_version, redaction, per_policy_max, is_change)
        if plan.policies is not None
        else {}
    )
    entries = tuple(
        replace(_without_credentials(entry, redaction), counterexamples=found.get((entry.policy, entry.binding), ()))
        for entry in report.policies
    )
    return replace(report, policies=entries, removed=tuple(_change_without_credentials(each, redaction) for each in report.removed))


def _change_without_credentials(change: Change, redaction: Redaction) -> Change:
    return replace(change, units=tuple(replace(unit, message=redaction.text(unit.message)) for unit in change.units))


def _without_credentials(entry: PolicyReadiness, redaction: Redaction) -> PolicyReadiness:
    owners = tuple(
        replace(owner, message=redaction.text(owner.message), difference=redaction.text(owner.difference)) for owner in entry.owners
    )
    hidden = tuple(replace(item, message=redaction.text(item.message)) for item in entry.hidden)
    critical = tuple(replace(item, message=redaction.text(item.message)) for item in entry.critical)
    violations = tuple(replace(item, message=redaction.text(item.message)) for item in entry.latent.violations)
    projections = tuple(replace(item, message=redaction.text(item.message)) for item in entry.latent.projections)
    latent = replace(entry.latent, violations=violations, projections=projections)
    change = _change_without_credentials(entry.change, redaction) if entry.change else None
    return replace(entry, owners=owners, hidden=hidden, critical=critical, latent=latent, change=change)


def counterexample_tables(report: Report) -> list[Table]:
    """What a terminal shows of the counterexamples: one table for each policy that has some."""
    columns = [Column(name) for name in ("when", "who", "what")]
    columns += [Column(name, prose=True) for name in ("message", "object")]
    columns.append(Column("audit_id", "AUDIT ID", wide=True))
    return [
        Table("counterexamples", columns, [_row(item) for item in entry.counterexamples], f"{entry.policy}: counterexamples")
        for entry in report.policies
        if entry.counterexamples
    ]


def _row(item: Counterexample) -> list[object]:
    what = f"{item.verb} {item.resource} {item.namespace}/{item.name}"
    part = yaml.safe_dump(item.object, default_flow_style=True, width=2**31, sort_keys=False, allow_unicode=True).strip()
    return [item.ts, item.user, what, item.message, part, item.audit_id]
