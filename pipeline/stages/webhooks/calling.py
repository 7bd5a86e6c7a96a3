"""Whether each webhook of a chain is called for one request.

Follows kubernetes/apiserver pkg/admission/plugin/webhook/generic/webhook.go (ShouldCallHook) and the two dispatchers. A webhook is
judged against what really happened: the patches and refusals of the log, not those that other given webhooks might have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from queries.reach import Reach

from ...admission.policies.evaluate import Case, evaluate_policy
from ...admission.policies.inputs import AuthorizeUser, Inputs
from ...admission.policies.model import FailurePolicy
from ...admission.policies.verdict import INSUFFICIENT, Decision
from ...history.event import Event
from ...matching import Conversion, Target
from ...request import AdmissionRequest, Grade, GroupVersionResource, Unknown, worst
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

    `second` says whether the webhook is called again in the second round; None where there is no such round for it.
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


class Subject(NamedTuple):
    """One pass of a request, as the record shows it. `event` is None where no webhook looks at more than resource and namespace.

    `changes_again`: built-in plugins or mutating policies may change the object in the second round.
    """

    request: AdmissionRequest
    trace: Trace
    reach: Reach
    event: Event | None = None
    changes_again: bool = False


def calls_of(chain: Chain, subject: Subject, world: World, authorize: AuthorizeUser | None = None) -> list[Call]:
    """The decision about every webhook whose rules match the resource and operation of a request, in the order of calls."""
    target = Target.of(subject.request)
    hooks = chain.candidates(target)
    if not hooks:
        return []
    arrival = Arrival(chain, subject.trace, subject.reach)
    so_far = SoFar(chain, subject.request, subject.event, subject.trace)
    ask = partial(_match, target=target, world=world, authorize=authorize)
    calls = list(_first_round(hooks, subject, arrival, so_far, ask))
    return [_with_second_round(call, calls, chain, subject, arrival, so_far, ask) for call in calls]


_Ask = Callable[[CompiledWebhook, AdmissionRequest], Call | None]


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


def _match(
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
        inputs = Inputs(request, world, authorize, managed_fields=hook.conditions.reads_managed_fields)
        own = match.matched_resource == request.resource
        whole = evaluate_policy(Case(hook.conditions, inputs, None if own else match, None)).whole
        grade = worst(grade, inputs.grade(hook.conditions.all_roots))
        if whole is not None and whole.decision is Decision.UNKNOWN:
            return Call(hook, Called.UNKNOWN, whole.why, INSUFFICIENT)
        if whole is not None and whole.decision is Decision.NOMATCH:
            return Call(hook, Called.NOMATCH, whole.why, grade)
        if whole is not None:
            return Call(hook, Called.ERROR, whole.why, grade, whole.message or "", 403)
    return _dry_run(hook, request) or Call(
        hook, Called.CALLED, "", grade, resource=match.matched_resource, conversion=match.conversion
    )


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


def _with_second_round(
    call: Call, calls: list[Call], chain: Chain, subject: Subject, arrival: Arrival, so_far: SoFar, ask: _Ask
) -> Call:
    """The call with its repetition: a webhook with reinvocationPolicy IfNeeded is called again after a later change."""
    hook = call.hook
    if hook.phase is not Phase.MUTATING or call.decision is not Called.CALLED or hook.webhook.reinvocation != "IfNeeded":
        return call
    others = [other.hook for other in calls if other.decision in (Called.CALLED, Called.UNKNOWN)]
    needed = second_round(chain, hook, others, subject.trace, arrival.passed_mutating, subject.changes_again)
    if needed is not True:
        return call._replace(second=needed)
    again = ask(hook, so_far.before(hook, 1))
    if again is None or again.decision is Called.NOMATCH:
        return call._replace(second=False)
    return call._replace(second=Unknown(again.why) if again.decision is Called.UNKNOWN else again.decision is Called.CALLED)
