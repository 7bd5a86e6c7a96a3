"""From a finished run to its report: one flow for the command line, for replays over HTTP, for gates and for notebooks.

It calibrates, builds the report and looks for exemptions, in this order, over the files that the run's plan was made over.
Callers differ in how they walk a plan (`Walk`), how they report the steps, and which parts they add to the report (`Finish`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..authorization import OtherAuthorizers
from ..cel.defects import DEFECT
from ..history.in_force import CHANGE_DELAY
from ..request import Object
from ..runs import Defect, RunKind, RunStore, RunSummary
from ..stages.validating.plan import ReplayPlan
from ..stages.validating.recorded import plan_replay_from_log
from .against import PolicyBase
from .build import build_report
from .counting.fidelity import kept_agreement
from .exempting.decision import decide_report
from .exempting.manifests import Manifests
from .exempting.trial import Note, ignored
from .model import Fidelity
from .report import Report
from .rules import ReadinessRules
from .sql import dry_runs_kept

# How a caller walks a plan: in this process or others, with progress and with bounds.
Walk: TypeAlias = Callable[[ReplayPlan, RunKind], RunSummary]
# Adds a caller's own parts to the report before the lake is closed.
Finish: TypeAlias = Callable[[LakeReader, Report], Report]


class Step(StrEnum):
    """A part of the flow that may take long."""

    CALIBRATING = "calibrating"
    REPORTING = "reporting"
    EXEMPTING = "exempting"


@dataclass(frozen=True)
class Asked:
    """The options of a report on a run.

    `change_delay` is the time after its write in which a policy may not be in force yet; None skips the comparison with the
    record. `other_authorizers` are the clusters' authorizers other than RBAC, the same as in the run's plan. With `manifests` the
    flow looks for exemptions; `review_by` is the day by which someone should review them. `workers` is for the replays that try
    exemptions. `note` gets the policies that Hindcast failed to judge in these, or over objects that the window did not try.
    `shared` is a reader whose database the report may use; without it, it opens the lake.
    """

    rules: ReadinessRules = field(default_factory=ReadinessRules)
    change_delay: timedelta | None = CHANGE_DELAY
    other_authorizers: OtherAuthorizers | None = None
    manifests: Manifests | None = None
    review_by: date | None = None
    workers: int = 1
    note: Note = ignored
    shared: LakeReader | None = None

    def open(self, lake: Path, files: LakeFiles | None) -> LakeReader:
        """A reader of some files of a lake, to be closed by the caller."""
        return open_lake(lake, files=files) if self.shared is None or files is None else self.shared.narrowed(files)


@dataclass(frozen=True)
class Made:
    """A report, and how far the replay agrees with the record, by policy; None if the two were not compared.

    `extra` are manifests that would keep newly denied requests working, where the stage found any.
    """

    report: Report
    fidelity: dict[str, Fidelity] | None
    extra: tuple[Object, ...] = ()


def make_report(
    lake: Path,
    plan: ReplayPlan,
    summary: RunSummary,
    asked: Asked,
    walk: Walk,
    begin: Callable[[Step], None] = lambda step: None,
    counted: Callable[[LakeReader], None] = lambda reader: None,
    finish: Finish = lambda reader, report: report,
    base: PolicyBase | None = None,
) -> Made:
    """The report of a finished run; with a `base` it is about the change.

    `counted` gets the reader whose tables the figures were counted on, `finish` gets the report. Raises LakeError.
    """
    fidelity: dict[str, Fidelity] | None = None
    if asked.change_delay is not None:
        begin(Step.CALIBRATING)
        with closing(asked.open(lake, plan.files)) as own:
            fidelity = calibrated(lake, own, plan, asked, walk)
    begin(Step.REPORTING)
    with closing(asked.open(lake, plan.files)) as reader, dry_runs_kept(reader.connection):
        report = build_report(reader, lake, plan, summary, fidelity, asked.rules, base)
        asked.note(latent_defects(report))
        counted(reader)
        if asked.manifests is not None:
            begin(Step.EXEMPTING)
            report = decide_report(reader, lake, plan, summary, report, asked.manifests, asked.review_by, asked.workers, asked.note)
        return Made(finish(reader, report), fidelity)


def latent_defects(report: Report) -> list[Defect]:
    """The policies that Hindcast failed to judge on objects that the window did not try, as far as the report lists them."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in report.policies:
        unknown = [each.message for each in entry.latent.violations if each.outcome == "unknown"]
        unknown += [each.message for each in entry.latent.projections if each.outcome == "unknown"]
        found.update((entry.policy, message) for message in unknown if DEFECT in message)
    return [Defect(policy, why, requests) for (policy, why), requests in found.items()]


def calibrated(lake: Path, reader: LakeReader, plan: ReplayPlan, asked: Asked, walk: Walk) -> dict[str, Fidelity]:
    """How far a replay of the bound policies agrees with the record, by policy: over the plan's window, version and files.

    The reader sees those files. Raises ValueError where `asked` skips the comparison.
    """
    if asked.change_delay is None:
        raise ValueError("the comparison with the record is skipped")
    bound = plan_replay_from_log(reader, plan.window, plan.kubernetes_version, asked.change_delay, asked.other_authorizers)
    summary = walk(bound, RunKind.CALIBRATION)
    return kept_agreement(reader, RunStore(lake).run(summary.run_id), plan.kubernetes_version)
