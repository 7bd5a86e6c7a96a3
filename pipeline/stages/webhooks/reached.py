"""Whether a recorded request came to a webhook: an earlier refusal ends it.

Mutating webhooks are called one after the other, and the first error ends the request. Validating webhooks start together, after
the server has read the conditions of all. See Dispatch in kubernetes/apiserver
pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
"""

from __future__ import annotations

from typing import NamedTuple

from queries.reach import Answer, Reach

from ...policies.model import FailurePolicy
from ...request import Unknown
from .model import Chain, CompiledWebhook, Phase, Place
from .trace import Attempt, Trace

_STAGE = {Phase.MUTATING: "mutating", Phase.VALIDATING: "webhooks"}


class Reached(NamedTuple):
    """Whether a webhook was reached in the first round. `why` says why it was not."""

    answer: bool | Unknown
    why: str = ""


_REACHED = Reached(True)


class Arrival:
    """How far one request came among the webhooks of a chain."""

    def __init__(self, chain: Chain, trace: Trace, reach: Reach) -> None:
        self._chain = chain
        self._trace = trace
        self._reach = reach
        # Several validating webhooks may have the condition that failed: which one matched is theirs to decide.
        self._refusers = _refusers(chain, trace)
        self._refuser = self._refusers[0] if self._refusers else None

    def at(self, hook: CompiledWebhook) -> Reached:
        """Whether the request came to a webhook."""
        if hook in self._refusers:
            return _REACHED
        answer = self._reach.at(_STAGE[hook.phase])
        if hook.phase is Phase.VALIDATING:
            return self._validating(answer)
        if answer is Answer.ADMITTED or (self._refuser and self._refuser.phase is Phase.VALIDATING):
            return _REACHED
        if answer is Answer.NOT_REACHED:
            return Reached(False, self._reach.why)
        return self._mutating(hook, answer)

    @property
    def passed_mutating(self) -> bool | None:
        """Whether all rounds of mutating webhooks ended without a refusal; None where the record does not tell."""
        match self._reach.at("mutating"):
            case Answer.ADMITTED:
                return True
            case Answer.NOT_REACHED | Answer.DENIED:
                return False
        return None if self._refuser is None else self._refuser.phase is Phase.VALIDATING

    def _validating(self, answer: Answer) -> Reached:
        if self._refuser is not None:
            names = " or ".join(each.webhook.name for each in self._refusers)
            if self._refuser.phase is Phase.MUTATING:
                return Reached(False, f"a match condition of webhook {names} failed")
            return Reached(False, f"a match condition of webhook {names} failed, so that no validating webhook was called")
        if answer is Answer.UNKNOWN:
            return Reached(Unknown(f"whether it reached webhooks: {self._reach.why}"))
        return Reached(False, self._reach.why) if answer is Answer.NOT_REACHED else _REACHED

    def _mutating(self, hook: CompiledWebhook, answer: Answer) -> Reached:
        """A request that mutating admission may have refused."""
        if self._refuser is not None:
            return _up_to(hook.place, self._refuser.place, self._refuser.webhook.name)
        last = self._trace.attempts[-1] if self._trace.attempts else None
        if last is None:
            if answer is Answer.DENIED:
                return Reached(False, self._reach.why)
            return Reached(Unknown(f"whether it reached webhooks: {self._reach.why}"))
        if last.round > 0:
            return _REACHED
        place = self._place(last)
        if place is None:
            return Reached(Unknown(f"webhook {last.webhook} refused it, and it is not known whether that stands before this one"))
        reached = _up_to(hook.place, place, last.webhook)
        # A patch that did not fit ended the request: then the last webhook ended it, though the message does not name it.
        was_last = answer is Answer.DENIED and self._reach.outcome == "error"
        if (
            reached.answer is True
            or was_last
            or last.webhook in (self._trace.denied_by, self._trace.failed, self._trace.no_dry_run)
        ):
            return reached
        return Reached(Unknown(f"whether it reached webhooks after {last.webhook}: {self._reach.why}"))

    def _place(self, attempt: Attempt) -> Place | None:
        """Where a recorded webhook stands among those of the chain."""
        found = self._chain.place_of(Phase.MUTATING, attempt.configuration, attempt.webhook)
        if found is None and not self._chain.has(Phase.MUTATING, attempt.configuration):
            return Place(attempt.configuration, 0)
        return found


def _up_to(place: Place, last: Place, name: str) -> Reached:
    return _REACHED if place <= last else Reached(False, f"webhook {name} refused it before")


def _refusers(chain: Chain, trace: Trace) -> tuple[CompiledWebhook, ...]:
    """The webhooks with the match condition that failed and ended the request; empty if the answer does not tell."""
    if "expression '" not in trace.message or trace.denied_by or "ValidatingAdmissionPolicy '" in trace.message:
        return ()
    found = tuple(
        hook
        for hook in chain.webhooks
        if hook.webhook.failure_policy is FailurePolicy.FAIL
        and any(f"expression '{each.expression}' resulted in error" in trace.message for each in hook.webhook.match_conditions)
    )
    # Whichever validating webhook it was, none was called. Of several mutating ones, the place of the first matters.
    phases = {hook.phase for hook in found}
    return () if len(phases) > 1 or (len(found) > 1 and phases == {Phase.MUTATING}) else found
