"""From a finished run of any stage to its report; flow.py has the same for policies, which are judged further.

It compares with the record, looks for manifests that would keep everybody working and replays them, and builds the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..runs import RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.stage import Asked, Stage
from .against import Base
from .assess import judge_units
from .build import About
from .exempting.decision import exempted, is_worth_replaying
from .exempting.of_stage import StageExemptions
from .exempting.proposal import Proposal
from .flow import Finish, Made, Step
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

    `review_by` is the day by which someone should review exemptions.
    """

    rules: ReadinessRules = field(default_factory=ReadinessRules)
    compares: bool = True
    remedies: bool = True
    review_by: date | None = None


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
    stage, readiness = run.stage, run.stage.readiness
    before = None
    if base is not None:
        before = Base(base.plan, base.summary, base.verdicts(lake), renamed or {})
    with closing(open_lake(lake, files=run.plan.files)) as reader:
        fidelity: dict[str, Fidelity] | None = None
        if wanted.compares:
            begin(Step.CALIBRATING)
            agreed = readiness.agreement(reader, run.plan)
            fidelity = None if agreed is None else fidelity_of(agreed)
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
