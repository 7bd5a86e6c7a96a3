"""The answer of the API server to one request, recorded or predicted, and the step that gave it."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from queries.reach_rules import WEBHOOK_NAME

from ...history.event import Event
from ...request import Grade, Object
from ...row import INSUFFICIENT, Row
from ...runs.verdict import Flip

STAGE: Final = "chain"
# The steps of a request, in the order of the server. A refusal by a policy has the name of the policy behind a colon.
AUTHORIZATION, DECODING, NAMESPACE = "authorization", "decoding", "namespace"
PRIORITY, SERVICE_ACCOUNT, LIMIT_RANGE = "priority", "service-account", "limit-range"
APPLY, MUTATING, VALIDATION = "apply", "mutating-policy", "validation"
POD_SECURITY, VALIDATING, QUOTA, STORE, OTHER = "pod-security", "validating-policy", "quota", "store", "other"
WEBHOOK = "webhook"
UNTOLD = ""

_POLICIES: Final = (
    (re.compile(r" is forbidden: ValidatingAdmissionPolicy '([^']*)' with binding"), VALIDATING),
    (re.compile(r"^policy (?:'([^']*)' with binding|\"([^\"]*)\") "), MUTATING),
    (re.compile(WEBHOOK_NAME), WEBHOOK),
)
# Of answers with code 403.
_FORBIDDEN: Final = (
    (re.compile(r'violates PodSecurity "'), POD_SECURITY),
    (re.compile(r"exceeded quota:|failed quota:|is forbidden: insufficient quota"), QUOTA),
    (re.compile(r"error looking up service account|serviceaccount .* not found"), SERVICE_ACCOUNT),
    (re.compile(r"PriorityClass|the integer value of priority"), PRIORITY),
    (re.compile(r"(?:maximum|minimum) \S+ usage per|max limit to request ratio per"), LIMIT_RANGE),
    (re.compile(r" cannot [a-z]+ resource "), AUTHORIZATION),
)
_CONFLICT: Final = re.compile(r"^Apply failed with ")


class Answer(NamedTuple):
    """An answer. `decision` is `allow`, `deny` or `unknown`; `step` is who refused, or where it is not known.

    `message` is None where Hindcast cannot give the server's words. `object` is the object in the answer, if it is known and the
    mutation changed it. `changed` are the changes as JSON.
    """

    decision: str
    code: int | None = None
    message: str | None = None
    step: str = UNTOLD
    why: str = ""
    object: Object | None = None
    changed: tuple[dict[str, Any], ...] = ()
    grade: str = Grade.EXACT
    reason: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What a client sees of it."""
        return self.decision, self.code, self.message, self.step


class Step(NamedTuple):
    """What one step made of a request, for whoever explains it: `says` is `changed`, `admit`, `deny` or `unknown`.

    `changed` are the changes of the object as JSON.
    """

    name: str
    says: str
    text: str = ""
    changed: tuple[dict[str, Any], ...] = ()


def unknown(step: str, why: str) -> Answer:
    """An answer that is not known, from this step on."""
    return Answer("unknown", step=step, why=why)


def recorded_answer(event: Event) -> Answer:
    """What the log says."""
    return answer_of(event.code, event.message, event.reason, event.resource.resource)


def answer_of(code: int, message: str, reason: str, resource: str) -> Answer:
    """An answer by its code and words. Requests without an answer were not let pass, as far as the log says."""
    if 200 <= code < 300:
        return Answer("allow", code)
    if not code:
        return unknown(UNTOLD, "the log has no answer to it")
    return Answer("deny", code, message, step_of(code, message, resource), reason=reason or None)


def step_of(code: int, message: str, resource: str) -> str:
    """Who refused a recorded request, as its answer says."""
    for pattern, step in _POLICIES:
        if found := pattern.search(message):
            return f"{step}:{next(filter(None, found.groups()))}"
    for pattern, step in _FORBIDDEN if code == 403 else ():
        if pattern.search(message):
            return step
    match code:
        case 400:
            return DECODING
        case 401 | 403:
            return AUTHORIZATION if code == 401 else f"{OTHER}:403"
        case 404:
            return NAMESPACE if message.startswith("namespaces ") and resource != "namespaces" else STORE
        case 409:
            return APPLY if _CONFLICT.match(message) else STORE
        case 422:
            return VALIDATION
        case _:
            return f"{OTHER}:{code}"


def row_of(answer: Answer, recorded: Answer, with_objects: bool) -> Row:
    """The row of an answer."""
    detail: dict[str, Any] = {"decided_by": answer.step} if answer.step else {}
    if answer.changed:
        detail["difference"] = list(answer.changed)
    if with_objects and answer.object is not None:
        detail["object"] = answer.object
    is_unknown = answer.decision == "unknown"
    effect = None if is_unknown else "deny" if answer.decision == "deny" else "admit"
    return Row(
        policy=STAGE,
        binding=None,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=answer.decision,
        effect=effect,
        message=answer.message or None,
        reason=answer.reason,
        code=answer.code,
        why=answer.why or None,
        evidence=INSUFFICIENT if is_unknown else str(answer.grade),
        actions=["Deny"],
        audit_annotations=[],
        bypasses_actions=False,
        stage=STAGE,
        rule_ref=answer.step or None,
        recorded={"allow": "admit", "deny": "deny"}.get(recorded.decision),
        flip=_flip(answer, recorded),
        detail=json.dumps(detail, sort_keys=True) if detail else None,
    )


def _flip(answer: Answer, recorded: Answer) -> str:
    if answer.decision == "unknown":
        return Flip.UNKNOWN
    if answer.decision == "deny":
        return Flip.STILL_DENIED if recorded.decision == "deny" else Flip.NEWLY_DENIED
    if recorded.decision == "deny":
        return Flip.NEWLY_ALLOWED
    return Flip.CHANGED if answer.changed else Flip.SAME
