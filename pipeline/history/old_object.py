"""Which stored object a request met: `oldObject`.

An update is recorded with the new object only. The old one is an earlier version of the same object, found through the order of
resourceVersions; where a body is missing in that order the answer is Unknown, never the next older body.
"""

from __future__ import annotations

from ..request import Evidence, Grade, Known, Object, Unknown, worst
from .event import BodyKind, Decode, Event, Head, body_kind, head_of
from .evidence import LazyKnown
from .kinds import by_resource
from .objects import api_version_of, object_of
from .scale import scale_from
from .versions import Form, ObjectKey, Version, Versions
from .writes import was_dry_run

NO_STORED_OBJECT: Known[Object | None] = Known(None, "the operation has no old object")


def version_met(event: Event, key: ObjectKey, versions: Versions) -> tuple[Version | None, Grade]:
    """The version that a write replaced, or that a refused one would have, and how sure that is.

    A successful write is found in the order of versions. Of a refused one the version is told by the resourceVersion in its body,
    else by time; another write that was under way at the same time makes that uncertain.
    """
    if event.succeeded and not was_dry_run(event):
        return versions.before_write(key, event.audit_id), Grade.INFERRED
    body = head_of(event.request_raw)
    sent = body.meta.resource_version if event.verb == "update" else ""
    if sent and sent != "0" and (version := versions.at(key, sent)):
        return version, Grade.INFERRED
    contended = versions.changed_between(key, event.ts, event.stage_ts)
    return versions.current(key, event.ts), Grade.PARTIAL if contended else Grade.INFERRED


def old_object_of(event: Event, key: ObjectKey, versions: Versions, decode: Decode) -> Evidence[Object | None]:
    """The stored object of an update, patch or delete."""
    version, grade = version_met(event, key, versions)
    if version is None:
        return Unknown(f"no earlier version of {describe(key)} in the log or a snapshot")
    problem = _problem(event, version)
    if problem:
        return Unknown(problem)
    found = object_of(version, decode)
    if isinstance(found, Unknown):
        return found
    if version.form is Form.GONE:
        return Unknown(f"{describe(key)} was deleted before: {version.source}")
    return _in_request_version(event, found, api_version_of(version), worst(found.grade, grade))


def old_scale_of(parent: Evidence[Object | None]) -> Evidence[Object | None]:
    """The Scale of the stored object."""
    if isinstance(parent, Unknown):
        return parent
    return LazyKnown(lambda: scale_from(parent.value or {}), parent.source, parent.grade)


def deleted_object_of(event: Event, key: ObjectKey, versions: Versions, decode: Decode) -> Evidence[Object | None]:
    """The stored object of a delete: an earlier version, else what the response returned, without the marks of the deletion."""
    found = old_object_of(event, key, versions, decode)
    if isinstance(found, Known):
        return found
    head = head_of(event.response_raw)
    if not event.succeeded or body_kind(head, event.response_raw) is not BodyKind.OBJECT:
        return found
    raw = event.response_raw
    assert raw is not None
    return LazyKnown(lambda: _without_marks(decode(raw)), "responseObject without the marks of deletion", Grade.PARTIAL)


def describe(key: ObjectKey) -> str:
    """An object in words: `deployments.apps shop/web`."""
    resource = f"{key.resource}.{key.group}" if key.group else key.resource
    return f"{resource} {key.namespace}/{key.name}" if key.namespace else f"{resource} {key.name}"


def _problem(event: Event, version: Version) -> str:
    """Why a version cannot be the one that was met, or nothing."""
    told = _told_uid(event)
    if told and version.uid and told != version.uid:
        return f"the last known version is of another object of that name: {version.source}"
    return ""


def _told_uid(event: Event) -> str:
    head: Head = head_of(event.response_raw)
    if head.kind and head.meta.uid:
        return head.meta.uid
    return head_of(event.request_raw).meta.uid if event.verb == "update" else ""


def _in_request_version(event: Event, found: Known[Object | None], recorded: str, grade: Grade) -> Evidence[Object | None]:
    """The object in the API version of the request: policies see it converted."""
    wanted = f"{event.resource.group}/{event.resource.version}".lstrip("/")
    if recorded in ("", wanted):
        return LazyKnown(lambda: found.value, found.source, grade)
    if by_resource(event.resource.group, event.resource.resource) is not None:
        return Unknown(f"recorded as {recorded}, asked for as {wanted}; conversion between built-in versions is not known")
    # Custom resources without a conversion webhook differ between versions in nothing but this field.
    return LazyKnown(lambda: {**(found.value or {}), "apiVersion": wanted}, found.source, Grade.PARTIAL)


def _without_marks(value: Object) -> Object:
    metadata = value.get("metadata", {})
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
    return value
