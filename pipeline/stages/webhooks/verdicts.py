"""The verdict on one call of a webhook: what the request would meet, and what the log says of it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...matching import Conversion
from ...policies.model import FailurePolicy
from ...request import Unknown
from ...row import Row
from ...runs.verdict import Flip
from .calling import Call, Called
from .model import Phase
from .trace import Trace

NAME = "webhooks"


def recorded_of(call: Call, trace: Trace) -> str | None:
    """What the log says of the webhook of a call; None without a trace."""
    hook = call.hook
    if call.is_namesake and hook.phase is Phase.VALIDATING:
        return None  # a refusal names the webhook alone, and was that of another configuration
    return trace.of(hook.phase, hook.configuration, hook.webhook.name) or ("admitted" if call.has_admitted else None)


def row_of(call: Call, recorded: str | None, told: str, was_refused: bool) -> Row:
    """The row of a call. `recorded` is what the log says of it, `told` the message that a webhook noted instead of denying."""
    hook = call.hook
    denial = _denial(call, recorded, told, was_refused)
    effect = "deny" if denial else "admit" if call.decision is Called.ERROR else None
    return Row(
        policy=hook.configuration,
        binding=hook.webhook.name,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=str(call.decision),
        effect=effect,
        message=denial.message or None if denial else None,
        reason=None,
        code=denial.code if denial else None,
        why=call.why or None,
        evidence=str(call.evidence),
        actions=[],
        audit_annotations=[],
        bypasses_actions=bool(denial),
        stage=NAME,
        rule_ref=hook.rule_ref,
        recorded=recorded,
        flip=_flip(call, recorded, bool(denial), was_refused),
        detail=json.dumps(_detail(call, recorded, was_refused), sort_keys=True),
    )


class _Denial(NamedTuple):
    """How a request ends because of a webhook, in the words of the server. `code` is None where only the webhook knows it."""

    message: str
    code: int | None


def _denial(call: Call, recorded: str | None, told: str, was_refused: bool) -> _Denial | None:
    """The end of a request that it did not have in the record, or that comes without a call; None without one.

    A call that failed open is refused under failurePolicy Fail. A webhook that noted that it would deny is taken at its word.
    """
    hook = call.hook
    if call.decision is Called.ERROR and call.code is not None:
        return _Denial(call.message, call.code)
    if call.decision is not Called.CALLED or was_refused:
        return None
    if recorded == "failed open" and hook.webhook.failure_policy is FailurePolicy.FAIL:
        return _Denial(f'Internal error occurred: failed calling webhook "{hook.webhook.name}"', 500)
    if recorded == "would deny":
        return _Denial(f'admission webhook "{hook.webhook.name}" denied the request: {told}', None)
    return None


def _flip(call: Call, recorded: str | None, is_denied: bool, was_refused: bool) -> str | None:
    """How the call differs from the record; None where the record cannot tell, because an admitting webhook may leave no trace."""
    if is_denied:
        return str(Flip.STILL_DENIED if was_refused else Flip.NEWLY_DENIED)
    match call.decision:
        case Called.UNKNOWN:
            return str(Flip.UNKNOWN)
        case Called.CALLED if recorded == "failed closed" and call.hook.webhook.failure_policy is FailurePolicy.IGNORE:
            return str(Flip.NEWLY_ALLOWED)
        case Called.CALLED if recorded:
            return str(Flip.SAME)
        case Called.NOMATCH if recorded in ("denied", "failed closed"):
            return str(Flip.NEWLY_ALLOWED)
    return None


def _detail(call: Call, recorded: str | None, was_refused: bool) -> dict[str, Any]:
    """What only this stage has: the phase, the calls, and under which resource a rule found the request."""
    second = call.second
    detail: dict[str, Any] = {"phase": str(call.hook.phase)}
    if was_refused:
        detail["refused"] = True
    if call.decision is Called.CALLED:
        detail["calls"] = call.passes + (second is True)
        if recorded is None and call.unanswered:
            detail["unanswered"] = call.unanswered
    if isinstance(second, Unknown):
        detail["second_round"] = f"unknown: {second.reason}"
    if call.more_passes:
        detail["second_pass"] = f"unknown: {call.more_passes}"
    if call.conversion is not Conversion.NONE and call.resource is not None:
        detail["sent_as"] = f"{call.resource.resource}.{call.resource.version}.{call.resource.group}".rstrip(".")
    return detail
