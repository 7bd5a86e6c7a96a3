"""The stage of mutating policies: given policies over recorded requests. See the package for what it decides."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...given import is_namespace, meaning_of
from ...manifests.documents import Document
from ...policies.dispatch import CompiledSet, compile_set
from ...policies.model import look_at_namespaces
from ...policies.refusing import refuse_errors
from ...request import AdmissionRequest, Known, Unknown
from ...requests.authorizers import other_authorizers
from ...runs.executors import Executor
from ...runs.plan import PlannedRule, plain
from ...runs.running import Doubts
from ...runs.verdicts import JudgedPass
from ...runs.window import Window, stretches
from ..grouped import GroupedPlan, GroupedStage, Judging
from ..in_force import GivenChain
from ..stage import Asked, Kind
from ..validating.decode import GROUP
from .afterwards import Later, judge_later
from .chain import Chain
from .compiled import too_new_expressions
from .creates import AlikeCreates, Judged
from .decided import doubts_of
from .decode import BINDING, POLICY, rules_of
from .kinds import DEFINITION
from .model import MutatingRules
from .orders import outcomes_of
from .readiness import MutatingReadiness
from .verdicts import STAGE, recorded_of, unknown_request, verdicts_of
from .walk import Met, Walk
from .webhooks_between import as_stored, recorded_between

# A part with fewer requests is not worth its reading of their history.
_REQUESTS_MIN = 500
# Kept runs of versions that took every mutation for admitted are not read again.
_JUDGED = "with the whole of admission behind it"


class Mutating(GroupedStage[MutatingRules]):
    """See stage.Stage. It says what mutating policies would have made of each object, in every order that can matter."""

    name = STAGE
    kinds = frozenset((Kind(GROUP, POLICY), Kind(GROUP, BINDING)))
    readiness = MutatingReadiness()

    def read(self, documents: Sequence[Document]) -> MutatingRules:
        """See stage.Stage."""
        return rules_of(documents)

    def uses(self, rules: MutatingRules, document: Document) -> bool:
        """See stage.Stage: params, Namespaces, and the definitions of custom resources, whose schemas say how objects merge."""
        kind = document.value.get("kind")
        own = [each.rules for each in rules.policies]
        if is_namespace(document) and look_at_namespaces(own, rules.bindings, rules.policies):
            return True
        params = {each.rules.param_kind.kind for each in rules.policies if each.rules.param_kind is not None}
        return kind == DEFINITION.kind or kind in params

    def describe(self, rules: MutatingRules) -> Any:
        """See GroupedStage."""
        return plain(rules)

    def plan(self, reader: LakeReader, rules: MutatingRules, asked: Asked) -> GroupedPlan[MutatingRules]:
        """See stage.Stage."""
        plan = super().plan(reader, rules, asked)
        how = {"with_objects": asked.with_objects, "judged": _JUDGED} | meaning_of(rules.objects)
        return dataclasses.replace(plan, manifests={"rules": plan.manifests} | how)

    def groups(
        self, reader: LakeReader, rules: MutatingRules, asked: Asked
    ) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        refuse_errors(too_new_expressions(rules.policies, asked.kubernetes_version, reader))
        chain = Chain(rules, asked.kubernetes_version)
        walk = Walk(reader, asked.window, GivenChain(chain), asked.kubernetes_version)
        counts: Counter[tuple[str, str | None]] = Counter()
        for item in walk.classes:
            met = {
                (candidate.entry.policy.policy.name, bound.subject.names[1])
                for target in item.targets()
                for candidate in chain.set.candidates(target)
                for bound in candidate.entry.bound
            }
            counts.update(dict.fromkeys(met, item.requests))
        names = [(entry.policy.policy.name, bound.subject.names[1]) for entry in chain.set.entries for bound in entry.bound]
        return [PlannedRule(*each, (), counts[each]) for each in names], walk.requests, walk.excluded

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def doubts(self, plan: GroupedPlan[MutatingRules], lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
        """See PlannedStage: requests whose mutated object a later stage might refuse."""
        return doubts_of(plan, lake, workers, executor)

    def judging(self, reader: LakeReader, plan: GroupedPlan[MutatingRules]) -> Judging:
        """See GroupedStage."""
        return _Writes(reader, plan)


class _Writes(Judging):
    """See Judging. Requests differ in their objects: each is judged by itself, but for new objects that are alike."""

    def __init__(self, reader: LakeReader, plan: GroupedPlan[MutatingRules]) -> None:
        self._reader, self._plan = reader, plan
        chain = Chain(plan.rules, plan.kubernetes_version)
        self._walk = Walk(reader, plan.window, GivenChain(chain), plan.kubernetes_version, dict(plan.other_authorizers))
        given = None if plan.replaces_all else frozenset(each.name for each in plan.rules.policies)
        later, with_objects = compile_set(plan.rules.later, plan.kubernetes_version), plan.manifests["with_objects"]
        # Objects in the rows have their names.
        shares = self._walk.is_steady and not with_objects
        self._judge = AlikeCreates(Judge(later, with_objects, given), chain, (later, self._walk.validating), shares=shares)

    def stretches(self) -> Sequence[Window]:
        """See Judging."""
        return stretches(self._reader, self._walk.window, self._plan.parts(self._walk.requests, _REQUESTS_MIN))

    def records(self, stretch: Window) -> Iterator[JudgedPass]:
        """See Judging."""
        for each in self._walk.judged(self._judge.rows, stretch):
            event = each.event
            yield (event.cluster, event.audit_id, event.ts, event.stage_ts, each.pass_index), each.verdict


def concerned(met: Met, chain: Chain) -> Sequence[tuple[str, str | None]]:
    """The policies and bindings whose rules are for a request about which no more is known."""
    names: dict[tuple[str, str | None], None] = {}
    for target in met.targets:
        for candidate in chain.set.candidates(target):
            for bound in candidate.entry.bound:
                names[candidate.entry.policy.policy.name, bound.subject.names[1]] = None
    return list(names)


class Judge:
    """Judges one request under one chain."""

    def __init__(self, later: CompiledSet, with_objects: bool, given: frozenset[str] | None) -> None:
        """`given` are the names of the given policies; None where these replace all others."""
        self._later = later
        self._given = given
        self._with_objects = with_objects

    def __call__(self, met: Met) -> Judged:
        if isinstance(met.chains, Unknown):
            return Judged([unknown_request(met.chains.reason)])
        request, chain = met.request, met.chains[0]
        if isinstance(request, Unknown):
            return Judged([unknown_request(request.reason, concerned(met, chain))])
        if met.unreached:
            return Judged([unknown_request(f"whether it reached mutating policies: {met.unreached}", concerned(met, chain))])
        between, without = recorded_between(met, request.object)
        outcomes = outcomes_of(chain, request, met.world, met.authorize, between)
        later = self._judge_later(met, dataclasses.replace(request, object=without), chain, outcomes.first.object)
        rows = verdicts_of(outcomes, without, recorded_of(met.event, self._given), later, self._with_objects, as_stored(met))
        return Judged(rows, outcomes, without)

    def _judge_later(self, met: Met, request: AdmissionRequest, chain: Chain, changed: Any) -> Later:
        if not isinstance(changed, Known) or changed.value is None or changed == request.object:
            return Later()
        world = chain.set.given.over(met.world)
        return judge_later(request, met, changed.value, self._later, world, chain.version[1])
