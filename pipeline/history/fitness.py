"""Whether recorded bodies are objects. An API server records only objects; other writers or editors of logs may not."""

from __future__ import annotations

from typing import Any

import msgspec

from ..request import AdmissionRequest
from .attributes import Discovery
from .event import Event, Raw
from .fit import AnyObject
from .outcome import Admission
from .reconstruct import NotReplayed, admission_requests
from .versions import Versions

# Reading a body that is not an object of Kubernetes raises one of these.
UNFIT = (AttributeError, TypeError, KeyError, IndexError, ValueError)
_BRACE, _BRACKET = frozenset(("{", b"{")), frozenset(("[", b"["))
_OBJECT = msgspec.json.Decoder(AnyObject)
_OPERATIONS = msgspec.json.Decoder(list[dict[str, Any]])


def shows_objects(event: Event) -> bool:
    """Whether bodies begin as objects do, or the body of a patch as its operations do."""
    request, response = event.request_raw or b"{", event.response_raw or b"{"
    reviewed = [raw for review in event.reviews for raw in (review.object_raw, review.old_raw) if raw is not None]
    if any(raw[:1] != b"{" for raw in reviewed):
        return False
    return response[:1] in _BRACE and request[:1] in (_BRACE | _BRACKET if event.verb == "patch" else _BRACE)


def unfit_body(event: Event) -> str:
    """Why a body of an event is not an object of Kubernetes; empty if all bodies are."""
    bodies = [("requestObject", event.request_raw), ("responseObject", event.response_raw)]
    if event.review is not None:
        bodies += [("reviewObject", event.review.object_raw), ("reviewOldObject", event.review.old_raw)]
    for name, raw in bodies:
        is_patch = event.verb == "patch" and name == "requestObject"
        if raw is not None and (problem := _problem(raw, is_patch)):
            return f"{name} is not an object of Kubernetes: {problem}"
    return ""


def fit_requests(event: Event, versions: Versions, discovery: Discovery | None = None) -> list[AdmissionRequest] | NotReplayed:
    """The result of admission_requests for an event. If a body is not an object, it says only that and why it is not replayed."""
    # Bodies are decoded at their first read, which is too late to give a reason.
    if problem := unfit_body(event):
        return NotReplayed(problem, Admission.UNKNOWN)
    return admission_requests(event, versions, discovery)


def _problem(raw: Raw, may_be_operations: bool) -> str:
    try:
        if may_be_operations and raw[:1] in _BRACKET:
            _OPERATIONS.decode(raw)
        else:
            _OBJECT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    return ""
