"""The question of `hindcast gate` and its answer.

The command answers it over a lake on its machine. A server answers it for a command elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from typing import Any

import msgspec

from ingest.errors import InputError
from pipeline.authorization import OtherAuthorizers
from pipeline.cel.minors import DEFAULT
from pipeline.explaining.redaction import Redaction
from pipeline.manifests.files import manifests_of
from pipeline.readiness.change import Change
from pipeline.readiness.explaining.counterexamples import Found, find_counterexamples
from pipeline.readiness.flow import Wanted, make_report
from pipeline.readiness.model import COUNTEREXAMPLES_MAX, PolicyReadiness
from pipeline.readiness.report import Report, with_caveats
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.run import StageRun, StageWalk, run_stage
from pipeline.readiness.together import joined_over
from pipeline.runs import RunKind
from pipeline.runs.processes import start_processes
from pipeline.runs.window import Window
from pipeline.stages.assign import kind_of
from pipeline.stages.registry import STAGES
from pipeline.stages.stage import Asked as StageAsked
from pipeline.stages.stage import Stage
from queries import LakeReader

from ..commands.parts.window import check_window
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
    counterexamples_max: int = COUNTEREXAMPLES_MAX
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
    workers: int,
    begin: Callable[[State], None] = lambda state: None,
    walked: StageWalk | None = None,
) -> GateAnswer:
    """Replay, compare and decide, the manifests of each stage by themselves, and join the reports.

    `walked` walks the plans; `begin` is called at each further step. Raises InputError for manifests, names and rules that cannot
    be used, and EvidenceError where the window holds no request.
    """
    window, rules_of_gate = Window(question.since, question.until), ReadinessRules.of(question.rules, "rules")
    check_window(own, window)
    given = given_of(question.policies, question.kubernetes_version, own.lake)
    before = given_of(question.against, question.kubernetes_version, are_stored=True) if question.against else None
    for version in (given, before):
        if version is not None:
            warn_of(own, version)
    stages = _judged_stages(own, given, before)
    _check_renamed(question.renamed, given, before)
    gate = _Gate(own, question, window, rules_of_gate, workers, begin, walked or walk(own, question.policies, workers))
    found = []
    start_processes(own.lake, workers)
    for stage in stages:
        rules, old = given.needed(stage), before.needed(stage) if before is not None else None
        say_mistakes(own, stage, rules, question.only)
        found.append(gate.report(stage, rules, old))
    report = with_caveats(joined_over(own.lake, None, [each for each, _ in found]), own.warnings)
    return GateAnswer(report, found[0][1], tuple(own.defects))


def _judged_stages(own: Context, given: Given, before: Given | None) -> list[Stage[Any, Any]]:
    """The stages with manifests in either version, in the order of the registry."""
    now, old = ([stage for stage, _ in each.stages] if each is not None else [] for each in (given, before))
    gone = [stage for stage in old if stage not in now and stage.readiness.lacks(stage.read(()))]
    for stage in gone:
        own.warn(f"only the version before has {stage.readiness.words.things}, so each of their denials is gone")
    return [stage for stage in STAGES if stage not in gone and (stage in now or stage in old)]


@dataclass(frozen=True)
class _Gate:
    """How each stage of a gate is judged."""

    own: Context
    question: GateQuestion
    window: Window
    rules: ReadinessRules
    workers: int
    begin: Callable[[State], None]
    walked: StageWalk

    def report(self, stage: Stage[Any, Any], rules: Any, before: Any) -> tuple[Report, str]:
        """The report on the rules of one stage, against those before if there are any, and the window in words."""
        own, question = self.own, self.question
        asked = StageAsked(self.window, question.kubernetes_version, question.other_authorizers, question.only)
        if before is not None:
            rules, before = stage.readiness.over(rules, before), stage.readiness.over(before, before)
        found = run_stage(own.lake, stage, rules, asked, self.walked, RunKind.REPLAY)
        base = None
        if before is not None:
            base = run_stage(own.lake, stage, before, asked, self.walked, RunKind.BASE, found.plan.files)
        redaction = Redaction(question.redact)

        def finish(reader: LakeReader, report: Report) -> Report:
            return _shown(report, self._found(reader, report, found, redaction), redaction)

        wanted = Wanted(
            self.rules,
            question.calibrate,
            question.review_by is not None,
            question.review_by,
            note=own.note_defects,
        )
        renamed = dict(pair.split("=", 1) for pair in question.renamed)
        made = make_report(
            own.lake,
            found,
            wanted,
            self.walked,
            lambda step: self.begin(State(step)),
            finish=finish,
            base=base,
            renamed=renamed,
        )
        files = found.plan.files
        return made.report, found.plan.window.words(files.newest_us if files else None)

    def _found(self, reader: LakeReader, report: Report, run: StageRun, redaction: Redaction) -> Found:
        """The counterexamples of the report: of policies with the fields that their expressions read."""
        if not report.policies:
            return {}
        is_change = any(entry.change is not None for entry in report.policies)
        reads = run.stage.readiness.expression_reads(run.rules, run.plan.kubernetes_version)
        most = self.question.counterexamples_max
        return find_counterexamples(reader, run.verdicts(self.own.lake), reads, redaction, most, is_change)


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
