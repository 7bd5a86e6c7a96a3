"""Did validating admission run for a recorded request, and what did it say?

The API server stops at the first refusal, so a request that was refused before validating admission tells nothing about policies,
and one that was refused after it was admitted by them. Where the log cannot tell, the answer is UNKNOWN.
Order of the stages: kubernetes/apiserver pkg/server/config.go, pkg/endpoints/handlers, pkg/registry/{rest,generic/registry}.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ingest.event import VALIDATION_FAILURE

from .event import WRITE_VERBS, Event
from .kinds import CONNECT_SUBRESOURCES


class Admission(StrEnum):
    """Whether validating admission policies were asked."""

    ADMITTED = "admitted"
    DENIED = "denied"
    ASKED = "asked"  # they were, and the answer does not tell what they said
    NOT_REACHED = "not reached"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the record says about validating admission, and why."""

    admission: Admission
    reason: str


@dataclass(frozen=True, slots=True)
class _Rule:
    reason: str
    admission: Admission
    applies: Callable[[Event], bool]


def _says(text: str) -> Callable[[Event], bool]:
    return lambda event: text in event.message


def _matches(pattern: str) -> Callable[[Event], bool]:
    compiled = re.compile(pattern)
    return lambda event: compiled.search(event.message) is not None


def _code(*codes: int) -> Callable[[Event], bool]:
    return lambda event: event.code in codes


def is_connect(event: Event) -> bool:
    """Whether a request opens a connection to a pod, service or node: CONNECT, whatever its HTTP method."""
    return event.subresource in CONNECT_SUBRESOURCES


def _connect_reached_backend(event: Event) -> bool:
    return is_connect(event) and event.code != 404 and (event.code < 400 or event.code >= 500 or not event.message)


# What stands before the words of a denial (apimachinery pkg/api/errors/errors.go, NewForbidden). Other deniers may quote one.
DENIAL_PREFIX = r'^(?:[^ "]+ (?:"(?:[^"\\]|\\.)*" )?is )?forbidden: '
_WEBHOOK = re.compile(r'(?:admission webhook "([^"]+)" denied the request|failed calling webhook "([^"]+)")')


def _eviction_failed(event: Event) -> bool:
    """An Eviction is admitted before its pod is looked up and its budget asked (core/pod/storage/eviction.go, Create).

    A 429 of priority and fairness comes before authorization and carries no decision.
    """
    decided = "authorization.k8s.io/decision" in event.annotations
    return event.subresource == "eviction" and decided and (event.code == 429 or event.message.startswith("pods "))


def _looked_up_too_late(event: Event) -> bool:
    """A Binding is admitted before its pod is looked up, and a TokenRequest before what the token is to be bound to.

    Follows kubernetes pkg/registry/core/pod/storage/storage.go (BindingREST) and pkg/registry/core/serviceaccount/storage/token.go.
    """
    if event.verb != "create" or event.code not in (404, 409):
        return False
    if event.subresource == "token":
        return event.message.startswith(("pods ", "nodes ", "secrets "))
    is_binding = event.subresource == "binding" or (event.resource.resource == "bindings" and not event.resource.group)
    return is_binding and event.message.startswith(("pods ", "Operation cannot be fulfilled on pods"))


def _mutating_webhook_refused(event: Event) -> bool:
    """A refusal by a webhook, or for want of its answer, that the log also shows among the called mutating ones."""
    found = _WEBHOOK.search(event.message)
    if found is None:
        return False
    name = found[1] or found[2]
    called = (value for key, value in event.annotations.items() if key.startswith("mutation.webhook.admission.k8s.io/"))
    return any(f'"webhook":"{name}"' in value.replace('": "', '":"') for value in called)


def _answered_nothing(event: Event) -> bool:
    """The record of a request whose client left before anything was written (apiserver pkg/endpoints/filters/audit.go)."""
    return not is_connect(event) and event.message == "Connection closed early"


def _left_a_failure(event: Event) -> bool:
    """The annotation that policies leave is kept also where the request then fails for another reason."""
    return VALIDATION_FAILURE in event.annotations


_N, _Y, _D, _U = Admission.NOT_REACHED, Admission.ADMITTED, Admission.DENIED, Admission.UNKNOWN

# First match wins.
_RULES = (
    _Rule("a validating admission policy denied it", _D, _matches(f"{DENIAL_PREFIX}ValidatingAdmissionPolicy '")),
    _Rule("authentication failed", _N, _code(401)),
    _Rule("the authorizer refused the request", _N, lambda e: e.annotations.get("authorization.k8s.io/decision") == "forbid"),
    _Rule("policies were not synchronized yet", _N, _says("not yet ready to handle request")),
    _Rule("the handler answered nothing, so that its success was made up", _U, _answered_nothing),
    _Rule("the request succeeded", _Y, lambda event: event.succeeded or event.code == 101),
    _Rule("Pod Security refused it before", _N, _says('violates PodSecurity "')),
    _Rule("a mutating admission policy refused it before", _N, _matches(r"^policy '[^']+' with binding '[^']+' denied request")),
    _Rule("a mutating webhook refused it before", _N, _mutating_webhook_refused),
    _Rule("a webhook refused it after", _Y, _matches(_WEBHOOK.pattern)),
    _Rule("the quota refused it after", _Y, _matches(r"exceeded quota|insufficient quota|status unknown for quota|failed quota")),
    _Rule(
        "the name was taken, which the write finds",
        _Y,
        lambda e: e.verb == "create" and e.code == 409 and e.reason == "AlreadyExists",
    ),
    _Rule("the eviction failed, which is tried after admission", _Y, _eviction_failed),
    _Rule("what it is about was not there, which is found after admission", _Y, _looked_up_too_late),
    _Rule("policies recorded a failure, and it failed for another reason", Admission.ASKED, _left_a_failure),
    _Rule("priority and fairness refused it", _N, _code(429)),
    _Rule("the connection was admitted, and failed behind the API server", _Y, _connect_reached_backend),
    _Rule("the apply patch does not fit the schema", _N, _says("failed to create typed patch object")),
    _Rule("another manager owns what was applied", _N, lambda e: e.code == 409 and e.message.startswith("Apply failed with ")),
    _Rule("a precondition did not hold", _N, lambda e: e.code == 409 and "in the precondition" in e.message),
    _Rule("the object had changed; the log does not tell whether that was found before or after", _U, _code(409)),
    _Rule("an admission plugin before it refused", _N, _code(403)),
    _Rule("the API server found the object invalid", _N, _code(422)),
    _Rule("the API server could not read the request", _N, _code(400, 413, 415)),
    _Rule("the target was not found", _N, _code(404)),
    _Rule("the resource does not allow this verb", _N, _code(405)),
)


def outcome_of(event: Event) -> Outcome:
    """What the record says about validating admission of one request."""
    if event.verb not in WRITE_VERBS and not is_connect(event):
        return Outcome(Admission.NOT_REACHED, "reads pass no admission")
    for rule in _RULES:
        if rule.applies(event):
            return Outcome(rule.admission, rule.reason)
    return Outcome(Admission.UNKNOWN, f"code {event.code} does not tell how far the request came")
