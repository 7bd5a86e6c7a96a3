"""One request under rules that are laid over those in force: the stages in their order, each with what the earlier ones left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from queries.reach import Answer as Reached

from ...history.event import Event
from ...history.fitness import UNFIT
from ...history.json_values import json_equal
from ...history.outcome import reach_of_event
from ...matching import Target
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from ..mutating.afterwards import errors_of_schema, of_fields
from ..mutating.chain import Chain
from ..mutating.changes import changes
from ..mutating.invocation import Outcome, Ran
from ..mutating.kinds import KnownKind
from ..mutating.nil_lists import as_json, as_seen
from ..mutating.orders import Outcomes, outcomes_of
from ..mutating.taken import Doubt
from ..mutating.walk import Met
from ..mutating.webhooks_between import as_stored, recorded_between
from ..pod_security.judging import Judge as LevelJudge
from ..pod_security.policy import Mode
from ..pod_security.subject import PODS
from .answer import (
    APPLY,
    AUTHORIZATION,
    DECODING,
    LIMIT_RANGE,
    MUTATING,
    NAMESPACE,
    OTHER,
    POD_SECURITY,
    PRIORITY,
    QUOTA,
    SERVICE_ACCOUNT,
    STORE,
    VALIDATING,
    VALIDATION,
    WEBHOOK,
    Answer,
    Step,
    recorded_answer,
    unknown,
)
from .entered import as_entered
from .final import final_request, stored_object
from .invalid import as_refused, refused_again, refused_by
from .plugins import again, is_pod, limits, quota
from .policies import ValidatingPolicies
from .rules import ChainRules
from .validation.checked import checked
from .validation.rule import Written
from .webhooks import WebhooksBehind

# What given mutating policies leave of a request: that which validating admission gets. AS_IT_WAS: they do not change it. None:
# it does not get there, or this is not known.
AS_IT_WAS: Final = "as it was"
Left: TypeAlias = AdmissionRequest | Literal["as it was"] | None
# Refusals of these come before any mutating policy.
_FIRST = frozenset({AUTHORIZATION, DECODING, NAMESPACE, APPLY, PRIORITY, SERVICE_ACCOUNT})
# What these would say of a changed object is not replayed.
_UNREPLAYED = frozenset({OTHER, WEBHOOK})
_CHANGES_MAX = 200


class ChainJudge:
    """Judges one request after the other."""

    def __init__(
        self,
        rules: ChainRules,
        levels: LevelJudge,
        validating: ValidatingPolicies,
        webhooks: WebhooksBehind,
        before: Callable[[str, Any], Sequence[Chain] | Unknown],
    ) -> None:
        """`before` gives the mutating policies that were in force at a moment; `levels` judges by the given levels.

        `notice` gets each step that lets a request pass, or changes it. `ran` gets what mutating policies did, and `left` what
        given ones leave of the request.
        """
        self.notice: Callable[[Step], None] = lambda step: None
        self.left: Callable[[Left, Answer], None] = lambda left, answer: None
        self.ran: Callable[[Outcome], None] = lambda outcome: None
        self._left: Left = None
        self._rules = rules
        self.levels, self._validating, self.webhooks = levels, validating, webhooks
        self._before = before

    def __call__(self, met: Met) -> tuple[Answer, Answer]:
        """The answer under the rules, and the recorded one."""
        recorded = recorded_answer(met.event)
        return self._answer(met, recorded), recorded

    def _answer(self, met: Met, recorded: Answer) -> Answer:
        ended = reach_of_event(met.event).at("mutating") is Reached.NOT_REACHED
        if ended or recorded.step.partition(":")[0] in _FIRST or _was_missing(met.event, recorded):
            return recorded
        if isinstance(met.chains, Unknown):
            return self._unknown(met.chains.reason)
        if isinstance(met.request, Unknown):
            return self._without_object(met, recorded)
        found = [self._under(met, chain, recorded) for chain in met.chains]
        return _agreed(found)

    def _without_object(self, met: Met, recorded: Answer) -> Answer:
        """The answer where the request is not known: the recorded one, if no given rule is for it."""
        assert isinstance(met.request, Unknown)
        return self._unknown(met.request.reason) if self._may_ask(met) else recorded

    def _unknown(self, why: str) -> Answer:
        """The answer where it is not known what given mutating policies leave."""
        answer = unknown(MUTATING, why)
        self.left(None, answer)
        return answer

    def _under(self, met: Met, chain: Chain, recorded: Answer) -> Answer:
        assert isinstance(met.request, AdmissionRequest)
        if not self._rules.may_change([chain], Target.of(met.request)):
            return self._as_before(met, recorded)
        request = as_entered(met, chain.set.given.over(met.world))
        between, without = recorded_between(met, request.object)
        outcomes = outcomes_of(chain, request, met.world, met.authorize, between, settles=False)
        if not self._is_asked(outcomes):
            return self._as_before(met, recorded)
        before = self._outcome_before(met, request, between)
        if isinstance(before, Unknown):
            return self._unknown(before.reason)
        self._tell_mutations(outcomes.first)
        return _agreed([self._told(met, chain, each, before, without, recorded) for each in outcomes.distinct])

    def _told(self, met: Met, chain: Chain, outcome: Outcome, *of: Any) -> Answer:
        self._left = None
        answer = self._of_outcome(met, chain, outcome, *of)
        self.left(self._left, answer)
        self.ran(outcome)
        return answer

    def _tell_mutations(self, outcome: Outcome) -> None:
        for each in outcome.invocations:
            if each.ran is Ran.APPLIED and each.before is not None and each.after is not None:
                found = tuple(change.value for change in islice(changes(each.before, each.after), _CHANGES_MAX))
                text = f"round {each.round + 1}" if found else "it leaves the object as it is"
                self.notice(Step(f"{MUTATING}:{each.key[0]}", "changed" if found else "admit", text, found))

    def concerns(self, chains: Sequence[Chain], target: Target) -> bool:
        """Whether a given rule may be for requests with a target."""
        is_of_level = bool(self._rules.levels) and (target.resource.group, target.resource.resource) == PODS
        return is_of_level or self._validating.concern(target) or self._rules.may_change(chains, target)

    def _may_ask(self, met: Met) -> bool:
        """Whether a given rule may be for a request about which no more is known."""
        chains = () if isinstance(met.chains, Unknown) else met.chains
        return any(self.concerns(chains, target) for target in met.targets)

    def _is_asked(self, outcomes: Outcomes) -> bool:
        every = (each for found in outcomes.distinct for each in found.invocations)
        return any(each.key[0] in self._rules.changers and (each.is_due or each.ran is not Ran.NOMATCH) for each in every)

    def _outcome_before(self, met: Met, request: AdmissionRequest, between: Any) -> Outcome | Unknown:
        """What the mutating policies in force made of the request."""
        chains = self._before(request.cluster, request.ts)
        if isinstance(chains, Unknown):
            return chains
        return outcomes_of(chains[0], request, met.world, met.authorize, between, settles=False).first

    def _of_outcome(
        self, met: Met, chain: Chain, outcome: Outcome, before: Outcome, entered: Evidence[Object | None], recorded: Answer
    ) -> Answer:
        if outcome.refusal is not None:
            refusal = outcome.refusal
            named = next((each.key[0] for each in outcome.invocations if each.ran is Ran.ERROR), "")
            said = refusal.message or ""
            step = f"{MUTATING}:{_named(said) or named}" if refusal.code == 403 else f"{OTHER}:{refusal.code or 'no answer'}"
            return Answer("deny", refusal.code, refusal.message, step, reason=refusal.reason)
        if isinstance(outcome.object, Unknown):
            return unknown(MUTATING, outcome.object.reason)
        if recorded.step.startswith(MUTATING) and before.refusal is None:
            return unknown(MUTATING, "the log shows a refusal of a mutating policy that its replay does not")
        base = before.object if before.refusal is None else entered
        if isinstance(base, Unknown) or base.value is None or outcome.object.value is None:
            return unknown(MUTATING, base.reason if isinstance(base, Unknown) else "there is no object")
        return self._of_objects(met, chain, as_json(base.value), as_json(as_seen(outcome.object.value)), recorded)

    def _of_objects(self, met: Met, chain: Chain, before: Object, after: Object, recorded: Answer) -> Answer:
        """The answer to a request that leaves mutating policies as `after`, where it left those in force as `before`."""
        request = met.request
        assert isinstance(request, AdmissionRequest)
        stored = as_stored(met)
        if json_equal(before, after):
            if recorded.step.startswith(MUTATING):
                return unknown(MUTATING, "what comes after the refused mutation is not recorded")
            self._left = AS_IT_WAS
            return self._as_before(met, recorded)
        if _is_stale(recorded) or recorded.decision == "unknown":
            return recorded
        if recorded.step.partition(":")[0] in _UNREPLAYED:
            return unknown(recorded.step, "whether the recorded refusal stands for the changed object")
        world = chain.set.given.over(met.world)
        settled = again(request, before, after, world)
        if isinstance(settled, Answer):
            return settled
        if not json_equal(after, settled):
            found = tuple(each.value for each in islice(changes(after, settled), _CHANGES_MAX))
            self.notice(Step("plugins", "changed", "they look at a changed Pod again", found))
        if (refused := self._validation(met, before, settled, recorded)) is not None:
            return refused
        self.notice(Step(VALIDATION, "admit", "it takes the changed fields"))
        final = self._left = final_request(met, before, settled)
        if (refused := limits(request, before, _value(final), world)) is not None:
            return refused
        if recorded.step == LIMIT_RANGE:
            return recorded
        if is_pod(request):
            self.notice(Step(LIMIT_RANGE, "admit"))
        if (refused := self._level(met, final)) is not None:
            return refused
        if is_pod(request):
            self.notice(Step(POD_SECURITY, "admit"))
        if (refused := self._validating.every(met, final)) is not None:
            return refused
        self.notice(Step(VALIDATING, "admit", "no policy in force or in the folder refuses it"))
        if (doubt := self.webhooks.asked(final, world, met.authorize)) is not None:
            return doubt
        if recorded.step in (QUOTA, STORE):
            return recorded
        if (doubt := quota(request, before, _value(final), world)) is not None:
            return doubt
        shown = tuple(each.value for each in islice(changes(stored(before), stored(settled)), _CHANGES_MAX))
        code = recorded.code if recorded.decision == "allow" else 201 if request.operation is Operation.CREATE else 200
        value = stored_object(met, before, settled) if recorded.decision == "allow" else None
        return Answer("allow", code, object=value, changed=shown, grade=_grade(final))

    def _as_before(self, met: Met, recorded: Answer) -> Answer:
        """The answer where mutation leaves the recorded object: given levels and validating policies are asked about it."""
        kind = recorded.step.partition(":")[0]
        came = kind not in _UNREPLAYED or reach_of_event(met.event).at("policies") is Reached.ADMITTED
        if kind in (MUTATING, VALIDATION, LIMIT_RANGE) or not came or _is_stale(recorded):
            return recorded
        final = met.attempt
        if isinstance(final, Unknown):
            return recorded if not self._validating.changed and not self._rules.levels else unknown(VALIDATING, final.reason)
        refused = self._level(met, final) if self._rules.levels else None
        if refused is not None and not (recorded.step == POD_SECURITY and refused.decision == "deny"):
            return refused
        if recorded.step == POD_SECURITY and (refused is not None or not self._rules.levels):
            return recorded
        named = recorded.step.removeprefix(f"{VALIDATING}:")
        if recorded.step.startswith(VALIDATING) and named not in self._validating.changed:
            return recorded
        found = self._validating.given(met, final)
        if found is not None:
            return found
        if recorded.decision != "deny" or kind in (QUOTA, STORE, *_UNREPLAYED):
            return recorded
        others = self._validating.every(met, final)
        if others is not None:
            return others
        return Answer("allow", 201 if final.operation is Operation.CREATE else 200, grade=Grade.INFERRED)

    def _validation(self, met: Met, before: Object, after: Object, recorded: Answer) -> Answer | None:
        """What the built-in validation makes of the changes, as far as it is known."""
        request = met.request
        assert isinstance(request, AdmissionRequest)
        if isinstance(met.kind, Unknown):
            return unknown(VALIDATION, f"the kind of the object: {met.kind.reason}")
        entered = dataclasses.replace(request, object=Known(before, "the object without the given policies"))
        if met.kind.custom is not None and met.event.subresource in ("", "status"):
            return self._of_schema(met.kind, entered, after, recorded)
        doubts: Sequence[Doubt]
        try:
            doubts = of_fields(entered, before, after, met.kind)
        except UNFIT:
            return unknown(VALIDATION, "a part of the object is not of the type that its kind has")
        if met.kind.custom is None and not met.event.subresource:
            old = request.old_object.value if isinstance(request.old_object, Known) else None
            errors, doubts = checked(request.resource, Written(before, after, old), doubts)
            if recorded.step == VALIDATION:
                return refused_again(met, request.resource, Written(before, after, old), recorded, doubts)
            if errors:
                return refused_by(met, errors)
        if doubts:
            return unknown(VALIDATION, "; ".join(map(str, doubts[:3])))
        return as_refused(recorded, before, after) if recorded.step == VALIDATION else None

    def _of_schema(self, kind: KnownKind, entered: AdmissionRequest, after: Object, recorded: Answer) -> Answer | None:
        """What the schema of a custom resource makes of a changed object."""
        before = entered.object.value if isinstance(entered.object, Known) else None
        if recorded.step == VALIDATION and (before is None or errors_of_schema(entered, before, kind) != recorded.message):
            return as_refused(recorded, before or {}, after)
        found = errors_of_schema(entered, after, kind)
        if isinstance(found, Unknown):
            return unknown(VALIDATION, found.reason)
        return Answer("deny", 422, found, VALIDATION, reason="Invalid") if found else None

    def _level(self, met: Met, final: AdmissionRequest) -> Answer | None:
        if (final.resource.group, final.resource.resource) != PODS:
            return None
        enforce = next(iter(self.levels.of_object(met.event, final)), None)
        if enforce is None or enforce.mode is not Mode.ENFORCE:
            return None
        if enforce.decision == "unknown":
            return unknown(POD_SECURITY, enforce.why)
        if enforce.decision != "deny":
            return None
        name = final.name.value if isinstance(final.name, Known) else ""
        text = f'pods "{name}" is forbidden: violates PodSecurity "{enforce.policy}": {enforce.message}'
        return Answer("deny", 403, text, POD_SECURITY, reason="Forbidden", grade=Grade(enforce.evidence))


def _agreed(found: Sequence[Answer]) -> Answer:
    """The common answer of several orders or states; the first where clients see the same decision."""
    first = found[0]
    if all(each.key == first.key for each in found):
        return first
    known = [each for each in found if each.decision != "unknown"]
    if len(known) == len(found) and len({each.decision for each in known}) == 1:
        return first
    return unknown(first.step, "the order of the policies decides it, and the API server does not define an order")


def _was_missing(event: Event, recorded: Answer) -> bool:
    """Whether an update or patch found no object: the server looks before it admits."""
    return recorded.step == STORE and event.code == 404


def _is_stale(recorded: Answer) -> bool:
    """Whether the sent version was not the stored one any more: the server sees it after mutation, before it validates."""
    return recorded.step == STORE and (recorded.message or "").startswith("Operation cannot be fulfilled on ")


def _named(message: str) -> str:
    return message.split("'")[1] if message.startswith("policy '") else ""


def _value(request: AdmissionRequest) -> Object:
    found = request.object
    assert isinstance(found, Known)
    return found.value or {}


def _grade(request: AdmissionRequest) -> str:
    return str(request.object.grade) if isinstance(request.object, Known) else str(Grade.PARTIAL)
