"""The chain as a stage: the answer of the whole of admission to each recorded write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...manifests.documents import Document
from ...policies.dispatch import compile_set
from ...policies.refusing import refuse_errors
from ...requests.authorizers import other_authorizers
from ...row import Row
from ...runs.plan import PlannedRule
from ...runs.verdicts import JudgedPass
from ...runs.window import Window, stretches
from ..grouped import GroupedPlan, GroupedStage, Judging
from ..mutating.compiled import too_new_expressions
from ..mutating.walk import Met, Walk
from ..stage import Asked, Kind
from .alike import AlikeRequests
from .answer import STAGE, answer_of, row_of
from .asking import judging_of
from .readiness import ChainReadiness
from .rules import ChainRules, chain_rules
from .sql import statement

# A part with fewer requests is not worth its reading of their history.
REQUESTS_MIN = 500


class ChainStage(GroupedStage[ChainRules]):
    """See stage.Stage. It judges by the manifests of other stages, so that no kind is its own."""

    name = STAGE
    kinds: frozenset[Kind] = frozenset()
    readiness = ChainReadiness()

    def read(self, documents: Sequence[Document]) -> ChainRules:
        """See stage.Stage."""
        return chain_rules(documents)

    def uses(self, rules: ChainRules, document: Document) -> bool:
        """See stage.Stage."""
        return True

    def describe(self, rules: ChainRules) -> Any:
        """See GroupedStage."""
        return list(rules.written)

    def plan(self, reader: LakeReader, rules: ChainRules, asked: Asked) -> GroupedPlan[ChainRules]:
        """See stage.Stage."""
        found = self.planned(reader, rules, asked, self.groups(reader, rules, asked))
        return GroupedPlan(**found | {"manifests": {"rules": found["manifests"], "with_objects": asked.with_objects}})

    def groups(self, reader: LakeReader, rules: ChainRules, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        refuse_errors(too_new_expressions(rules.mutating.policies, asked.kubernetes_version, reader))
        walk = Walk(reader, asked.window, None, asked.kubernetes_version, reads_all=True, reads_unreached=True, over=rules.mutating)
        return [PlannedRule(STAGE, None, (), walk.requests)], walk.requests, walk.excluded

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def judging(self, reader: LakeReader, plan: GroupedPlan[ChainRules]) -> Judging:
        """See GroupedStage."""
        return _Writes(reader, plan)


class _Writes(Judging):
    """See Judging. What no given rule is for keeps its recorded answer, and many of these are alike."""

    asks = True

    def __init__(self, reader: LakeReader, plan: GroupedPlan[ChainRules]) -> None:
        self._reader, self._plan = reader, plan
        self._walk, self._judge = judging_of(reader, plan.rules, plan.window, plan.kubernetes_version, dict(plan.other_authorizers))
        given = compile_set(plan.rules.mutating.later, plan.kubernetes_version)
        alike = AlikeRequests(self._walk, self._judge, self._judge.webhooks, given, self._row)
        # Objects in the rows have their names.
        self._rows = self._row if plan.manifests["with_objects"] else alike
        chains = self._walk.chains.every
        self._others = self._walk.narrow(lambda item: any(self._judge.concerns(chains, target) for target in item.targets()))

    def questions(self) -> str:
        """See Judging."""
        others = self._others.relation(self._reader, "chain_classes")
        self._reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE chain_others AS {others}", self._plan.window.parameters)
        return statement("recorded")

    def answer(self, question: Mapping[str, Any]) -> Sequence[Row]:
        """See Judging."""
        recorded = answer_of(question["code"], question["message"], question["reason"], question["resource"])
        return [row_of(recorded, recorded, False)]

    def stretches(self) -> Sequence[Window]:
        """See Judging."""
        return stretches(self._reader, self._walk.window, self._plan.parts(self._walk.requests, REQUESTS_MIN))

    def records(self, stretch: Window) -> Iterator[JudgedPass]:
        """See Judging."""
        for each in self._walk.judged(self._rows, stretch):
            event = each.event
            yield (event.cluster, event.audit_id, event.ts, event.stage_ts, each.pass_index), each.verdict

    def _row(self, met: Met) -> Sequence[Row]:
        return [row_of(*self._judge(met), self._plan.manifests["with_objects"])]
