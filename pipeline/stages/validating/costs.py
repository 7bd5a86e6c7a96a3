"""The costs of given policies over recorded requests: the walk of a replay, with costs in place of the table of verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from queries import LakeReader, open_lake

from ...authorization import AuthorizeUser
from ...history.event import Event
from ...policies.dispatch import CompiledSet, input_key
from ...policies.due import Due
from ...policies.evaluate import Case
from ...policies.inputs import Inputs, NamespaceNotFoundError
from ...policies.verdict import PolicyVerdict
from ...request import AdmissionRequest
from ...requests.tasks import walk_all
from ...requests.worker import Replayer
from ...runs.verdict import Verdict
from ...world import World
from .cost import CaseCost, cost_of
from .cost_figures import Book, PolicyCost
from .plan import ReplayPlan
from .policies import Policies

# The costs of one request: pairs of policy and cost, one for each param.
Costs: TypeAlias = tuple[tuple[str, CaseCost], ...]
Progress: TypeAlias = Callable[[int, int], None]
# Above it the cache is cleared, and equal cases are evaluated again.
_REMEMBERED_MAX = 50_000


class _Rows(list[PolicyVerdict]):
    """The verdicts of one request, with their costs."""

    def __init__(self, rows: Iterable[PolicyVerdict], costs: Costs) -> None:
        super().__init__(rows)
        self.costs = costs


class _Costed(Policies):
    """Policies whose costs are counted next to their verdicts; see Policies."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.books = {policy.policy.name: Book(policy.policy.name) for policy in policies.considered.policies}
        self._known: dict[tuple[int, bytes], CaseCost] = {}

    @property
    def considered(self) -> CompiledSet:
        """See Policies."""
        return self._policies.considered

    def met_by(self, request: AdmissionRequest) -> Sequence[CompiledSet]:
        """See Policies."""
        return self._policies.met_by(request)

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[PolicyVerdict] | None:
        """See RecordJudge."""
        rows = self._policies.answer_alike(request, world, authorize, row)
        return None if rows is None else _Rows(rows, self._costs(request, world, authorize))

    def apart(self) -> Sequence[Policies]:
        """See Policies. The costs are those of all policies together."""
        return (self,)

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[PolicyVerdict]:
        """See Policies."""
        return _Rows(self._policies.answer(request, world, authorize, event), self._costs(request, world, authorize))

    def _costs(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser) -> Costs:
        """The cost of each policy for a request, once for each param: bindings with the same param share the evaluation."""
        policies = self.considered
        inputs = Inputs(request, policies.given.over(world), authorize, managed_fields=policies.reads_managed_fields)
        found: dict[tuple[int, int], tuple[str, CaseCost]] = {}
        for items in policies.prepared(request, world):
            for due in items:
                if isinstance(due, Due) and not due.policy.defect:
                    key = (id(due.policy), id(due.value))
                    if key not in found and (cost := self._cost(inputs, due)) is not None:
                        found[key] = (due.policy.policy.name, cost)
        return tuple(found.values())

    def _cost(self, inputs: Inputs, due: Due) -> CaseCost | None:
        """The cost of one evaluation, computed once for all with equal reads of the policy; None if no expression runs."""
        key = input_key(inputs, due.policy, due.value) if due.match is None and due.policy.is_pure else None
        if key in self._known:
            return self._known[key]
        case = Case(due.policy, inputs, due.match, due.value)
        try:
            cost = cost_of(case)
        except NamespaceNotFoundError:
            return None
        kept = self.books[due.policy.policy.name].learn(case, cost)
        if key is not None:
            if len(self._known) > _REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = kept
        return kept


class _Counting:
    """Counts the costs of requests as a replay finds their verdicts."""

    def __init__(self, books: dict[str, Book]) -> None:
        self._books = books

    def add(self, row: int, verdicts: Sequence[Verdict], pass_index: int = 0) -> None:
        """Count one pass of a request."""
        assert isinstance(verdicts, _Rows)
        for policy, cost in verdicts.costs:
            self._books[policy].count(cost)

    def add_alike(self, groups: pa.Array[Any], verdicts: Sequence[Sequence[Verdict]]) -> None:
        """Count the first pass of the requests in all rows."""
        numbers: list[Any] = groups.to_pylist()
        for row, group in enumerate(numbers):
            self.add(row, verdicts[group])


def policy_costs(plan: ReplayPlan, lake: Path, progress: Progress = lambda done, planned: None) -> tuple[PolicyCost, ...]:
    """The costs of the plan's policies over its requests, policy by policy in their order. Writes nothing.

    `progress(done, planned)` is called with numbers of requests. Raises LakeError.
    """
    with closing(open_lake(lake, threads=1, files=plan.files)) as reader:
        made: list[_Costed] = []

        def counted(policies: Policies) -> Policies:
            made.append(_Costed(policies))
            return made[0]

        replayer = Replayer(plan, reader, counted)
        (costed,) = made
        done = 0
        try:
            for walk in walk_all(replayer, plan, reader, _Counting(costed.books)):
                done += walk.rows - walk.waiting
                progress(done, plan.requests)
        finally:
            replayer.close_sessions()
        return tuple(_named(reader, book.total()) for book in costed.books.values())


_NAMES = "SELECT audit_id, any_value(name) FROM events WHERE list_contains($ids, audit_id) AND name IS NOT NULL GROUP BY audit_id"


def _named(reader: LakeReader, found: PolicyCost) -> PolicyCost:
    """With the names of the nearest requests' objects, which a replay reads only if a policy does."""
    ids = [each.audit_id for each in found.nearest if not each.name]
    names = dict(reader.connection.execute(_NAMES, {"ids": ids}).fetchall()) if ids else {}
    nearest = (replace(each, name=each.name or names.get(each.audit_id, "")) for each in found.nearest)
    return replace(found, nearest=tuple(nearest))
