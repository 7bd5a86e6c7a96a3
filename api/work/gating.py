"""The question of `hindcast gate` and its answer.

The command answers it over a lake on its machine. A server answers it for a command elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from ingest.errors import InputError
from pipeline.admission.policies.load import parse_objects
from pipeline.authorization import OtherAuthorizers
from pipeline.cel.minors import DEFAULT
from pipeline.explaining.redaction import Redaction
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.manifests.files import manifests_of
from pipeline.readiness.against import PolicyBase
from pipeline.readiness.change import Change
from pipeline.readiness.exempting.manifests import Manifests
from pipeline.readiness.explaining.counterexamples import PER_POLICY_MAX, Found, find_counterexamples, find_requests
from pipeline.readiness.flow import Asked, Walk, make_report
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.report import Report, joined, with_caveats
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.stage_flow import StageWalk, Wanted, make_stage_report, run_stage
from pipeline.replay import ReplayPlan, Window
from pipeline.runs import RunKind
from pipeline.stages.assign import kind_of
from pipeline.stages.registry import STAGES
from pipeline.stages.stage import Asked as StageAsked
from pipeline.stages.stage import Stage
from queries import LakeReader

from ..commands import replay
from ..commands.parts.window import check_window
from ..commands.policies import checked_policies
from ..context import Context
from ..given import Given, Texts, given_of, say_mistakes, walk, warn_of
from .jobs import State


@dataclass(frozen=True)
class GateQuestion:
    """May these manifests be put into force, or, against the version before, do they deny anything new?

    The kind of a manifest says which stage judges by it. `policies` and `against` hold the name and the text of each file, so that
    errors and SARIF name the caller's files. `renamed` holds pairs OLD=NEW. `rules` holds readiness rules by name. With `review_by`
    the answer also looks for exemptions. With `only` the given manifests of roles replace all others of the cluster.
    """

    policies: tuple[tuple[str, str], ...]
    against: tuple[tuple[str, str], ...] = ()
    renamed: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    kubernetes_version: tuple[int, int] = DEFAULT
    rules: Mapping[str, Any] = field(default_factory=dict)
    review_by: date | None = None
    calibrate: bool = True
    redact: tuple[str, ...] = ()
    counterexamples_max: int = PER_POLICY_MAX
    other_authorizers: OtherAuthorizers | None = None
    only: bool = False

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
        except RecursionError:
            raise InputError("the question nests too deep to be read", "send lists of pairs and plain values") from None


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
    own: Context,
    question: GateQuestion,
    run: Walk,
    workers: int,
    begin: Callable[[State], None] = lambda state: None,
    stage_run: StageWalk | None = None,
) -> GateAnswer:
    """Replay, compare and decide, the manifests of each stage by themselves, and join the reports.

    `run` walks a plan of policies and `stage_run` those of other stages; `begin` is called at each further step. Raises InputError
    for manifests, names and rules that cannot be used, and EvidenceError where the window holds no request.
    """
    window = Window(question.since, question.until)
    check_window(own, window)
    given = given_of(question.policies, question.kubernetes_version)
    before = given_of(question.against) if question.against else None
    for version in (given, before):
        if version is not None:
            warn_of(own, version)
    stages = _judged_stages(own, given, before)
    _check_renamed(question.renamed, given, before)
    walked = stage_run or walk(own, question.policies, workers)
    reports, words = [], []
    if given.has_policies or not stages:
        report, spoken = _of_policies(own, question, window, run, workers, begin)
        reports, words = [report], [spoken]
    for stage in stages:
        report, spoken = _of_stage(own, question, window, (given, before, stage), walked, begin)
        reports.append(report)
        words.append(spoken)
    return GateAnswer(with_caveats(joined(reports), own.warnings), words[0], tuple(own.defects))


def _judged_stages(own: Context, given: Given, before: Given | None) -> list[Stage[Any, Any]]:
    """The stages with manifests in either version, without that of policies, in the order of the registry."""
    if before is not None and before.has_policies and given.stages and not given.has_policies:
        own.warn("only the version before has policies, so each of their denials is gone")
    every = [*given.stages, *(before.stages if before is not None else ())]
    return [stage for stage in STAGES if any(found is stage for found, _ in every)]


def _of_stage(
    own: Context,
    question: GateQuestion,
    window: Window,
    versions: tuple[Given, Given | None, Stage[Any, Any]],
    walked: StageWalk,
    begin: Callable[[State], None],
) -> tuple[Report, str]:
    """The report on the manifests of one stage, and the window in words."""
    given, before, stage = versions
    asked = StageAsked(window, question.kubernetes_version, question.other_authorizers, question.only)
    rules, old_rules = given.rules_of(stage), before.rules_of(stage) if before is not None else None
    say_mistakes(own, stage, rules, question.only)
    if old_rules is not None:
        rules, old_rules = stage.readiness.over(rules, old_rules), stage.readiness.over(old_rules, old_rules)
    found = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY)
    base = None
    if old_rules is not None:
        base = run_stage(own.lake, stage, old_rules, asked, walked, RunKind.BASE, found.plan.files)
    redaction, verdicts = Redaction(question.redact), found.verdicts(own.lake)

    def finish(reader: LakeReader, report: Report) -> Report:
        is_change = base is not None
        shown = find_requests(reader, verdicts, redaction, question.counterexamples_max, is_change) if report.policies else {}
        return _shown(report, shown, redaction)

    rules_of_gate = ReadinessRules.of(question.rules, "rules")
    wanted = Wanted(rules_of_gate, question.calibrate, question.review_by is not None, question.review_by)
    renamed = dict(pair.split("=", 1) for pair in question.renamed)
    made = make_stage_report(
        own.lake, found, wanted, walked, lambda step: begin(State(step)), finish=finish, base=base, renamed=renamed
    )
    files = found.plan.files
    return made.report, window.words(files.newest_us if files else None)


def _of_policies(
    own: Context, question: GateQuestion, window: Window, run: Walk, workers: int, begin: Callable[[State], None]
) -> tuple[Report, str]:
    """The report on the policies, and the window in words."""
    rules = ReadinessRules.of(question.rules, "rules")
    policies = checked_policies(own, question.policies, question.kubernetes_version)
    others = question.other_authorizers
    plan = replay.plan_of(own, policies, window, question.kubernetes_version, others, workers)
    before = _before(own, question, plan, workers) if question.against else None
    summary = run(plan, RunKind.REPLAY)
    base = None
    if before is not None:
        planned, names = before
        base_run = run(planned, RunKind.BASE)
        base = PolicyBase(planned, base_run, replay.verdicts_of(own, base_run), names)
    asked = Asked(
        rules,
        CHANGE_DELAY if question.calibrate else None,
        others,
        Manifests.of(policies, parse_objects(question.policies)) if question.review_by is not None else None,
        question.review_by,
        workers,
        own.note_defects,
    )
    verdicts, redaction = replay.verdicts_of(own, summary), Redaction(question.redact)

    def finish(reader: LakeReader, report: Report) -> Report:
        return with_counterexamples(report, reader, verdicts, plan, redaction, question.counterexamples_max)

    made = make_report(own.lake, plan, summary, asked, run, lambda step: begin(State(step)), finish=finish, base=base)
    return made.report, plan.words_of_window


def _before(own: Context, question: GateQuestion, plan: ReplayPlan, workers: int) -> tuple[ReplayPlan, dict[str, str]]:
    """The plan of the version before over the same requests, and which names changed."""
    old = checked_policies(own, question.against, question.kubernetes_version, are_stored=True)
    names = {policy.name for policy in old.policies}
    pairs = (pair.partition("=") for pair in question.renamed)
    others = question.other_authorizers
    planned = replay.plan_of(own, old, plan.window, plan.kubernetes_version, others, workers, plan.files)
    return planned, {before: after for before, _, after in pairs if before in names}


def _check_renamed(pairs: tuple[str, ...], given: Given, before: Given | None) -> None:
    """Raise InputError for a pair of another form than `OLD=NEW`, and for a name that its version does not have."""
    for text in pairs:
        old, equals, new = text.partition("=")
        if not equals:
            raise InputError(f"--renamed: {text!r} is not a pair", "give the name before and the name now, as OLD=NEW")
        for name, version, which in ((old, before, "--against"), (new, given, "-f")):
            names = _names(version.texts) if version is not None else []
            if name not in names:
                raise InputError(
                    f"--renamed: {which} has no policy named {name!r}", f"its policies are {', '.join(names) or 'none'}"
                )


def _names(texts: Texts) -> list[str]:
    """The names of what stages judge by, in the order of the manifests; a binding shares its policy's fate."""
    kinds = frozenset(kind for stage in STAGES for kind in stage.kinds if not kind.kind.endswith("Binding"))
    documents = (document.value for document in manifests_of(texts) if kind_of(document) in kinds)
    return [str((value.get("metadata") or {}).get("name")) for value in documents]


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
    return _shown(report, found, redaction)


def _shown(report: Report, found: Found, redaction: Redaction) -> Report:
    """The report with counterexamples, and without texts that look like a credential."""
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
