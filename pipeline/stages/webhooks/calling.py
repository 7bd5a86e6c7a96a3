"""Whether each webhook of a chain is called for one request.

Follows kubernetes/apiserver pkg/admission/plugin/webhook/generic/webhook.go (ShouldCallHook) and the two dispatchers. A webhook is
judged against what really happened: the patches and refusals of the log, not those that other given webhooks might have made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeAlias

from queries.reach import Answer, Reach

from ...authorization import AuthorizeUser
from ...history.event import Event
from ...matching import Conversion, Target
from ...policies.evaluate import Case, evaluate_policy
from ...policies.inputs import Inputs
from ...policies.model import FailurePolicy
from ...policies.verdict import Decision
from ...request import AdmissionRequest, Grade, GroupVersionResource, Known, Unknown, worst
from ...row import INSUFFICIENT
from ...world import World
from .model import Chain, CompiledWebhook, Phase
from .reached import Arrival
from .rounds import second_round
from .so_far import SoFar
from .trace import Trace


class Called(StrEnum):
    """What a webhook meets."""

    CALLED = "called"
    NOMATCH = "nomatch"  # a selector or a match condition says no
    UNREACHED = "unreached"  # it matches, and the request ended before it
    ERROR = "error"  # the server refuses the request, or goes on under failurePolicy Ignore, without a call
    UNKNOWN = "unknown"


class Call(NamedTuple):
    """The decision about one webhook. `code` is set if the request is rejected without a call, with `message` in server words.

    `second` says whether the webhook is called again in the second round; None where there is no such round for it. `has_admitted`
    says that a validating webhook of this name was called for the recorded request, and let it pass. Where the log may lack the
    answer, `unanswered` says why. `is_namesake`: another configuration had a webhook of this name then, and this one had not.
    `passes` says how often the store asked it about one delete, at least; `more_passes` why it may have asked once more.
    """

    hook: CompiledWebhook
    decision: Called
    why: str = ""
    evidence: str = Grade.EXACT
    message: str = ""
    code: int | None = None
    resource: GroupVersionResource | None = None
    conversion: Conversion = Conversion.NONE
    second: bool | Unknown | None = None
    has_admitted: bool = False
    unanswered: str = ""
    is_namesake: bool = False
    passes: int = 1
    more_passes: str = ""


class Subject(NamedTuple):
    """One pass of a request, as the record shows it. `event` is None where no webhook looks at more than resource and namespace.

    `changes_again`: built-in plugins or mutating policies may change the object in the second round. `in_force` is the chain that
    the log shows at that time; None where it is unknown or was just changed.
    """

    request: AdmissionRequest
    trace: Trace
    reach: Reach
    event: Event | None = None
    changes_again: bool = False
    in_force: Chain | None = None


# What webhooks that do not look into requests say, by all that they look at.
Remembered: TypeAlias = dict[tuple[Hashable, ...], "Call | None"]


def calls_of(
    chain: Chain, subject: Subject, world: World, authorize: AuthorizeUser | None = None, remembered: Remembered | None = None
) -> list[Call]:
    """The decision about every webhook whose rules match the resource and operation of a request, in the order of calls.

    `remembered` holds what webhooks said of other requests in the same world.
    """
    target = Target.of(subject.request)
    hooks = chain.candidates(target)
    if not hooks:
        return []
    world = chain.given.over(world)
    so_far = SoFar(chain, subject.request, subject.event, subject.trace)
    match = partial(match_webhook, target=target, world=world, authorize=authorize)
    ask = match if remembered is None else partial(_remember, match=match, target=target, remembered=remembered)
    arrival = Arrival(chain, subject.trace, _reach(subject, target, ask))
    calls = list(_first_round(hooks, subject, arrival, so_far, ask))
    calls = [_with_answer(call, subject, target, ask) for call in calls]
    return [_with_second_round(call, calls, chain, subject, arrival, so_far, ask) for call in calls]


_Ask = Callable[[CompiledWebhook, AdmissionRequest], Call | None]
# A request that runs into its deadline leaves no annotation of webhooks, though some were called.
_WITHOUT_ANNOTATIONS = frozenset({"timeout", "open"})


def _reach(subject: Subject, target: Target, ask: _Ask) -> Reach:
    """The reach of a request. Every attempt to call a mutating webhook leaves an annotation: without one that a registered webhook
    would have left, the request ended before mutating webhooks."""
    reach, trace = subject.reach, subject.trace
    is_open = reach.at("mutating") is Answer.UNKNOWN and reach.outcome not in _WITHOUT_ANNOTATIONS
    if subject.in_force is None or trace.attempts or not is_open:
        return reach
    first = (hook for hook in subject.in_force.candidates(target) if hook.phase is Phase.MUTATING)
    calls = (ask(hook, subject.request) for hook in first)
    if any(call is not None and call.decision is Called.CALLED and call.evidence == Grade.EXACT for call in calls):
        return replace(reach, stopped="target", why="it ended before a registered mutating webhook was called")
    return reach


def _first_round(
    hooks: tuple[CompiledWebhook, ...], subject: Subject, arrival: Arrival, so_far: SoFar, ask: _Ask
) -> Iterator[Call]:
    for hook in hooks:
        request = so_far.before(hook, 0) if hook.phase is Phase.MUTATING else subject.request
        call = ask(hook, request)
        if call is None:
            continue
        if call.decision not in (Called.NOMATCH,):
            reached = arrival.at(hook)
            if reached.answer is False:
                call = Call(hook, Called.UNREACHED, reached.why)
            elif isinstance(reached.answer, Unknown):
                call = Call(hook, Called.UNKNOWN, reached.answer.reason, INSUFFICIENT)
        yield call


def _remember(hook: CompiledWebhook, request: AdmissionRequest, match: _Ask, target: Target, remembered: Remembered) -> Call | None:
    """As `match_webhook`, which is asked once for equal requests where the webhook does not look into them."""
    if hook.reads_record(target):
        return match(hook, request)
    key = (hook, target, request.namespace, request.dry_run)
    if key not in remembered:
        remembered[key] = match(hook, request)
    return remembered[key]


def match_webhook(
    hook: CompiledWebhook, request: AdmissionRequest, target: Target, world: World, authorize: AuthorizeUser | None
) -> Call | None:
    """The decision by rules, selectors and conditions; None if the rules do not match."""
    match = hook.matcher.match(request, target, world)
    if match.matched is False:
        if match.error:
            return Call(hook, Called.ERROR, "namespaceSelector", match.grade, match.error, 404)
        return None if match.why.startswith("resourceRules") else Call(hook, Called.NOMATCH, match.why, match.grade)
    if isinstance(match.matched, Unknown):
        return Call(hook, Called.UNKNOWN, match.why, INSUFFICIENT)
    grade = match.grade
    if hook.webhook.match_conditions:
        is_mutating = hook.phase is Phase.MUTATING
        reads_managed = hook.conditions.reads_managed_fields
        inputs = Inputs(request, world, authorize, managed_fields=reads_managed, is_mutating=is_mutating)
        own = match.matched_resource == request.resource
        whole = evaluate_policy(Case(hook.conditions, inputs, None if own else match, None)).whole
        grade = worst(grade, inputs.grade(hook.conditions.all_roots))
        if whole is not None and whole.decision is Decision.UNKNOWN:
            return Call(hook, Called.UNKNOWN, whole.why, INSUFFICIENT)
        if whole is not None and whole.decision is Decision.NOMATCH:
            return Call(hook, Called.NOMATCH, whole.why, grade)
        if whole is not None:
            return Call(hook, Called.ERROR, whole.why, grade, _forbidden(request, whole.message or ""), 403)
    return _dry_run(hook, request) or Call(
        hook, Called.CALLED, "", grade, resource=match.matched_resource, conversion=match.conversion
    )


def _forbidden(request: AdmissionRequest, message: str) -> str:
    """The refusal of a failed match condition, in the words of apimachinery pkg/api/errors (NewForbidden)."""
    resource = f"{request.resource.resource}.{request.resource.group}".rstrip(".")
    name = f' "{request.name.value}"' if isinstance(request.name, Known) and request.name.value else ""
    return f"{resource}{name} is forbidden: {message}"


def _dry_run(hook: CompiledWebhook, request: AdmissionRequest) -> Call | None:
    """The refusal of a dry run by a webhook with side effects, whatever failurePolicy says; None if the webhook is called."""
    effects = hook.webhook.side_effects
    if effects in ("None", "NoneOnDryRun") or request.dry_run is False:
        return None
    if isinstance(request.dry_run, Unknown):
        return Call(hook, Called.UNKNOWN, f"whether it was a dry run: {request.dry_run.reason}", INSUFFICIENT)
    if effects:
        message = f'admission webhook "{hook.webhook.name}" does not support dry run'
        return Call(hook, Called.ERROR, f"sideEffects: {effects}", Grade.EXACT, message, 400)
    is_ignored = hook.webhook.failure_policy is FailurePolicy.IGNORE
    return Call(hook, Called.ERROR, "sideEffects is not set", Grade.EXACT, code=None if is_ignored else 500)


_UNREGISTERED = "the webhook was not registered then, so the log does not show what it would answer"
_OTHERWISE = "the webhook was registered then with other rules, selectors or conditions, and was not called"
_UNSURE = "which webhooks were registered then is unknown, or was just changed, so the log may lack its answer"
_NO_TRACE = "the webhook was called, and the log does not show its answer"


def _with_answer(call: Call, subject: Subject, target: Target, ask: _Ask) -> Call:
    """The call with the recorded answer: a validating webhook that was called for a request which passed has admitted it."""
    hook, in_force = call.hook, subject.in_force
    if call.decision is not Called.CALLED:
        return call
    if in_force is None:
        return call._replace(unanswered=_UNSURE)
    registered = in_force.named(hook.phase, hook.configuration, hook.webhook.name)
    if registered is None:
        return call._replace(unanswered=_UNREGISTERED, is_namesake=in_force.has_named(hook.phase, hook.webhook.name))
    if hook.phase is Phase.MUTATING:
        # Each attempt to call one leaves an annotation.
        return call._replace(unanswered=_OTHERWISE)
    if registered is not hook:
        own = ask(registered, subject.request) if registered in in_force.candidates(target) else None
        if own is None or own.decision is not Called.CALLED:
            return call._replace(unanswered=_OTHERWISE)
    passed = subject.reach.at("webhooks") is Answer.ADMITTED
    has_failed = (hook.phase, hook.webhook.name) in subject.trace.failed_open
    return call._replace(has_admitted=True) if passed and not has_failed else call._replace(unanswered=_NO_TRACE)


def _with_second_round(
    call: Call, calls: list[Call], chain: Chain, subject: Subject, arrival: Arrival, so_far: SoFar, ask: _Ask
) -> Call:
    """The call with its repetition: a webhook with reinvocationPolicy IfNeeded is called again after a later change."""
    hook = call.hook
    if hook.phase is not Phase.MUTATING or call.decision is not Called.CALLED or hook.webhook.reinvocation != "IfNeeded":
        return call
    others = [other.hook for other in calls if other.decision in (Called.CALLED, Called.UNKNOWN)]
    was_in_force = subject.in_force is not None and subject.in_force.holds(hook)
    needed = second_round(chain, hook, others, subject.trace, arrival.passed_mutating, subject.changes_again, was_in_force)
    if needed is not True:
        return call._replace(second=needed)
    again = ask(hook, so_far.before(hook, 1))
    if again is None or again.decision is Called.NOMATCH:
        return call._replace(second=False)
    return call._replace(second=Unknown(again.why) if again.decision is Called.UNKNOWN else again.decision is Called.CALLED)
