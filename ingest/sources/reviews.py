"""Recordings of AdmissionReviews: what kube-apiserver asked a validating webhook, as webhooks record it.

A review has what audit logs of managed clusters lack: all of the user, both objects and the options. It does not have the URI,
the verb, the answer and what happened afterwards. So a review becomes an event without an answer, and `ingest/reviewed.py` looks
for the audit event of the same request.

    uid                  auditID
    time of the record   both timestamps
    operation            verb: an UPDATE may have been a patch, a CREATE an apply
    userInfo             user: the effective one
    object, oldObject    `reviewObject`, `reviewOldObject`
    the rest             `review`
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from ..notes import DRY_RUN, REVIEW, TRANSLATED, Sealed, noted
from .exports import Found

FORM = "AdmissionReviews"
# The fields of such an event in addition to those of audit events.
FIELD, OBJECT, OLD_OBJECT = "review", "reviewObject", "reviewOldObject"
_TIMES = ("requestReceivedTimestamp", "time", "timestamp", "@timestamp", "ts", "t")
_VERBS = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete", "CONNECT": "create"}
_APART = ("userInfo", "object", "oldObject")
_ORIGINS = "auditID=uid;requestReceivedTimestamp,stageTimestamp=record;verb=operation"


class _Head(msgspec.Struct, rename="camel"):
    kind: str = ""
    request: dict[str, msgspec.Raw] | None = None
    response: dict[str, msgspec.Raw] | None = None


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class ReviewKind(msgspec.Struct):
    """A kind, as a review names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class ReviewRequest(msgspec.Struct, rename="camel"):
    """What a review says of its request, apart from the user and the objects: who stores one and who reads one use this type."""

    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    kind: ReviewKind
    request_kind: ReviewKind | None = None
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    options: dict[str, Any] | None = None


class _Asked(ReviewRequest, rename="camel", kw_only=True):
    uid: str
    user_info: msgspec.Raw
    resource: _Resource
    sub_resource: str = ""
    request_resource: _Resource | None = None
    request_sub_resource: str | None = None


_head = msgspec.json.Decoder(_Head)
_asked = msgspec.json.Decoder(_Asked)
_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def review_in(members: Mapping[str, bytes]) -> Found | None:
    """The event of a record that is a review, or that holds one next to its time; None where it does neither."""
    for inner in (_encoder.encode({name: msgspec.Raw(raw) for name, raw in members.items()}), *members.values()):
        if inner[:1] == b"{" and b'"AdmissionReview"' in inner and (head := _review(inner)) is not None:
            return _found(head, inner, members)
    return None


def event_of_review(value: bytes, moment: str | None) -> bytes | None:
    """The event of one review that was recorded at a moment; None where the value is not a review of a request."""
    head = _review(value)
    return None if head is None or head.request is None else _event(head.request, moment)


def is_review_of_request(value: bytes) -> bool:
    """Whether a value says that it is a review with a request, whatever that holds."""
    head = _review(value)
    return head is not None and head.request is not None


def _review(value: bytes) -> _Head | None:
    try:
        head = _head.decode(value)
    except (ValueError, RecursionError):
        return None
    return head if head.kind == "AdmissionReview" and (head.request or head.response) else None


def _found(head: _Head, inner: bytes, members: Mapping[str, bytes]) -> Found:
    answer = head if head.response else _answer(members)
    # The object of a mutating webhook's review may have changed before policies saw it.
    if head.request is None or (answer is not None and "patch" in (answer.response or {})):
        return Found([], 1)
    own = {name: bytes(raw) for name, raw in msgspec.json.decode(inner, type=dict[str, msgspec.Raw]).items()}
    event = _event(head.request, _moment(own) or _moment(members))
    return Found([inner if event is None else event], form=FORM)


def _answer(members: Mapping[str, bytes]) -> _Head | None:
    response = members.get("response", b"null")
    try:
        found = _head.decode(response)
        return found if found.response else _Head(response=msgspec.json.decode(response, type=dict[str, msgspec.Raw] | None))
    except (ValueError, RecursionError):
        return None


def _moment(members: Mapping[str, bytes]) -> str | None:
    """The first time among some members: a text as it is, or seconds since the epoch."""
    for name in _TIMES:
        try:
            found = _anything.decode(members.get(name, b"null"))
            if isinstance(found, int | float) and not isinstance(found, bool):
                return datetime.fromtimestamp(found if found < 1e11 else found / 1000, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            continue
        if isinstance(found, str) and found[:4].isdigit():
            return found
    return None


def _event(request: dict[str, msgspec.Raw], moment: str | None) -> bytes | None:
    try:
        asked = _asked.decode(_encoder.encode(request))
    except (ValueError, RecursionError):
        return None
    place = asked.request_resource or asked.resource
    subresource = asked.sub_resource if asked.request_sub_resource is None else asked.request_sub_resource
    reference = {
        "resource": place.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": place.group,
        "apiVersion": place.version,
        "subresource": subresource,
    }
    notes = {REVIEW: asked.uid, TRANSLATED: _ORIGINS} | ({DRY_RUN: "true"} if asked.dry_run else {})
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": asked.uid,
        "stage": "ResponseComplete",
        "verb": _VERBS[asked.operation],
        "user": asked.user_info,
        "objectRef": {name: text for name, text in reference.items() if text},
        "annotations": noted({}, notes),
        FIELD: {name: raw for name, raw in request.items() if name not in _APART},
    }
    if moment is not None:
        event |= {"requestReceivedTimestamp": moment, "stageTimestamp": moment}
    for name, field in (("object", OBJECT), ("oldObject", OLD_OBJECT)):
        if (body := request.get(name)) is not None and bytes(body) != b"null":
            event[field] = body
    return Sealed(_encoder.encode(event))
