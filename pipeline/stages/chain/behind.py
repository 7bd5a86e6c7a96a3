"""What the rules of later stages say of the objects that mutating policies of the same folder leave.

Each stage answers for itself, and mutation comes first: verdicts on the object that a client sent would be about another object.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from queries import LakeReader, open_lake

from ...admission.policies import compile_set, evaluate_request
from ...request import AdmissionRequest
from ...runs.executors import Executor
from ...runs.kinds import RunKind
from ...runs.plan import PlannedRule, RunPlan, plain
from ...runs.store import RunStore
from ...runs.verdict import Row
from ...runs.verdicts import JudgedPass, Pass
from ...runs.window import Window, stretches
from ..grouped import GroupedPlan, Judging
from ..in_force import GivenChain
from ..mutating.chain import Chain
from ..mutating.walk import Met, Walk
from ..pod_security.ruling import row_of as row_of_ruling
from ..pod_security.subject import NAMESPACES, RESOURCES, Told
from ..stage import Asked
from .alike import AlikeRequests
from .answer import MUTATING, STAGE, Answer, Step, row_of
from .asking import judging_of
from .judging import AS_IT_WAS, Left
from .rules import ChainRules
from .stage import REQUESTS_MIN, ChainStage

UNDECIDED = "mutating policies given with it change the object first, and their order decides what is left of it"
_REFUSED = "mutating policies given with it come first, and an earlier step refuses the request then: "
_UNKNOWN = "mutating policies given with it come first, and what they do is unknown: "


@dataclass(frozen=True, kw_only=True)
class BehindPlan(GroupedPlan[ChainRules]):
    """The plan of such a run. `only` are the audit IDs of the requests; empty: all that a given mutating policy may change."""

    only: tuple[str, ...] = field(default=(), repr=False)

    def document(self) -> dict[str, Any]:
        """See RunPlan."""
        return super().document() | ({"only": self.only} if self.only else {})


class Behind(ChainStage):
    """Judges what is left of requests by the given validating policies and levels. Its runs are read by the stages of these.

    Each request that a given mutating policy changes has the row of its answer, and the rows of the later rules. Where the latter
    are not known, the detail of the first row has `lost`; `by` names the policies that change it.
    """

    def describe(self, rules: ChainRules) -> Any:
        """See GroupedStage."""
        return {"behind": plain(rules.mutating), "levels": rules.levels.described()}

    def planned_of(self, reader: LakeReader, rules: ChainRules, asked: Asked, only: Collection[str]) -> BehindPlan:
        """The plan for some requests."""
        chain = Chain(rules.mutating, asked.kubernetes_version)
        walk = Walk(reader, asked.window, GivenChain(chain), asked.kubernetes_version, only=only)
        found = self.planned(reader, rules, asked, ([PlannedRule(STAGE, None, (), walk.requests)], walk.requests, walk.excluded))
        return BehindPlan(**found, only=tuple(sorted(only)))

    def judging(self, reader: LakeReader, plan: GroupedPlan[ChainRules]) -> Judging:
        """See GroupedStage."""
        assert isinstance(plan, BehindPlan)
        return _Left(reader, plan)


class _Left(Judging):
    """See Judging."""

    def __init__(self, reader: LakeReader, plan: BehindPlan) -> None:
        rules = plan.rules
        self._reader, self._plan = reader, plan
        walk, judge = judging_of(reader, rules, plan.window, plan.kubernetes_version, dict(plan.other_authorizers), plan.only)
        walk.narrow(lambda item: any(rules.may_change(walk.chains.every, target) for target in item.targets()))
        self._walk, self._judge = walk, judge
        self._policies = compile_set(rules.mutating.later, plan.kubernetes_version)
        self._left: list[tuple[Left, Answer]] = []
        judge.left = lambda left, answer: self._left.append((left, answer))
        self._rows = AlikeRequests(walk, judge, judge.webhooks, self._policies, self._of)
        self._by: dict[str, None] = {}
        judge.notice = self._notice

    def stretches(self) -> Sequence[Window]:
        """See Judging."""
        return stretches(self._reader, self._walk.window, self._plan.parts(self._walk.requests, REQUESTS_MIN))

    def records(self, stretch: Window) -> Iterator[JudgedPass]:
        """See Judging."""
        for each in self._walk.judged(self._rows, stretch):
            if each.verdict:
                event = each.event
                yield (event.cluster, event.audit_id, event.ts, event.stage_ts, each.pass_index), each.verdict

    def _notice(self, step: Step) -> None:
        kind, _, name = step.name.partition(":")
        if kind == MUTATING and step.says == "changed" and name in self._plan.rules.changers:
            self._by[name] = None

    def _of(self, met: Met) -> Sequence[Row]:
        self._left.clear()
        self._by.clear()
        answer, recorded = self._judge(met)
        if not self._plan.only and all(left == AS_IT_WAS for left, _ in self._left):
            return ()
        found = [self._later(met, *each) for each in self._left]
        later = found[0] if found else ""
        lost = later if isinstance(later, str) else "" if all(each == later for each in found) else UNDECIDED
        whole = row_of(answer, recorded, False)
        detail = json.loads(whole.detail or "{}") | {"by": " and ".join(self._by)} | ({"lost": lost} if lost else {})
        whole = whole._replace(detail=json.dumps(detail, sort_keys=True))
        return [whole] if lost or isinstance(later, str) else [whole, *later]

    def _later(self, met: Met, left: Left, answer: Answer) -> str | Sequence[Row]:
        """The rows of later rules, or why they are not known."""
        if left == AS_IT_WAS:
            return UNDECIDED
        if isinstance(left, AdmissionRequest):
            return list(self._given(met, left))
        if answer.decision == "unknown":
            return _UNKNOWN + answer.why
        return f"{_REFUSED}{answer.step}"

    def _given(self, met: Met, left: AdmissionRequest) -> Iterator[Row]:
        for verdict in evaluate_request(self._policies, left, met.world, met.authorize):
            yield verdict.row
        levels = self._plan.rules.levels
        if levels and (left.resource.group, left.resource.resource) in RESOURCES - {NAMESPACES}:
            is_asked = levels.is_about(left.namespace)
            for ruling in self._judge.levels.of_object(met.event, left):
                yield row_of_ruling(ruling, Told.of(met.event), is_asked=is_asked)


def left_of(
    rules: ChainRules,
    plan: RunPlan,
    lake: Path,
    workers: int,
    executor: Executor | None,
    only: Collection[str] = (),
) -> Mapping[Pass, Sequence[Mapping[str, Any]]]:
    """The rows of such a run for the window and version of a plan, by the pass of a request: of it as a whole, and of its stage."""
    stage, mutating = Behind(), rules.mutating
    # Stages read their manifests apart. Equal rules make one run.
    later = replace(mutating.later, objects=mutating.objects)
    rules = replace(rules, mutating=replace(mutating, later=later), levels=replace(rules.levels, mutating=()))
    with closing(open_lake(lake, files=plan.files)) as reader:
        own = stage.planned_of(reader, rules, Asked(plan.window, plan.kubernetes_version), only)
    stage.run(own, lake, workers, kind=RunKind.TRIAL, executor=executor)
    rows = pq.read_table(RunStore(lake).run(own.run_id).verdicts, filters=pc.field("stage").isin([STAGE, plan.stage])).to_pylist()
    return {place: list(found) for place, found in groupby(rows, _place_of)}


def _place_of(row: Mapping[str, Any]) -> Pass:
    return row["cluster"], row["audit_id"], row["ts"], row["pass"]
