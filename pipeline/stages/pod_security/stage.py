"""The stage of Pod Security: levels of namespaces over recorded writes of Pods, controllers and namespaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...manifests.documents import Document
from ...runs.executors import Executor
from ...runs.plan import PlannedRule
from ...runs.running import Doubts
from ...runs.verdicts import JudgedPass
from ...runs.window import Window, stretches
from ..first import doubts_of
from ..grouped import GroupedPlan, GroupedStage, Judging
from ..stage import Asked
from .given import KINDS, Given, given_of
from .policy import MODES, resolve
from .readiness import PodSecurityReadiness
from .ruling import NAME, row_of
from .subject import Told
from .walk import Walk

# A part with fewer requests is not worth its reading of their history.
_REQUESTS_MIN = 10_000


class PodSecurity(GroupedStage[Given]):
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
        """See GroupedStage."""
        return rules.described()

    def plan(self, reader: LakeReader, rules: Given, asked: Asked) -> GroupedPlan[Given]:
        """See stage.Stage: with all replaced, namespaces without labels here have none."""
        if asked.replaces_all and rules.everywhere is None:
            rules = dataclasses.replace(rules, everywhere={})
        return super().plan(reader, rules, asked)

    def groups(self, reader: LakeReader, rules: Given, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        walk = Walk(reader, rules, asked.window, asked.kubernetes_version[1])
        asked_about = rules.labels.values() if rules.labels and rules.everywhere is None else walk.labels.every()
        policies = [resolve(labels, walk.configuration.defaults).policy for labels in asked_about]
        found = sorted({(str(policy[mode]), str(mode)) for policy in policies for mode in MODES})
        return [PlannedRule(policy, mode, (), walk.requests) for policy, mode in found], walk.requests, walk.excluded

    def doubts(self, plan: GroupedPlan[Given], lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
        """See GroupedStage: Pods that mutating policies given with the labels change first."""
        return doubts_of(plan.rules.mutating, plan, lake, workers, executor)

    def judging(self, reader: LakeReader, plan: GroupedPlan[Given]) -> Judging:
        """See GroupedStage."""
        return _Writes(reader, plan)


class _Writes(Judging):
    """See Judging. Requests with equal Pods are judged once, where their own record is enough."""

    def __init__(self, reader: LakeReader, plan: GroupedPlan[Given]) -> None:
        self._reader, self._plan = reader, plan
        self._walk = Walk(reader, plan.rules, plan.window, plan.kubernetes_version[1])

    def stretches(self) -> Sequence[Window]:
        """See Judging."""
        return stretches(self._reader, self._walk.window, self._plan.parts(self._walk.requests, _REQUESTS_MIN))

    def records(self, stretch: Window) -> Iterator[JudgedPass]:
        """See Judging."""
        for place, alike in self._walk.plain(share=stretch):
            yield (*place, 0), alike
        for found, rulings in self._walk.other_rulings(stretch):
            event, told = found.event, Told.of(found.event)
            is_asked = self._plan.rules.is_about(event.namespace)
            rows = [row_of(each, told, is_asked=is_asked) for each in rulings]
            yield (event.cluster, event.audit_id, event.ts, event.stage_ts, 0), rows
