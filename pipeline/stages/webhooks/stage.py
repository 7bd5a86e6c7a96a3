"""The stage of webhooks: given configurations over recorded requests. See the package for what it decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...given import is_namespace
from ...manifests.documents import Document
from ...manifests.stored import stored_versions
from ...policies.compile import CompiledPolicy
from ...policies.model import Policy, look_at_namespaces
from ...policies.refusing import refuse_errors, too_new
from ...requests.authorizers import other_authorizers
from ...row import Row
from ...runs.plan import PlannedRule, plain
from ...runs.verdicts import JudgedPass
from ...runs.window import Window, stretches
from ..grouped import GroupedPlan, GroupedStage, Judging
from ..in_force import GivenChain
from ..stage import Asked, Kind
from .calling import Call
from .decode import configuration_from_object, configurations_of
from .model import GROUP, AsRecorded, Chain, Configuration, Phase, Rules, conditions_of
from .readiness import WebhookReadiness
from .sql import statement
from .trace import Trace
from .verdicts import NAME, recorded_of, row_of
from .walk import Walk

# A part with fewer requests is not worth its reading of their history.
_RECORDS_MIN = 10_000


class Webhooks(GroupedStage[Rules]):
    """See stage.Stage. It says which webhooks are called; what they would answer is not known."""

    name = NAME
    kinds = frozenset(Kind(GROUP, phase.kind) for phase in Phase)
    readiness = WebhookReadiness()

    def read(self, documents: Sequence[Document]) -> Rules:
        """See stage.Stage."""
        return configurations_of(documents)

    def uses(self, rules: Rules, document: Document) -> bool:
        """See stage.Stage: Namespaces stand in for recorded ones."""
        if isinstance(rules, AsRecorded) or not is_namespace(document):
            return False
        return look_at_namespaces([conditions_of(each, hook) for each in rules for hook in each.webhooks], ())

    def describe(self, rules: Rules) -> Any:
        """See GroupedStage."""
        if isinstance(rules, AsRecorded):
            return rules.value
        found = plain(rules)
        for each in found:
            if not each["namespaces"]:
                del each["namespaces"]  # kept runs of rules without any have the same name
        return found

    def groups(self, reader: LakeReader, rules: Rules, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        if not isinstance(rules, AsRecorded):
            refuse_errors([each for one in rules for each in too_new_conditions(one, asked.kubernetes_version, reader)])
        walk = Walk(reader, asked.window, _chains(rules, asked.kubernetes_version), asked.kubernetes_version, is_plan=True)
        counts: Counter[tuple[str, str]] = Counter()
        for item in walk.classes:
            hooks = {hook for chain in walk.chains.every for target in item.targets() for hook in chain.candidates(target)}
            counts.update(dict.fromkeys(((hook.configuration, hook.webhook.name) for hook in hooks), item.requests))
        names = dict.fromkeys((hook.configuration, hook.webhook.name) for chain in walk.chains.every for hook in chain.webhooks)
        found = [PlannedRule(configuration, name, (), counts[configuration, name]) for configuration, name in names]
        return found, walk.requests, walk.excluded

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def judging(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judging:
        """See GroupedStage."""
        return _Calls(reader, plan)


def too_new_conditions(configuration: Configuration, version: tuple[int, int], reader: LakeReader) -> list[tuple[str, str]]:
    """Where match conditions stand that an API server takes only if they are stored, and the lake does not show that."""

    def stored() -> list[Policy]:
        known = stored_versions(reader, GROUP, configuration.phase.kind, configuration.name, configuration_from_object)
        return [conditions_of(one, each) for one in known for each in one.webhooks]

    was_read = bool((configuration.written.get("metadata") or {}).get("resourceVersion"))
    own = [conditions_of(configuration, each) for each in configuration.webhooks]
    found = (each for one in own for each in too_new(CompiledPolicy, one, version, stored, was_read))
    return [(each.source, each.error) for each in found]


def _chains(rules: Rules, version: tuple[int, int]) -> GivenChain[Chain] | None:
    return None if isinstance(rules, AsRecorded) else GivenChain(Chain(rules, version))


class _Calls(Judging):
    """See Judging. Many calls get equal verdicts."""

    asks = True

    def __init__(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> None:
        self._reader, self._plan = reader, plan
        chains = _chains(plan.rules, plan.kubernetes_version)
        self._walk = Walk(reader, plan.window, chains, plan.kubernetes_version, dict(plan.other_authorizers))
        self._plain: dict[int, Sequence[Row]] = {}
        self._by_call: dict[tuple[Hashable, ...], Row] = {}

    def questions(self) -> str:
        """See Judging."""
        for each in self._walk.plain():
            self._plain[each.number] = self._rows(each.calls, each.subject.trace, each.subject.reach.outcome != "allowed")
        return statement("passes")

    def answer(self, question: Mapping[str, Any]) -> Sequence[Row]:
        """See Judging."""
        return self._plain[question["number"]]

    def stretches(self) -> Sequence[Window]:
        """See Judging."""
        return stretches(self._reader, self._walk.window, self._plan.parts(self._walk.records, _RECORDS_MIN))

    def records(self, stretch: Window) -> Iterator[JudgedPass]:
        """See Judging."""
        for each in self._walk.by_record(stretch):
            yield each[:5], self._rows(each.calls, each.trace, each.event.code >= 400)

    def _rows(self, calls: Sequence[Call], trace: Trace, was_refused: bool) -> Sequence[Row]:
        return [self._row(call, trace, was_refused) for call in calls]

    def _row(self, call: Call, trace: Trace, was_refused: bool) -> Row:
        hook = call.hook
        recorded = recorded_of(call, trace)
        # The place of a webhook is quicker to hash than the webhook.
        told = trace.would_deny.get(hook.webhook.name, "")
        key = (hook.phase, hook.place, hook.webhook.name, *call[1:], recorded, told, was_refused)
        if key not in self._by_call:
            self._by_call[key] = row_of(call, recorded, told, was_refused)
        return self._by_call[key]
