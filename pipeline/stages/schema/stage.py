"""The stage of schemas: recorded writes of custom resources under given CustomResourceDefinitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from queries import LakeReader

from ...manifests.documents import Document
from ...runs.plan import PlannedRule
from ...runs.verdicts import JudgedPass
from ..grouped import GroupedPlan, GroupedStage, Judging, Share, shares
from ..stage import Asked, Kind
from .definition import GROUP, KIND
from .readiness import SchemaReadiness
from .replay.definitions import Given, given_of, served_of
from .replay.rows import NAME, row_of
from .replay.walk import Walk

# Fewer requests are not worth a part of a run: each part reads the history of its objects.
_REQUESTS_MIN = 2_000


class Schemas(GroupedStage[Given]):
    """See stage.Stage. Requests differ in their bodies, so that each is judged by itself."""

    name = NAME
    kinds = frozenset({Kind(GROUP, KIND)})
    readiness = SchemaReadiness()

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
        """See stage.Stage."""
        plan = super().plan(reader, rules, asked)
        if not asked.with_objects:
            return plan
        return dataclasses.replace(plan, manifests={"definitions": plan.manifests, "with_objects": True})

    def groups(self, reader: LakeReader, rules: Given, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        walk = _walk(reader, rules, asked.window, asked.kubernetes_version)
        names = served_of(rules.definitions, asked.kubernetes_version, reader, rules.before)
        return [PlannedRule(name, None, (), walk.requests_of(name)) for name in names], walk.requests, {}

    def judging(self, reader: LakeReader, plan: GroupedPlan[Given]) -> Judging:
        """See GroupedStage."""
        walk = _walk(reader, plan.rules, plan.window, plan.kubernetes_version)
        return _Writes(walk, plan.parts(walk.requests, _REQUESTS_MIN), isinstance(plan.manifests, dict))


class _Writes(Judging):
    """See Judging. What one write leaves decides about later ones of its object, so that a share holds all of each object."""

    def __init__(self, walk: Walk, parts: int, with_objects: bool) -> None:
        self._walk = walk
        self._parts = parts
        self._with_objects = with_objects

    def stretches(self) -> Sequence[Share]:
        """See Judging."""
        return shares(self._parts)

    def records(self, stretch: Share) -> Iterator[JudgedPass]:
        """See Judging."""
        for each in self._walk.judged(stretch):
            event = each.event
            yield (event.cluster, event.audit_id, event.ts, event.stage_ts, 0), (row_of(each, self._with_objects),)


def _walk(reader: LakeReader, rules: Given, window: Any, version: tuple[int, int]) -> Walk:
    return Walk(reader, window, served_of(rules.definitions, version), served_of(rules.before, version), version)
