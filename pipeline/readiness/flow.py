"""From a finished run of any stage to its report: one flow for commands, for replays over HTTP, for gates and for notebooks.

It compares with the record, builds the report, and looks for manifests that would keep everybody working and replays them, over
the files that the run's plan was made over. Callers differ in how they walk a plan (`StageWalk`), how they report the steps, and
which parts they add to the report (`Finish`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from ingest.errors import InputError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..authorization import OtherAuthorizers
from ..cel.defects import DEFECT
from ..history.in_force import CHANGE_DELAY
from ..request import Object
from ..runs import Defect, RunKind
from ..runs.plan import RunPlan
from ..stages.stage import Stage
from .against import Base
from .assess import keep_verdicts
from .build import build_report
from .counting.fidelity import fidelity_of
from .exempting.decision import decided
from .exempting.proposal import Proposal
from .exempting.proposing import Proposing, proposing_of
from .model import Fidelity
from .remedies import Tried
from .report import Report
from .rules import ReadinessRules
from .run import Note, StageRun, StageWalk, ignored, trial
from .sql import dry_runs_kept, statement

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
class Wanted:
    """What a report on a run shall have. `compares` with the record; `remedies`: looks for what would keep everybody working.

    `change_delay` is the time after its write in which a manifest may not be in force yet. `review_by` is the day by which someone
    should review exemptions. The rest changes no report: `note` gets what Hindcast failed to judge, and `shared` is a reader whose
    database the report may use.
    """

    rules: ReadinessRules = field(default_factory=ReadinessRules)
    compares: bool = True
    remedies: bool = True
    review_by: date | None = None
    note: Note = field(default=ignored, repr=False)
    shared: LakeReader | None = field(default=None, repr=False)
    change_delay: timedelta = CHANGE_DELAY

    def open(self, lake: Path, files: LakeFiles | None) -> LakeReader:
        """A reader of some files of a lake, to be closed by the caller."""
        return open_lake(lake, files=files) if self.shared is None or files is None else self.shared.narrowed(files)


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
        tried = _tried(lake, run, reader, walk, begin, wanted.note) if wanted.remedies and base is None else None
        begin(Step.REPORTING)
        with dry_runs_kept(reader.connection):
            report = build_report(reader, lake, run.about, fidelity, wanted.rules, tried, _before(lake, run, base, renamed))
            wanted.note(latent_defects(report))
            counted(reader)
            # A flip says nothing of the version before, so exemptions of a change would be for more than what it denies.
            if wanted.remedies and not (base is not None and run.stage.readiness.has_flips):
                report = _exempted(run, proposing_of(lake, run, reader, walk, wanted.note), report, wanted.review_by, begin)
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
    run: StageRun, proposing: Proposing | None, report: Report, review_by: date | None, begin: Callable[[Step], None]
) -> Report:
    """The report with exemptions where newly denied requests are all that speaks against the manifests."""
    if proposing is None:
        return report
    begin(Step.EXEMPTING)
    return decided(proposing, run.stage.readiness, report, review_by)


def propose_exemptions(
    lake: Path, run: StageRun, rules: ReadinessRules, walk: StageWalk, review_by: date | None, note: Note = ignored
) -> Proposal:
    """Exemptions for each judged thing of a run that would newly deny requests, whatever its verdict is.

    `note` gets what Hindcast failed to judge in a replay with them.
    Raises InputError for rules that know no exemptions.
    """
    kind = run.stage.readiness
    with closing(open_lake(lake, files=run.plan.files)) as reader, dry_runs_kept(reader.connection):
        keep_verdicts(reader.connection, str(run.verdicts(lake)), kind.counted, is_change=kind.has_flips)
        proposing = proposing_of(lake, run, reader, walk, note)
        if proposing is None:
            things = kind.words.things
            raise InputError(f"{things} have no exemptions", "`hindcast readiness` says what would keep everybody working")
        return proposing.propose(review_by, confidence=rules.confidence)


def _tried(
    lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk, begin: Callable[[Step], None], note: Note
) -> Tried | None:
    """What the stage proposes for newly denied requests, and how many of them are denied even with it."""
    remedy = run.stage.readiness.remedy(reader, run.plan, run.verdicts(lake))
    if remedy is None or not remedy.parts:
        return None
    begin(Step.EXEMPTING)
    plan = run.stage.plan(reader, remedy.rules, run.asked)
    with trial(lake, run.stage, plan, walk, note) as verdicts:
        ((denied,),) = reader.connection.execute(statement("still_denied"), {"verdicts": str(verdicts)}).fetchall()
    return Tried(remedy, denied)
