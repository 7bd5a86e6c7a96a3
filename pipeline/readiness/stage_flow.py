"""From a finished run of any stage to its report. Policies are judged further: flow.py has what only they have.

It compares with the record, looks for manifests that would keep everybody working and replays them, and builds the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..history.in_force import CHANGE_DELAY
from ..request import Object
from ..runs import RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.stage import Asked, Stage
from ..stages.validating.plan import ReplayPlan
from .against import Base, PolicyBase
from .assess import judge_units
from .build import About
from .exempting.decision import exempted, is_worth_replaying
from .exempting.manifests import Manifests
from .exempting.of_stage import StageExemptions
from .exempting.proposal import Proposal
from .exempting.trial import Note, ignored
from .flow import Asked as PolicyAsked
from .flow import Finish, Made, Step, calibrated, make_report
from .model import Fidelity, Status
from .of_stage import Tried, fidelity_of, stage_report
from .report import Report
from .rules import ReadinessRules
from .sql import statement

# How a caller walks the plan of a stage: with progress and with bounds.
StageWalk: TypeAlias = Callable[[Stage[Any, Any], RunPlan, RunKind], RunSummary]


@dataclass(frozen=True)
class StageRun:
    """A finished run of a stage: its rules, the wishes for its plan, the plan, and the summary."""

    stage: Stage[Any, Any]
    rules: Any
    asked: Asked
    plan: RunPlan
    summary: RunSummary

    def verdicts(self, lake: Path) -> Path:
        """Its verdict table."""
        return RunStore(lake).run(self.summary.run_id).verdicts


@dataclass(frozen=True)
class Wanted:
    """What a report on a run shall have. `compares` with the record; `remedies`: looks for what would keep everybody working.

    `review_by` is the day by which someone should review exemptions, and `written` are the given manifests, which exemptions
    change. The rest changes no report: `workers` try exemptions, `note` gets what Hindcast failed to judge, and `shared` is a
    reader whose database the report may use.
    """

    rules: ReadinessRules = field(default_factory=ReadinessRules)
    compares: bool = True
    remedies: bool = True
    review_by: date | None = None
    written: Sequence[Object] = field(default=(), repr=False)
    workers: int = field(default=1, repr=False)
    note: Note = field(default=ignored, repr=False)
    shared: LakeReader | None = field(default=None, repr=False)


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


def make_stage_report(
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
    """The report of a finished run; with a `base` it is about the change. See flow.make_report for the functions."""
    if isinstance(run.plan, ReplayPlan):
        return _of_policies(lake, run, run.plan, wanted, walk, begin, counted, finish, base, renamed)
    stage, readiness = run.stage, run.stage.readiness
    before = None
    if base is not None:
        before = Base(base.plan, base.summary, base.verdicts(lake), renamed or {})
    with closing(open_lake(lake, files=run.plan.files)) as reader:
        fidelity: dict[str, Fidelity] | None = None
        if wanted.compares:
            begin(Step.CALIBRATING)
            fidelity = agreement(lake, reader, stage, run.plan, walk)
        tried = None
        if wanted.remedies and before is None:
            begin(Step.EXEMPTING)
            tried = _tried(lake, run, reader, walk)
        begin(Step.REPORTING)
        report = stage_report(
            reader,
            lake,
            stage,
            About.of(stage, run.plan),
            run.summary,
            fidelity,
            wanted.rules,
            tried,
            readiness.places(run.rules),
            (before, run.plan) if before is not None else None,
            given=run.rules,
        )
        counted(reader)
        if wanted.remedies and before is None and readiness.written(run.rules):
            begin(Step.EXEMPTING)
            report = _exempted(lake, run, reader, walk, report, wanted)
        extra = tuple(tried.remedy.manifests) if tried is not None else ()
        return Made(finish(reader, report), fidelity, extra)


def agreement(lake: Path, reader: LakeReader, stage: Stage[Any, Any], plan: RunPlan, walk: StageWalk) -> dict[str, Fidelity] | None:
    """How far a stage agrees with the record under the manifests of that time, by judged thing; None if it cannot compare."""
    if isinstance(plan, ReplayPlan):
        return calibrated(lake, reader, plan, PolicyAsked(), lambda own, kind: walk(stage, own, kind))
    agreed = stage.readiness.agreement(reader, plan)
    return None if agreed is None else fidelity_of(agreed)


def _of_policies(
    lake: Path,
    run: StageRun,
    plan: ReplayPlan,
    wanted: Wanted,
    walk: StageWalk,
    begin: Callable[[Step], None],
    counted: Callable[[LakeReader], None],
    finish: Finish,
    base: StageRun | None,
    renamed: dict[str, str] | None,
) -> Made:
    asked = PolicyAsked(
        wanted.rules,
        CHANGE_DELAY if wanted.compares else None,
        run.asked.other_authorizers,
        Manifests.of(run.rules, wanted.written) if wanted.remedies else None,
        wanted.review_by,
        wanted.workers,
        wanted.note,
        wanted.shared,
    )
    before = None
    if base is not None:
        assert isinstance(base.plan, ReplayPlan)
        before = PolicyBase(base.plan, base.summary, base.verdicts(lake), renamed or {})
    return make_report(lake, plan, run.summary, asked, lambda own, kind: walk(run.stage, own, kind), begin, counted, finish, before)


def _exempted(lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk, report: Report, wanted: Wanted) -> Report:
    """The report with exemptions where newly denied requests are all that speaks against the manifests."""
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


def _tried(lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk) -> Tried | None:
    """What the stage proposes for newly denied requests, and how many of them are denied even with it."""
    remedy = run.stage.readiness.remedy(reader, run.plan, run.verdicts(lake))
    if remedy is None or not remedy.parts:
        return None
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
