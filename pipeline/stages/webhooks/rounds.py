"""The second round of mutating webhooks.

The chain runs a second time if a webhook changed the object. A webhook with reinvocationPolicy IfNeeded is called again if the
object changed after its call; its own change does not count. Follows kubernetes/apiserver pkg/admission/reinvocation.go and
pkg/admission/plugin/webhook/mutating/reinvocationcontext.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...request import Unknown
from .model import Chain, CompiledWebhook, Phase, Place
from .trace import Attempt, Trace

_NEW = "it is not known whether given webhooks that were not called then would have changed the object"


def second_round(
    chain: Chain,
    hook: CompiledWebhook,
    called: Iterable[CompiledWebhook],
    trace: Trace,
    passed: bool | None,
    changes_again: bool,
    was_in_force: bool = False,
) -> bool | Unknown:
    """Whether a webhook with IfNeeded that was called in the first round is due in the second, if it matches there.

    `called` are the given webhooks of the first round. `passed`: all of mutating admission ended without a refusal (None: unknown).
    `was_in_force`: the same webhook was registered then, so that the log shows each of its calls.
    """
    places = [(attempt, _place(chain, attempt)) for attempt in trace.attempts]
    has_second = any(attempt.round == 1 for attempt in trace.attempts)
    if passed is not True and not has_second:
        # A refusal in the first round ends the request, and a built-in plugin may refuse at the beginning of the second. A
        # registered webhook that was called again would have left an annotation.
        is_open = passed is None and _changed(places, 0) and not was_in_force
        return Unknown("whether the first round ended") if is_open else False
    if any(place is None for attempt, place in places if attempt.mutated):
        return Unknown("a recorded webhook is not in the given configuration of its name, so that its order is unknown")
    first = [(attempt, place) for attempt, place in places if attempt.round == 0 and place is not None]
    if any(attempt.mutated and place > hook.place for attempt, place in first):
        return _before_refusal(hook, places, passed)
    recorded = {(attempt.configuration, attempt.webhook) for attempt in trace.attempts}
    new = [other for other in called if other.phase is Phase.MUTATING and (other.configuration, other.webhook.name) not in recorded]
    if new and trace.attempts != () and (hook in new or any(other.place > hook.place for other in new)):
        return Unknown(_NEW)
    if new and trace.attempts == ():
        return Unknown(_NEW)
    if not _changed(places, 0):
        if not (changes_again and has_second):
            return False
        return (
            _was_called_again(hook, trace) if was_in_force else Unknown("built-in plugins or policies may have changed the object")
        )
    earlier = [attempt for attempt, place in places if attempt.round == 1 and place is not None and place < hook.place]
    if any(attempt.mutated for attempt in earlier):
        return _before_refusal(hook, places, passed)
    if not changes_again:
        return False
    return (
        _was_called_again(hook, trace)
        if was_in_force
        else Unknown("built-in plugins may have changed the object in the second round")
    )


def _before_refusal(hook: CompiledWebhook, places: list[tuple[Attempt, Place | None]], passed: bool | None) -> bool | Unknown:
    """A second round that was refused came as far as its last attempt."""
    if passed is True:
        return True
    seconds = [place for attempt, place in places if attempt.round == 1 and place is not None]
    if seconds and hook.place <= max(seconds):
        return True
    return Unknown("whether the second round came to it") if passed is None else False


def _was_called_again(hook: CompiledWebhook, trace: Trace) -> bool:
    """Every attempt leaves an annotation, so the record of a registered webhook decides where the rules do not."""
    name = (hook.configuration, hook.webhook.name)
    return any(attempt.round == 1 and (attempt.configuration, attempt.webhook) == name for attempt in trace.attempts)


def _changed(places: list[tuple[Attempt, Place | None]], round_number: int) -> bool:
    return any(attempt.mutated for attempt, _ in places if attempt.round == round_number)


def _place(chain: Chain, attempt: Attempt) -> Place | None:
    """Where a recorded webhook stands; None if its configuration is given without it."""
    found = chain.place_of(Phase.MUTATING, attempt.configuration, attempt.webhook)
    if found is None and not chain.has(Phase.MUTATING, attempt.configuration):
        return Place(attempt.configuration, attempt.place)
    return found
