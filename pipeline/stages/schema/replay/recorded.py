"""What the log says about how far a write came, as far as schemas are concerned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from queries.reach import NUMBERS
from queries.reach_rules import REFUSED, UNTOLD

from ....history.event import Event
from ....history.outcome import reach_of_event
from ..definition import Definition
from .predicting import NOT_SERVED, UNFIT, Step
from .sent import STRICT

_BEFORE: Final = frozenset({"authentication", "impersonation", "flow_control", "authorization"})
_UNFIT_PATCH: Final = ' "" is invalid: patch: '
_TYPED: Final = "failed to create typed patch object"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded end of a write. `by_schema`: another schema may have answered otherwise at this step.

    `step` has no value where the answer does not tell.
    """

    code: int
    step: Step | None
    by_schema: bool
    message: str

    @property
    def is_refused(self) -> bool:
        """Whether the write was refused, by whatever stage."""
        return self.step is not Step.DONE


def came_to_resource(event: Event) -> bool:
    """Whether a request came to the resource: authentication, priority and fairness, and authorization stand before it."""
    reach = reach_of_event(event)
    return not (event.code >= 400 and reach.stopped in _BEFORE)


def why_untold(event: Event) -> str:
    """Why the log does not say how a request ended, or what it asked for; empty if it does."""
    if not event.resource.version:
        return "objectRef does not say which version"
    if event.code <= 0:
        return "no answer is recorded, so how far the write came is unknown"
    return UNTOLD if event.code in REFUSED and reach_of_event(event).why == UNTOLD else ""


def recorded_of(event: Event, definition: Definition) -> Recorded:
    """The recorded end of a create, update or patch that came to its resource."""
    step, by_schema = _step_of(event, definition)
    return Recorded(event.code, step, by_schema, event.message)


def _step_of(event: Event, definition: Definition) -> tuple[Step | None, bool]:
    code, text = event.code, event.message
    if event.succeeded:
        return Step.DONE, False
    if code < 400:
        return None, False
    match code:
        case 404:
            if text.startswith(("the server could not find the requested resource", NOT_SERVED)):
                return Step.SERVED, True
            return (Step.MUTATING if event.verb == "create" else Step.TARGET), False
        case 400:
            return Step.DECODING, STRICT in text or "spec" in text
        case 409:
            if event.verb == "create" or event.reason == "AlreadyExists":
                return Step.AFTER, False
            return Step.CONFLICT, False
        case 422 if text.startswith((UNFIT, _UNFIT_PATCH)):
            return Step.PATCHING, True
        case 422 if text.startswith(f'{definition.plural}.{definition.group} "'):
            return Step.CONFLICT, False
        case 422 if text.startswith(f'{definition.kind}.{definition.group} "'):
            return Step.SCHEMA, True
        case _ if text.startswith(_TYPED):
            return Step.PATCHING, True
    return _step_of_others(event), False


def _step_of_others(event: Event) -> Step | None:
    """Where plugins, policies, webhooks and quotas refused a write."""
    reach = reach_of_event(event)
    if reach.stopped is None:
        return None
    if reach.passed is not None and NUMBERS[reach.passed] >= NUMBERS["mutating"] and reach.stopped != "strategy":
        return Step.AFTER
    return {"mutating": Step.MUTATING, "decoding": Step.DECODING}.get(reach.stopped)
