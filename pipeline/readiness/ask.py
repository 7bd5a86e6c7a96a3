"""A readiness report in one call, for notebooks and scripts; the command line has the same parts with progress and options."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb

from queries import LakeReader

from ..authorization import OtherAuthorizers
from ..history.in_force import CHANGE_DELAY
from ..runs import RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.registry import stage_of
from ..stages.stage import Asked, Stage
from .assess import judge_units
from .flow import Wanted, make_report
from .report import Report
from .rules import ReadinessRules
from .run import StageRun


def readiness(
    lake: str | Path,
    plan: RunPlan,
    summary: RunSummary,
    rules: ReadinessRules | None = None,
    *,
    calibrate: bool = True,
    exemptions: bool = True,
    review_by: date | None = None,
    change_delay: timedelta = CHANGE_DELAY,
    other_authorizers: OtherAuthorizers | None = None,
    workers: int = 1,
) -> Report:
    """Report whether the policies of a finished run may go to Deny: `readiness(lake, plan, run_replay(plan, lake))`.

    `calibrate` also replays the policies that were bound at the time, and compares the result with the record. So the report
    can say how far the replay can be trusted. `change_delay` is the time after its write in which a policy may not be in force yet.
    `other_authorizers` are the clusters' authorizers other than RBAC, the same as in the plan.
    `exemptions` finds the fewest exemptions with which no request would be denied, replays them and plans the steps to Deny.
    `review_by` is the day by which someone should review them. The report covers the events that the plan was made over.
    Raises LakeError if the lake does not exist.
    """
    stage = stage_of(plan.stage)
    asked = Asked(plan.window, plan.kubernetes_version, other_authorizers)
    wanted = Wanted(rules or ReadinessRules(), calibrate, exemptions, review_by, change_delay=change_delay)

    def walk(stage: Stage[Any, Any], walked: RunPlan, kind: RunKind) -> RunSummary:
        return stage.run(walked, Path(lake), workers, None, kind)

    return make_report(Path(lake), StageRun(stage, plan.judged_by, asked, plan, summary), wanted, walk).report


def verdicts_of(lake: str | Path, summary: RunSummary) -> Path:
    """The Parquet file with every verdict of a run: one row per request, policy, binding, param and expression."""
    return RunStore(lake).run(summary.run_id).verdicts


def outcomes_of(
    reader: LakeReader, lake: str | Path, summary: RunSummary, rules: ReadinessRules | None = None
) -> duckdb.DuckDBPyRelation:
    """One row per (policy, binding, request) that a policy matched: its outcome, who sent it, and the workload it is about.

    Leaves the table `outcomes` in the reader's connection; every figure of a readiness report is a query over it.
    """
    judge_units(reader, str(verdicts_of(lake, summary)), rules or ReadinessRules())
    return reader.connection.table("outcomes")
