"""The stage of Pod Security: levels of namespaces over recorded writes of Pods, controllers and namespaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...history.world import LogHistory
from ...manifests.documents import Document
from ...runs.executors import Executor
from ...runs.plan import PlannedRule
from ...runs.running import Doubts
from ..by_records import AttemptsPlan, AttemptsStage
from ..first import doubts_of
from ..grouped import GroupedPlan, Listed
from ..stage import Asked
from .given import KINDS, Given, given_of
from .lane import PodJudge
from .policy import MODES, resolve
from .readiness import PodSecurityReadiness
from .ruling import NAME
from .walk import Walk, kept_attempts


@dataclass(frozen=True, kw_only=True)
class PodsPlan(AttemptsPlan[Given]):
    """The plan of one run of Pod Security."""

    FORMAT = 9

    def judge(self, reader: LakeReader) -> tuple[LogHistory, PodJudge]:
        """See RecordsPlan."""
        walk = Walk(reader, self.rules, self.window, self.kubernetes_version[1])
        return walk.history, walk.pod_judge(self.rules)

    @property
    def keeps(self) -> Sequence[str]:
        """See RecordsPlan."""
        return kept_attempts()


class PodSecurity(AttemptsStage[Given]):
    """See stage.Stage. Labels in force come from the log unless manifests give them."""

    name = NAME
    kinds = KINDS
    readiness = PodSecurityReadiness()

    def read(self, documents: Sequence[Document]) -> Given:
        """See stage.Stage."""
        return given_of(documents)

    def uses(self, rules: Given, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Given) -> Any:
        """See PlannedStage."""
        return rules.described()

    def plan(self, reader: LakeReader, rules: Given, asked: Asked) -> PodsPlan:
        """See stage.Stage: with all replaced, namespaces without labels here have none."""
        if asked.replaces_all and rules.everywhere is None:
            rules = dataclasses.replace(rules, everywhere={})
        walk = Walk(reader, rules, asked.window, asked.kubernetes_version[1])
        return PodsPlan(**self.planned(reader, rules, asked, self._listed(walk, rules)), classes=walk.classes)

    def groups(self, reader: LakeReader, rules: Given, asked: Asked) -> Listed:
        """See PlannedStage."""
        return self._listed(Walk(reader, rules, asked.window, asked.kubernetes_version[1]), rules)

    def _listed(self, walk: Walk, rules: Given) -> Listed:
        asked_about = rules.labels.values() if rules.labels and rules.everywhere is None else walk.labels.every()
        policies = [resolve(labels, walk.configuration.defaults).policy for labels in asked_about]
        found = sorted({(str(policy[mode]), str(mode)) for policy in policies for mode in MODES})
        return [PlannedRule(policy, mode, (), walk.requests) for policy, mode in found], walk.requests, walk.excluded

    def doubts(self, plan: GroupedPlan[Given], lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
        """See PlannedStage: Pods that mutating policies given with the labels change first."""
        return doubts_of(plan.rules.mutating, plan, lake, workers, executor)
