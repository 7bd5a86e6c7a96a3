"""Why a webhook would be called for one recorded request, or why not: the verdict of a replay, step by step.

The steps are those of the server: rules, selectors, match conditions, whether the request came that far, and the second round.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import ExplainedPolicy, Explanation, Fact, NotExplained
from ...explaining.missing import explained
from ...explaining.shown import Shown, condition_words, fields_of, framed, labels_text, missing_of, resource_text
from ...history.event import Event
from ...matching import Conversion, LabelSelector, Match, Target
from ...policies.evaluate import Case
from ...policies.inputs import Inputs
from ...policies.trace import trace_conditions
from ...request import AdmissionRequest, Evidence, Object, Unknown
from ...world import World
from ..in_force import GivenChain
from .calling import Call, Called
from .model import AsRecorded, Chain, CompiledWebhook, Phase, Rules, is_never_sent
from .so_far import SoFar
from .trace import Trace
from .verdicts import NAME, recorded_of, row_of
from .walk import Pass, Walk

_RANK = {Called.ERROR: 0, Called.CALLED: 1, Called.UNKNOWN: 2, Called.UNREACHED: 3, Called.NOMATCH: 4}


def explain_webhooks(reader: LakeReader, rules: Rules, asked: Asked) -> list[Explanation | NotExplained]:
    """The explanation of each pass of the request, under given webhooks or those that the log shows in force at its time."""
    chains = None if isinstance(rules, AsRecorded) else GivenChain(Chain(rules, asked.version))
    walk = Walk(reader, asked.moment, chains, asked.version, asked.other_authorizers, reads_all=True)
    passes = [each for each in walk.by_record() if (each.cluster, each.audit_id) == (asked.cluster, asked.audit_id)]
    found: list[Explanation | NotExplained] = []
    for each in passes:
        if isinstance(each.request, Unknown):
            reason = each.request.reason
            found.append(NotExplained(asked.cluster, asked.audit_id, each.ts, reason, explained(reason).remedy))
        else:
            found.append(_OfPass(walk, each, each.request, asked).explanation(len(passes)))
    return found


class _OfPass:
    """Explains the webhooks of one pass of one request."""

    def __init__(self, walk: Walk, found: Pass, request: AdmissionRequest, asked: Asked) -> None:
        self._found = found
        self._request = request
        self._asked = asked
        self._shown = Shown(asked.redaction, request)
        self._authorize = walk.authorizer(request.cluster, request.ts)
        chains = walk.chains.at(request.cluster, request.ts)
        self._chain = Chain((), asked.version) if isinstance(chains, Unknown) else chains[0]
        self._world: World = self._chain.given.over(walk.world(request.cluster, request.ts))

    def explanation(self, passes: int) -> Explanation:
        """All webhooks of the chain, in the order of calls; those that would be called come first."""
        entries = sorted(self._entries(), key=lambda each: _RANK[Called(each.decision)])
        request, shown = self._request, self._shown
        pieces = [shown.piece("object", request.object), shown.piece("oldObject", request.old_object)]
        if request.namespace and request.resource.resource != "namespaces":
            pieces.append(shown.piece("namespaceObject", self._world.namespace(request.namespace)))
        return framed(self._found.event, request, passes, shown, pieces, entries, NAME)

    def _entries(self) -> Iterator[ExplainedPolicy]:
        calls = {(call.hook.phase, call.hook.place): call for call in self._found.calls}
        for hook in self._chain.webhooks:
            if self._asked.wants(hook.configuration, hook.webhook.name, f"{hook.configuration}/{hook.webhook.name}"):
                call = calls.get((hook.phase, hook.place))
                yield self._without_rule(hook) if call is None else self._entry(call)

    def _without_rule(self, hook: CompiledWebhook) -> ExplainedPolicy:
        request = self._request
        target = Target.of(request)
        if is_never_sent(request.resource, self._chain.version):
            why = f"the API server sends no {resource_text(request)} to webhooks"
        elif not hook.webhook.criteria.resource_rules:
            why = "it has no rules"
        else:
            why = hook.matcher.match(request, target, self._world).why
        facts = (Fact("phase", str(hook.phase)),)
        return ExplainedPolicy(hook.configuration, hook.webhook.name, (), "nomatch", "", False, "", why, "", facts=facts)

    def _entry(self, call: Call) -> ExplainedPolicy:
        hook, trace, event = call.hook, self._found.trace, self._found.event
        recorded = recorded_of(call, trace)
        row = row_of(call, recorded, trace.would_deny.get(hook.webhook.name, ""), event.code >= 400)
        met = self._met(hook, event, trace)
        match = hook.matcher.match(met, Target.of(met), self._world)
        own = match.matched_resource in (None, met.resource)
        inputs = partial(Inputs, met, self._world, self._authorize, managed_fields=hook.conditions.reads_managed_fields)
        case = Case(hook.conditions, inputs(is_mutating=hook.phase is Phase.MUTATING), None if own else match, None)
        is_asked = match.matched is True and bool(hook.webhook.match_conditions)
        conditions = tuple(self._shown.expression(each, condition_words(each)) for each in trace_conditions(case)[0] if is_asked)
        decisive = [each for each in conditions if each.decision != "true"] or conditions
        unknown = [call.why] if call.decision is Called.UNKNOWN else []
        if isinstance(call.second, Unknown):
            unknown.append(call.second.reason)
        return ExplainedPolicy(
            policy=hook.configuration,
            binding=hook.webhook.name,
            actions=(),
            decision=str(call.decision),
            effect=row.effect or "",
            rejects=row.effect == "deny",
            message=self._shown.text(row.message or ""),
            why=self._shown.text(call.why),
            evidence=str(call.evidence),
            conditions=conditions,
            fields=fields_of(decisive, ()),
            missing=missing_of(unknown),
            facts=tuple(self._facts(call, met, match, recorded)),
        )

    def _met(self, hook: CompiledWebhook, event: Event, trace: Trace) -> AdmissionRequest:
        """The request as the webhook met it: mutating webhooks see the changes of those before them."""
        if hook.phase is Phase.VALIDATING:
            return self._request
        return SoFar(self._chain, self._request, event, trace).before(hook, 0)

    def _facts(self, call: Call, met: AdmissionRequest, match: Match, recorded: str | None) -> Iterator[Fact]:
        hook = call.hook
        criteria = hook.webhook.criteria
        yield Fact("phase", str(hook.phase))
        yield Fact("rules", self._rules(hook, call, match))
        if _reads(criteria.namespace_selector) and met.namespace:
            namespace = met.object if met.resource.resource == "namespaces" else self._world.namespace(met.namespace)
            yield Fact("namespace", f"namespaceSelector reads {self._labels(namespace)}")
        if _reads(criteria.object_selector):
            old = f"; the old object has {self._labels(met.old_object)}" if met.operation.value == "UPDATE" else ""
            yield Fact("object", f"objectSelector reads {self._labels(met.object)}{old}")
        if call.decision is Called.UNREACHED:
            yield Fact("reached", f"no: {self._shown.text(call.why)}")
        elif call.decision is Called.CALLED:
            yield Fact("reached", "yes")
        if isinstance(call.second, bool):
            yield Fact("again", "it is called again in the second round" if call.second else "it is not called in a second round")
        if recorded or call.unanswered:
            yield Fact("log", f"the log says: {recorded}" if recorded else f"the log says nothing of it: {call.unanswered}")

    def _rules(self, hook: CompiledWebhook, call: Call, match: Match) -> str:
        target = Target.of(self._request)
        if match.why.startswith(("resourceRules", "excludeResourceRules")):
            return match.why
        if call.conversion is not Conversion.NONE and call.resource is not None:
            target = target._replace(resource=call.resource)
            more = ", so that the webhook receives that version (matchPolicy Equivalent)"
        else:
            more = ""
        rules = hook.webhook.criteria.resource_rules
        place = next((index for index, rule in enumerate(rules) if rule.mismatch(target) is None), None)
        return f"{target} matches a rule" if place is None else f"rules[{place}] matches {target}{more}"

    def _labels(self, found: Evidence[Object | None]) -> str:
        if isinstance(found, Unknown):
            return f"unknown labels: {found.reason}"
        return self._shown.text(labels_text(found.value)) if found.value is not None else "no object"


def _reads(selector: LabelSelector | None) -> bool:
    return bool(selector and selector.requirements)
