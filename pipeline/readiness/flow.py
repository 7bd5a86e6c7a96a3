"""From a finished run of any stage to its report: one flow for commands, for replays over HTTP, for gates and for notebooks.

It compares with the record, builds the report, and looks for manifests that would keep everybody working and replays them, over
the files that the run's plan was made over. Callers differ in how they walk a plan (`StageWalk`), how they report the steps, and
which parts they add to the report (`Finish`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..authorization import OtherAuthorizers
from ..cel.defects import DEFECT
from ..history.in_force import CHANGE_DELAY
from ..request import Object
from ..runs import Defect, RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.stage import Asked, Stage
from ..stages.validating.plan import ReplayPlan
from .against import Base
from .assess import judge_units
from .build import About, build_report
from .counting.fidelity import fidelity_of
from .exempting.decision import decide_report, exempted, is_worth_replaying
from .exempting.manifests import Manifests
from .exempting.of_stage import StageExemptions
from .exempting.proposal import Proposal
from .exempting.trial import Note, ignored
from .model import Fidelity, Status
from .remedies import Tried
from .report import Report
from .rules import ReadinessRules
from .sql import dry_runs_kept, statement

# How a caller walks the plan of a stage: with progress and with bounds.
StageWalk: TypeAlias = Callable[[Stage[Any, Any], RunPlan, RunKind], RunSummary]
# Adds a caller's own parts to the report before the lake is closed.
Finish: TypeAlias = Callable[[LakeReader, Report], Report]


class Step(StrEnum):
    """A part of the flow that may take long."""

    CALIBRATING = "calibrating"
    REPORTING = "reporting"
    EXEMPTING = "exempting"


@dataclass(frozen=True)
class Made:
    """A report, and how far the replay agrees with the record, by judged thing; None if the two were not compared.

    `extra` are manifests that would keep newly denied requests working, where the stage found any.
    """

    report: Report
    fidelity: dict[str, Fidelity] | None
    extra: tuple[Object, ...] = ()


@dataclass(frozen=True)
class StageRun:
    """A finished run of a stage: its rules, the wishes for its plan, the plan, and the summary."""

    stage: Stage[Any, Any]
    rules: Any
    asked: Asked
    plan: RunPlan
    summary: RunSummary

    @property
    def about(self) -> About:
        """What its report is about."""
        return About(self.stage, self.plan.kubernetes_version, self.plan.window, self.summary, self.plan, self.rules)

    def verdicts(self, lake: Path) -> Path:
        """Its verdict table."""
        return RunStore(lake).run(self.summary.run_id).verdicts


@dataclass(frozen=True)
class Wanted:
    """What a report on a run shall have. `compares` with the record; `remedies`: looks for what would keep everybody working.

    `change_delay` is the time after its write in which a manifest may not be in force yet. `review_by` is the day by which someone
    should review exemptions, and `written` are the given manifests, which exemptions change. The rest changes no report: `workers`
    try exemptions, `note` gets what Hindcast failed to judge, and `shared` is a reader whose database the report may use.
    """

    rules: ReadinessRules = field(default_factory=ReadinessRules)
    compares: bool = True
    remedies: bool = True
    review_by: date | None = None
    written: Sequence[Object] = field(default=(), repr=False)
    workers: int = field(default=1, repr=False)
    note: Note = field(default=ignored, repr=False)
    shared: LakeReader | None = field(default=None, repr=False)
    change_delay: timedelta = CHANGE_DELAY

    def open(self, lake: Path, files: LakeFiles | None) -> LakeReader:
        """A reader of some files of a lake, to be closed by the caller."""
        return open_lake(lake, files=files) if self.shared is None or files is None else self.shared.narrowed(files)


def run_stage(
    lake: Path,
    stage: Stage[Any, Any],
    rules: Any,
    asked: Asked,
    walk: StageWalk,
    kind: RunKind,
    files: LakeFiles | None = None,
    reader: LakeReader | None = None,
) -> StageRun:
    """Plan and walk the run of some rules over a lake, or over these files of it, or those that a reader sees. Raises LakeError."""
    with nullcontext(reader) if reader is not None else closing(open_lake(lake, files=files)) as seen:
        plan: RunPlan = stage.plan(seen, rules, asked)
    return StageRun(stage, rules, asked, plan, walk(stage, plan, kind))


def make_report(
    lake: Path,
    run: StageRun,
    wanted: Wanted,
    walk: StageWalk,
    begin: Callable[[Step], None] = lambda step: None,
    counted: Callable[[LakeReader], None] = lambda reader: None,
    finish: Finish = lambda reader, report: report,
    base: StageRun | None = None,
    renamed: dict[str, str] | None = None,
) -> Made:
    """The report of a finished run; with a `base` it is about the change from that.

    `counted` gets the reader whose tables the figures were counted on, `finish` gets the report. Raises LakeError.
    """
    fidelity = None
    if wanted.compares:
        begin(Step.CALIBRATING)
        with closing(wanted.open(lake, run.plan.files)) as own:
            fidelity = agreement(own, run.stage, run.plan, walk, run.asked.other_authorizers, wanted.change_delay)
    with closing(wanted.open(lake, run.plan.files)) as reader:
        tried = _tried(lake, run, reader, walk, begin) if wanted.remedies and base is None else None
        begin(Step.REPORTING)
        with dry_runs_kept(reader.connection):
            report = build_report(reader, lake, run.about, fidelity, wanted.rules, tried, _before(lake, run, base, renamed))
            wanted.note(latent_defects(report))
            counted(reader)
            if wanted.remedies:
                report = _exempted(lake, run, reader, walk, report, wanted, begin, is_change=base is not None)
            extra = tuple(tried.remedy.manifests) if tried is not None else ()
            return Made(finish(reader, report), fidelity, extra)


def _before(lake: Path, run: StageRun, base: StageRun | None, renamed: dict[str, str] | None) -> Base | None:
    if base is None:
        return None
    kind = run.stage.readiness
    return Base(kind, base.rules, run.rules, run.plan, base.plan, base.summary, base.verdicts(lake), renamed or {})


def agreement(
    reader: LakeReader,
    stage: Stage[Any, Any],
    plan: RunPlan,
    walk: StageWalk,
    others: OtherAuthorizers | None = None,
    change_delay: timedelta = CHANGE_DELAY,
) -> dict[str, Fidelity] | None:
    """How far a stage agrees with the record under the manifests of that time, by judged thing; None if it cannot compare.

    It is over the plan's window, version and files, which the reader sees.
    """
    bound = stage.readiness.calibration(reader, plan, others, change_delay)
    if bound is not None:
        walk(stage, bound, RunKind.CALIBRATION)
    agreed = stage.readiness.agreement(reader, bound or plan)
    return None if agreed is None else fidelity_of(agreed)


def latent_defects(report: Report) -> list[Defect]:
    """The policies that Hindcast failed to judge on objects that the window did not try, as far as the report lists them."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in report.policies:
        unknown = [each.message for each in entry.latent.violations if each.outcome == "unknown"]
        unknown += [each.message for each in entry.latent.projections if each.outcome == "unknown"]
        found.update((entry.policy, message) for message in unknown if DEFECT in message)
    return [Defect(policy, why, requests) for (policy, why), requests in found.items()]


def _exempted(
    lake: Path,
    run: StageRun,
    reader: LakeReader,
    walk: StageWalk,
    report: Report,
    wanted: Wanted,
    begin: Callable[[Step], None],
    *,
    is_change: bool,
) -> Report:
    """The report with exemptions where newly denied requests are all that speaks against the manifests."""
    if isinstance(run.plan, ReplayPlan) and run.rules is not None:
        begin(Step.EXEMPTING)
        own = Manifests.of(run.rules, wanted.written)
        return decide_report(reader, lake, run.plan, run.summary, report, own, wanted.review_by, wanted.workers, wanted.note)
    if is_change or not run.stage.readiness.written(run.rules):
        return report
    begin(Step.EXEMPTING)
    denied = [entry for entry in report.policies if entry.status is Status.NOT_READY and entry.denials.requests]
    if not denied:
        return report
    search = exemptions_of(lake, run, reader, walk)
    things = {(entry.policy, entry.binding): search.things.name(entry.policy, entry.binding) for entry in report.policies}
    names = frozenset(things[entry.policy, entry.binding] for entry in denied)
    worth = partial(is_worth_replaying, wanted.rules)
    proposal = search.propose(wanted.review_by, names, worth, wanted.rules.confidence)
    policies = [exempted(entry, proposal, wanted.rules, things[entry.policy, entry.binding]) for entry in report.policies]
    return replace(report, policies=tuple(policies))


def exemptions_of(lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk) -> StageExemptions:
    """The search for exemptions of a finished run. The tables of assess.judge_units must be in the reader's connection."""

    @contextmanager
    def tried(rules: Any) -> Iterator[Path]:
        with trial(lake, run.stage, run.stage.plan(reader, rules, run.asked), walk) as verdicts:
            yield verdicts

    return StageExemptions(reader, run.stage.readiness, run.rules, tried)


def propose_exemptions(lake: Path, run: StageRun, rules: ReadinessRules, walk: StageWalk, review_by: date | None) -> Proposal:
    """Exemptions for each judged thing of a run that would newly deny requests, whatever its verdict is."""
    with closing(open_lake(lake, files=run.plan.files)) as reader:
        judge_units(reader.connection, str(run.verdicts(lake)), rules, run.stage.readiness.counted, is_change=True)
        return exemptions_of(lake, run, reader, walk).propose(review_by, confidence=rules.confidence)


def _tried(lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk, begin: Callable[[Step], None]) -> Tried | None:
    """What the stage proposes for newly denied requests, and how many of them are denied even with it."""
    remedy = run.stage.readiness.remedy(reader, run.plan, run.verdicts(lake))
    if remedy is None or not remedy.parts:
        return None
    begin(Step.EXEMPTING)
    plan = run.stage.plan(reader, remedy.rules, run.asked)
    with trial(lake, run.stage, plan, walk) as verdicts:
        ((denied,),) = reader.connection.execute(statement("still_denied"), {"verdicts": str(verdicts)}).fetchall()
    return Tried(remedy, denied)


@contextmanager
def trial(lake: Path, stage: Stage[Any, Any], plan: RunPlan, walk: StageWalk) -> Iterator[Path]:
    """The verdicts of a plan, while the context lasts. A run that was complete before stays; see trial.trial_run."""
    run = RunStore(lake).run(plan.run_id)
    with run.tried(plan.to_json(), lambda: walk(stage, plan, RunKind.TRIAL)) as verdicts:
        yield verdicts
