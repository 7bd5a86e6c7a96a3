"""The calls for a delete that the store asks about twice: once as it marks the object, and once as it removes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...request import AdmissionRequest, Unknown
from .calling import Call, Called


def with_passes(
    calls: Sequence[Call], passes: int | Unknown, again: Callable[[AdmissionRequest], Sequence[Call]], second: AdmissionRequest
) -> list[Call]:
    """The calls of all passes over one deleted object. `again` gives those of the `second` pass, which may match otherwise."""
    if isinstance(passes, Unknown):
        return [each._replace(more_passes=passes.reason) if each.decision is Called.CALLED else each for each in calls]
    if passes == 1:
        return list(calls)
    if not any(each.hook.looks_inside for each in calls):
        return [each._replace(passes=2) if each.decision is Called.CALLED else each for each in calls]
    later = {named(each): each for each in again(second)}
    return [_joined(each, later.get(named(each), each)) for each in calls]


def named(call: Call) -> tuple[str, str, str]:
    """The webhook that a call is about."""
    return call.hook.phase, call.hook.configuration, call.hook.webhook.name


def _joined(first: Call, second: Call) -> Call:
    """One webhook in two passes: a condition may say otherwise of the marked object."""
    match first.decision, second.decision:
        case Called.CALLED, Called.CALLED:
            return first._replace(passes=2)
        case Called.CALLED, Called.UNKNOWN:
            return first._replace(more_passes=second.why)
        case Called.NOMATCH, _:
            return second
    return first
