"""The audit event as it arrives: a typed envelope around bodies that are not parsed.

Follows kubernetes/apiserver pkg/apis/audit/v1/types.go, and also takes fields that real servers add: `null` lists, an
`expressionIndex` that is a number or a string, timestamps of nanoseconds, and the v1beta1 and v1alpha1 shapes.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

# The value of an absent raw field; msgspec returns this same object each time.
ABSENT = msgspec.Raw()
VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"


class User(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: msgspec.Raw = ABSENT


class Person(msgspec.Struct):
    """A user with all attributes: policies and authorizers may read each of them."""

    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str] | None] | None = None


class ObjectRef(msgspec.Struct, rename="camel"):
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_group: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    subresource: str | None = None


class Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: msgspec.Raw = ABSENT


class Event(msgspec.Struct, forbid_unknown_fields=True):
    """One event at one stage. This strict type rejects an event with other fields; the row then keeps them in `extra`."""

    audit_id: str = msgspec.field(name="auditID")
    stage: str
    level: str
    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    request_uri: str | None = msgspec.field(name="requestURI", default=None)
    verb: str | None = None
    user: User | None = None
    impersonated_user: msgspec.Raw = msgspec.field(name="impersonatedUser", default=ABSENT)
    source_ips: list[str] | None = msgspec.field(name="sourceIPs", default=None)
    user_agent: str | None = msgspec.field(name="userAgent", default=None)
    object_ref: ObjectRef | None = msgspec.field(name="objectRef", default=None)
    response_status: Status | None = msgspec.field(name="responseStatus", default=None)
    request_object: msgspec.Raw = msgspec.field(name="requestObject", default=ABSENT)
    response_object: msgspec.Raw = msgspec.field(name="responseObject", default=ABSENT)
    request_ts: datetime | None = msgspec.field(name="requestReceivedTimestamp", default=None)
    stage_ts: datetime | None = msgspec.field(name="stageTimestamp", default=None)
    annotations: dict[str, str] | None = None


class OldMetadata(msgspec.Struct):
    """`metadata` of a v1alpha1 or v1beta1 event."""

    created_ts: datetime | None = msgspec.field(name="creationTimestamp", default=None)


class LenientEvent(Event, forbid_unknown_fields=False):
    """The same type, ignoring unknown fields, with the two times that events had before `audit.k8s.io/v1`."""

    metadata: OldMetadata | None = None
    timestamp: datetime | None = None


class Failure(msgspec.Struct, rename="camel"):
    """One entry of the validation_failure annotation (apiserver pkg/admission/plugin/policy/validating/dispatcher.go)."""

    policy: str = ""
    binding: str = ""
    message: str = ""
    expression_index: int | str | None = None
    validation_actions: list[str] | None = None


FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(Event))
