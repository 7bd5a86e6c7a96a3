"""The question of `hindcast gate` and its answer.

The command answers it over a lake on its machine. A server answers it for a command elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ingest.errors import InputError
from pipeline.admission.policies import PolicySet
from pipeline.admission.policies.load import parse_objects
from pipeline.authorization import OtherAuthorizers
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.readiness.against import Base
from pipeline.readiness.change import Change
from pipeline.readiness.counterexamples import PER_POLICY_MAX, find_counterexamples
from pipeline.readiness.flow import Asked, Walk, make_report
from pipeline.readiness.manifests import Manifests
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.redaction import Redaction
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay import ReplayPlan, Window
from pipeline.runs import RunKind
from queries import LakeReader

from .commands import replay
from .commands.policies import checked_policies
from .commands.window import check_window
from .context import Context
from .jobs import State

Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GateQuestion:
    """May these policies deny, or, against the version before, do they deny anything new?

    `policies` and `against` hold the name and the text of each file, so that errors and SARIF name the caller's files. `renamed`
    holds pairs OLD=NEW. `rules` holds readiness rules by name. With `review_by` the answer also looks for exemptions.
    """

    policies: Texts
    against: Texts = ()
    renamed: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    kubernetes_version: tuple[int, int] = (1, 36)
    rules: Mapping[str, Any] = field(default_factory=dict)
    review_by: date | None = None
    calibrate: bool = True
    redact: tuple[str, ...] = ()
    counterexamples_max: int = PER_POLICY_MAX
    other_authorizers: OtherAuthorizers | None = None

    def to_json(self) -> bytes:
        """In the form that a server accepts."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, body: bytes) -> GateQuestion:
        """Raises InputError for any other form, and for a field that this version does not know."""
        try:
            given = msgspec.json.decode(body, type=dict[str, Any])
            if unknown := sorted(given.keys() - {entry.name for entry in fields(cls)}):
                raise InputError(f"the question has the unknown field {unknown[0]!r}", _SAME_VERSION)
            return msgspec.convert(given, cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the question cannot be read: {error}", _SAME_VERSION) from None


_SAME_VERSION = "use the same version of Hindcast on both sides"


@dataclass(frozen=True)
class GateAnswer:
    """The report, the window in words, and the policies that Hindcast failed to judge, as sentences."""

    report: Report
    window: str
    defects: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """In the form that a server sends."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, body: bytes) -> GateAnswer:
        """Raises InputError for the answer of another version of Hindcast."""
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the answer of the server cannot be read: {error}", _SAME_VERSION) from None


def answer(
    own: Context, question: GateQuestion, run: Walk, workers: int, begin: Callable[[State], None] = lambda state: None
) -> GateAnswer:
    """Replay, compare and decide. `run` walks a plan, and `begin` is called at each further stage.

    Raises InputError for policies, names and rules that cannot be used, and EvidenceError where the window holds no request.
    """
    rules = ReadinessRules.of(question.rules, "rules")
    window = Window(question.since, question.until)
    check_window(own, window)
    policies = checked_policies(own, question.policies, question.kubernetes_version)
    others = question.other_authorizers
    plan = replay.plan_of(own, policies, window, question.kubernetes_version, others, workers)
    before = _before(own, question, plan, workers) if question.against else None
    summary = run(plan, RunKind.REPLAY)
    base = None
    if before is not None:
        planned, names = before
        base_run = run(planned, RunKind.BASE)
        base = Base(planned, base_run, replay.verdicts_of(own, base_run), names)
    asked = Asked(
        rules,
        CHANGE_DELAY if question.calibrate else None,
        others,
        Manifests.of(policies, parse_objects(question.policies)) if question.review_by is not None else None,
        question.review_by,
        workers,
        partial(replay.note_defects, own),
    )
    verdicts, redaction = replay.verdicts_of(own, summary), Redaction(question.redact)

    def finish(reader: LakeReader, report: Report) -> Report:
        return with_counterexamples(report, reader, verdicts, plan, redaction, question.counterexamples_max)

    made = make_report(own.lake, plan, summary, asked, run, lambda step: begin(State(step)), finish=finish, base=base)
    return GateAnswer(made.report, plan.words_of_window, tuple(own.defects))


def _before(own: Context, question: GateQuestion, plan: ReplayPlan, workers: int) -> tuple[ReplayPlan, dict[str, str]]:
    """The plan of the version before over the same requests, and which names changed. Raises InputError for unknown names."""
    old = checked_policies(own, question.against, question.kubernetes_version)
    names = parse_renamed(question.renamed, old, plan.policies or PolicySet())
    others = question.other_authorizers
    return replay.plan_of(own, old, plan.window, plan.kubernetes_version, others, workers, plan.files), names


def parse_renamed(given: tuple[str, ...], old: PolicySet, new: PolicySet) -> dict[str, str]:
    """`OLD=NEW` pairs as a mapping. Raises InputError for another form, and for a name that its version does not have."""
    found: dict[str, str] = {}
    for text in given:
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
    """The report with counterexamples. No message keeps a text that looks like a credential, because CI logs are public."""
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
