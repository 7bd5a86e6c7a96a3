"""The stored object that a request met: `oldObject`.

An update's event holds the new object only. The old one is an earlier version of the same object, found through the order of
resourceVersions. If a body is missing in that order, the answer is Unknown, never the next older body.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..request import Evidence, Grade, Known, Object, Unknown, worst
from .attributes import Discovery
from .event import BodyKind, Decode, Event, Head, body_kind, head_of
from .evidence import LazyKnown
from .intended import may_apply
from .kinds import by_resource
from .objects import api_version_of, object_of
from .outcome import Admission, outcome_of
from .scale import ScalePaths, scale_from
from .version import Form, ObjectKey, Version
from .versions import Versions
from .writes import was_dry_run

_EVER_AFTER = datetime.max.replace(tzinfo=UTC)
NO_STORED_OBJECT: Known[Object | None] = Known(None, "the operation has no old object")


@dataclass(frozen=True, slots=True)
class Met:
    """The version that a write replaced, or that a refused write would have replaced, with its grade; `key` names the object."""

    key: ObjectKey
    version: Version | None
    grade: Grade

    @property
    def resource_version(self) -> str:
        """Empty where it is not known for sure."""
        return self.version.resource_version if self.version and self.grade is not Grade.PARTIAL else ""


def version_met(event: Event, key: ObjectKey, versions: Versions) -> Met:
    """The version of its object that a write met.

    An update names the version by the resourceVersion in its body. For other successful writes the order of versions gives it,
    unless they crossed a write of unknown resourceVersion. For refused writes time gives it, unless another write was under way.
    """
    body = event.request_head
    sent = body.meta.resource_version if event.verb == "update" and body.meta.resource_version != "0" else ""
    if sent and (version := versions.at(key, sent, but=event.write_id) or _unchanged(event, key, sent, versions)):
        return Met(key, version, Grade.INFERRED)
    found, is_dry = versions.before_write(key, event.write_id), was_dry_run(event)
    if event.succeeded and is_dry is not True and (found is not None or is_dry is False):
        crossed = versions.changed_between(key, event.ts, event.stage_ts, but=event.write_id, numbered=False)
        if sent and found and found.resource_version:
            found = None  # the client named the version that it met, and that version was not recorded
        answered = event.response_head.meta.resource_version
        if found and not found.audit_id and answered and found.resource_version == answered:
            # A snapshot is not taken at one moment: it may show the result of this write, unless the write changed nothing.
            return Met(key, found.previous, Grade.PARTIAL)
        return Met(key, found, Grade.PARTIAL if crossed else Grade.INFERRED)
    contended = versions.changed_between(key, event.ts, event.stage_ts, but=event.write_id)
    current = versions.current(key, event.ts)
    return Met(key, _undisturbed(event, current) if current else None, Grade.PARTIAL if contended else Grade.INFERRED)


def was_absent(event: Event, met: Met, versions: Versions, discovery: Discovery | None) -> bool:
    """Whether a refused apply would have created its object.

    The object had been deleted, its creation is recorded later, or nothing is recorded of it where every object is.
    """
    if met.grade is Grade.PARTIAL or met.version is not None:
        return met.grade is not Grade.PARTIAL and met.version is not None and met.version.form is Form.GONE
    if versions.absent_before(met.key, event.ts):
        return True
    is_unrecorded = versions.current(met.key, _EVER_AFTER) is None
    return is_unrecorded and discovery is not None and discovery.lists_all(event, event.ts)


def _undisturbed(event: Event, version: Version) -> Version:
    """The version before a deletecollection refused halfway, if this request found the object and no request can have marked it."""
    before = version.previous
    if version.form is not Form.DISTURBED or version.waits or before is None or before.form is not Form.WHOLE:
        return version
    found = outcome_of(event).admission not in (Admission.NOT_REACHED, Admission.UNKNOWN) and not may_apply(event)
    return before if found and not head_of(before.body).meta.finalizers else version


def _unchanged(event: Event, key: ObjectKey, sent: str, versions: Versions) -> Version | None:
    """The version that an update left if it changed nothing: the answer is then the old object too.

    Nothing was changed if the resourceVersion stayed, unless the update removed the last finalizer, which deletes the object.
    """
    answer = event.response_head
    if not event.succeeded or answer.meta.resource_version != sent or answer.meta.deletion_timestamp is not None:
        return None
    return versions.at(key, sent)


def old_object_of(event: Event, met: Met, decode: Decode) -> Evidence[Object | None]:
    """The stored object of an update, patch or delete."""
    version = met.version
    if version is None:
        return Unknown(f"no earlier version of {describe(met.key)} in the log or a snapshot")
    if version.form is Form.GONE:
        return Unknown(f"{describe(met.key)} was deleted before: {version.source}")
    told = _told_uid(event)
    if told and version.uid and told != version.uid:
        return Unknown(f"the last known version is of another object of that name: {version.source}")
    behind = object_of(version, decode)
    if isinstance(behind, Unknown):
        return behind
    found: Known[Object | None] = LazyKnown(lambda: behind.value, behind.source, worst(behind.grade, met.grade))
    if found.grade is Grade.PARTIAL and event.subresource == "status" and event.succeeded:
        found = _with_rest_of_response(event, found, decode)
    return _in_request_version(event, found, api_version_of(version))


def _with_rest_of_response(event: Event, found: Known[Object | None], decode: Decode) -> Known[Object | None]:
    """A write of `status` leaves the rest of the object alone, so that its answer shows the rest of the old one."""
    raw = event.response_raw
    if raw is None or body_kind(head_of(raw), raw) is not BodyKind.OBJECT:
        return found

    def read() -> Object:
        old = found.value or {}
        value: Object = decode(raw)
        value.pop("status", None)
        if "status" in old:
            value["status"] = old["status"]
        if "resourceVersion" in old.get("metadata", {}):
            value["metadata"] = old["metadata"]  # a controller may write annotations along with the status
        else:
            value["metadata"].pop("resourceVersion", None)
        return value

    return LazyKnown(read, f"responseObject with the status of {found.source}", Grade.PARTIAL)


def old_scale_of(parent: Evidence[Object | None], paths: Evidence[ScalePaths]) -> Evidence[Object | None]:
    """The Scale of the stored object, which keeps its parts at `paths`."""
    if isinstance(parent, Unknown):
        return parent
    if isinstance(paths, Unknown):
        return paths
    where = paths.value
    return LazyKnown(lambda: scale_from(parent.value or {}, where), parent.source, worst(parent.grade, paths.grade))


def deleted_object_of(event: Event, met: Met, decode: Decode) -> Evidence[Object | None]:
    """The stored object of a delete: an earlier version, else the object in the response without the marks of this deletion."""
    found = old_object_of(event, met, decode)
    if isinstance(found, Known) and found.grade is not Grade.PARTIAL:
        return found
    head = event.response_head
    if not event.succeeded or body_kind(head, event.response_raw) is not BodyKind.OBJECT:
        return found
    raw = event.response_raw
    assert raw is not None
    return LazyKnown(lambda: _without_marks(decode(raw), found), "responseObject without the marks of this deletion", Grade.PARTIAL)


def describe(key: ObjectKey) -> str:
    """An object in words: `deployments.apps shop/web`."""
    resource = f"{key.resource}.{key.group}" if key.group else key.resource
    return f"{resource} {key.namespace}/{key.name}" if key.namespace else f"{resource} {key.name}"


def _told_uid(event: Event) -> str:
    head: Head = event.response_head
    if head.kind and head.meta.uid:
        return head.meta.uid
    return event.request_head.meta.uid if event.verb == "update" else ""


def _in_request_version(event: Event, found: Known[Object | None], recorded: str) -> Evidence[Object | None]:
    """The object in the API version of the request: policies see it converted."""
    wanted = f"{event.resource.group}/{event.resource.version}".lstrip("/")
    if recorded in ("", wanted):
        return found
    if by_resource(event.resource.group, event.resource.resource) is not None:
        return Unknown(f"recorded as {recorded}, asked for as {wanted}; conversion between built-in versions is not known")
    # Custom resources without a conversion webhook differ between versions in nothing but this field.
    return LazyKnown(lambda: {**(found.value or {}), "apiVersion": wanted}, found.source, Grade.PARTIAL)


def _without_marks(value: Object, before: Evidence[Object | None]) -> Object:
    """A deleted object as it was stored: with its earlier marks, and without a resourceVersion, which is not recorded."""
    metadata = value.get("metadata", {})
    metadata.pop("resourceVersion", None)
    earlier = (before.value or {}).get("metadata", {}) if isinstance(before, Known) else {}
    marks = ("deletionTimestamp", "deletionGracePeriodSeconds")
    was_marked, is_marked = marks[0] in earlier, marks[0] in metadata
    for name in marks:
        metadata.pop(name, None)
        if name in earlier:
            metadata[name] = earlier[name]
    if is_marked and not was_marked and "generation" in metadata:
        metadata["generation"] -= 1
    return value
