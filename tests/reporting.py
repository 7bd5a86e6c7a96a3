"""Runs of policies as a report sees them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.authorization import OtherAuthorizers
from pipeline.policies.model import PolicySet
from pipeline.readiness.assess import keep_verdicts
from pipeline.readiness.build import About
from pipeline.readiness.exempting.exclusions import Exclusion, Kind
from pipeline.readiness.exempting.manifests import Manifests, annotate
from pipeline.readiness.exempting.proposing import Proposing, Things, proposing_of
from pipeline.readiness.run import StageRun
from pipeline.runs import RunKind, RunSummary
from pipeline.runs.plan import RunPlan
from pipeline.stages.registry import VALIDATING, stage_of
from pipeline.stages.stage import Asked, Stage
from pipeline.stages.validating.decode import BINDING, POLICY
from pipeline.stages.validating.exempting import PolicyExemptions
from pipeline.stages.validating.plan import ReplayPlan
from queries import LakeReader


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


def proposing(reader: LakeReader, lake: Path, plan: ReplayPlan, summary: RunSummary) -> Proposing:
    """The search for exemptions of a finished run of policies."""
    run = run_of(plan, summary)
    keep_verdicts(reader.connection, str(run.verdicts(lake)), run.stage.readiness.counted, is_change=False)
    found = proposing_of(lake, run, reader, Walking(lake))
    assert found is not None
    return found


def manifests_of(policies: PolicySet) -> Manifests:
    """The manifests of policies."""
    return Manifests.of(PolicyExemptions().written(policies), VALIDATING.kinds)


def policies_of(manifests: Manifests) -> PolicySet:
    """The policies of manifests."""
    found: PolicySet = VALIDATING.read(manifests.documents())
    return found


def excluding(manifests: Manifests, exclusions: Sequence[tuple[Exclusion, date | None]]) -> Manifests:
    """Manifests with exclusions, and with the days of their review."""
    things = Things(PolicyExemptions())
    after = manifests_of(things.excluding(policies_of(manifests), [exclusion for exclusion, _ in exclusions]))
    for exclusion, day in exclusions:
        key = (BINDING, str(exclusion.binding)) if exclusion.kind is Kind.NAMESPACE else (POLICY, exclusion.policy)
        annotate(after.objects[key], exclusion.words, day)
    return after
