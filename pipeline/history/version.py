"""One version of an object, and its place in the history."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from ..request import Grade
from .event import Event, Raw

# Resources that one storage serves under several groups (kubernetes pkg/kubeapiserver/default_storage_factory_builder.go).
_STORED_AS = {
    ("events.k8s.io", "events"): "",
    ("extensions", "daemonsets"): "apps",
    ("extensions", "deployments"): "apps",
    ("extensions", "replicasets"): "apps",
    ("extensions", "ingresses"): "networking.k8s.io",
    ("extensions", "networkpolicies"): "networking.k8s.io",
}


class ObjectKey(NamedTuple):
    """The identity of an object apart from its uid: a name may be used again."""

    cluster: str
    group: str
    resource: str
    namespace: str
    name: str


def object_key(cluster: str, group: str, resource: str, namespace: str, name: str) -> ObjectKey:
    """The key under which all versions of one object are found. A Namespace lies in no namespace, though its URL suggests so."""
    if not group and resource == "namespaces":
        namespace = ""
    return ObjectKey(cluster, _STORED_AS.get((group, resource), group), resource, namespace, name)


class Form(StrEnum):
    """The content that an entry has of its version."""

    WHOLE = "whole"  # the body is the object
    METADATA = "metadata"  # the body is metadata alone; the rest is the version before
    CREATED = "created"  # the body is the client's object to create; `metadata` is that of the answer
    SCALE = "scale"  # the body is a Scale
    BINDING = "binding"  # the body is a Binding: the pod before, with a node
    MARKED = "marked"  # the version before, marked for deletion; no body
    OPAQUE = "opaque"  # changed in a way that is not recorded
    DISTURBED = "disturbed"  # perhaps changed, by a request on many objects whose answer named none of them
    FOUND = "found"  # the body is the object that a deletion met, perhaps with the marks of this deletion
    GONE = "gone"  # deleted


# The identity of a recorded write: clients choose auditIDs, and may give several requests the same one.
WriteId: TypeAlias = tuple[str, datetime]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one object. `since` is when the write was answered, `began` when it was received."""

    form: Form
    since: datetime
    began: datetime
    source: str
    audit_id: str = ""
    uid: str = ""
    resource_version: str = ""
    api_version: str = ""
    body: Raw | None = None
    metadata: Raw | None = None
    patch: str = ""  # of METADATA: the type of the patch that is the body
    previous: Version | None = None
    grade: Grade = Grade.INFERRED
    grace_seconds: int | None = None
    creates: bool = False  # the object did not exist before
    created: datetime | None = None  # of a snapshot, a read or a deletion that shows the object: its creationTimestamp
    found: Raw | None = None  # of a deletion: the object that it met, as the answer shows it
    sent: Event | None = None  # of OPAQUE: the write, if its body or its options would have been recorded
    doubt: str = ""  # why its write may have stored nothing, such as a dry run; empty if it stored this
    waits: bool = False  # of DISTURBED: a deleted object may have stayed, marked, regardless of its finalizers

    @property
    def write_id(self) -> WriteId:
        """Equal to that of the event that records this version."""
        return self.audit_id, self.since

    @property
    def resource_version_number(self) -> int | None:
        """The resourceVersion as a number, or None where it is absent or not one."""
        return int(self.resource_version) if self.resource_version.isdigit() else None


class Disturbance(NamedTuple):
    """A request that may have changed any object of a resource in a namespace; the log does not say which."""

    cluster: str
    group: str
    resource: str
    namespace: str
    version: Version
