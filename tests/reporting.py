"""Runs of policies as a report sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.authorization import OtherAuthorizers
from pipeline.readiness.build import About
from pipeline.readiness.flow import StageRun
from pipeline.runs import RunKind, RunSummary
from pipeline.runs.plan import RunPlan
from pipeline.stages.registry import stage_of
from pipeline.stages.stage import Asked, Stage
from pipeline.stages.validating.plan import ReplayPlan


def about_of(plan: ReplayPlan, summary: RunSummary) -> About:
    """What a report on a finished run is about."""
    return run_of(plan, summary).about


def run_of(plan: ReplayPlan, summary: RunSummary, others: OtherAuthorizers | None = None) -> StageRun:
    """A finished run, with its rules and the wishes for its plan."""
    return StageRun(stage_of(plan.stage), plan.policies, Asked(plan.window, plan.kubernetes_version, others), plan, summary)


class Walking:
    """Walks plans over a lake, and remembers which."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.walked: list[tuple[RunKind, Any]] = []

    def __call__(self, stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        self.walked.append((kind, plan))
        return stage.run(plan, self._lake, 1, None, kind)
