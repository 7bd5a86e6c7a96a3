"""What the rules of later stages say of objects that mutating policies of the same folder change.

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

from ...explaining.asked import Asked as Explaining
from ...policies.dispatch import compile_set, evaluate_request
from ...request import AdmissionRequest
from ...row import Row
from ...runs.executors import Executor
from ...runs.kinds import RunKind
from ...runs.plan import PlannedRule, RunPlan, plain
from ...runs.store import RunStore
from ...runs.verdicts import JudgedPass, Pass
from ...runs.window import Window, stretches
from ..first import FIRST
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

UNDECIDED = f"{FIRST}, in an order that the API server does not define, and the order decides the result"
_REFUSED = f"{FIRST}, and then this step refuses the request: "
_UNKNOWN = f"{FIRST}, and Hindcast does not know how: "


@dataclass(frozen=True, kw_only=True)
class BehindPlan(GroupedPlan[ChainRules]):
    """The plan of such a run. `only` are the audit IDs of the requests; empty: all that a given mutating policy may change."""

    only: tuple[str, ...] = field(default=(), repr=False)

    def document(self) -> dict[str, Any]:
        """See RunPlan."""
        return super().document() | ({"only": self.only} if self.only else {})


class Behind(ChainStage):
    """Judges changed objects by the given validating policies and levels. The stages of these read its runs.

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
        return _Changed(reader, plan)


class _Changed(Judging):
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
        return list(self._given(met, left)) if isinstance(left, AdmissionRequest) else _why(left, answer)

    def _given(self, met: Met, left: AdmissionRequest) -> Iterator[Row]:
        for verdict in evaluate_request(self._policies, left, met.world, met.authorize):
            yield verdict.row
        levels = self._plan.rules.levels
        if levels and (left.resource.group, left.resource.resource) in RESOURCES - {NAMESPACES}:
            is_asked = levels.is_about(left.namespace)
            for ruling in self._judge.levels.of_object(met.event, left):
                yield row_of_ruling(ruling, Told.of(met.event), is_asked=is_asked)


def _why(left: Left, answer: Answer) -> str:
    """Why it is not known what comes to the later stages."""
    if left == AS_IT_WAS:
        return UNDECIDED
    return _UNKNOWN + answer.why if answer.decision == "unknown" else f"{_REFUSED}{answer.step}"


def changed_requests(reader: LakeReader, rules: ChainRules, asked: Explaining) -> Mapping[int, AdmissionRequest | str]:
    """What comes to the later stages in each pass of one request that given mutating policies change, or why that is not known."""
    walk, judge = judging_of(reader, rules, asked.moment, asked.version, asked.other_authorizers)
    told: list[tuple[Left, Answer]] = []
    judge.left = lambda left, answer: told.append((left, answer))

    def of(met: Met) -> AdmissionRequest | str | None:
        told.clear()
        judge(met)
        if all(left == AS_IT_WAS for left, _ in told):
            return None
        left, answer = told[0]
        if any(other != left for other, _ in told):
            return UNDECIDED
        return left if isinstance(left, AdmissionRequest) else _why(left, answer)

    found = [each for each in walk.judged(of) if (each.event.cluster, each.event.audit_id) == (asked.cluster, asked.audit_id)]
    return {each.pass_index: each.verdict for each in found if each.verdict is not None}


def judged_behind(
    rules: ChainRules,
    plan: RunPlan,
    lake: Path,
    workers: int,
    executor: Executor | None,
    only: Collection[str] = (),
) -> Mapping[Pass, Sequence[Mapping[str, Any]]]:
    """The rows of such a run for the window and version of a plan, by the pass of a request: of it as a whole, and of its stage."""
    stage = Behind()
    with closing(open_lake(lake, files=plan.files)) as reader:
        own = stage.planned_of(reader, rules, Asked(plan.window, plan.kubernetes_version), only)
    own = replace(own, other_authorizers=plan.other_authorizers)

    def make() -> object:
        return stage.run(own, lake, workers, kind=RunKind.TRIAL, executor=executor)

    with RunStore(lake).run(own.run_id).tried(own.to_json(), make) as verdicts:
        rows = pq.read_table(verdicts, filters=pc.field("stage").isin([STAGE, plan.stage])).to_pylist()
    return {place: list(found) for place, found in groupby(rows, _place_of)}


def _place_of(row: Mapping[str, Any]) -> Pass:
    return row["cluster"], row["audit_id"], row["ts"], row["pass"]
