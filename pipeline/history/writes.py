"""The versions that one recorded write gives of its object."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from ingest.altered import ALTERED_WORDS, altered_bodies
from ingest.notes import DRY_RUN
from queries.reach_rules import WRITE_VERBS

from ..request import Grade, Object, Unknown
from ..withheld import REDACTED_IN_PART
from .event import BodyKind, Event, Head, Meta, Raw, body_kind, decode_json, head_of, moment_of
from .kinds import by_resource
from .options import NO_URI, asks_dry_run, delete_options, query_of
from .outcome import Admission, outcome_of
from .patching import patch_type
from .version import Disturbance, Form, ObjectKey, Version, object_key
from .versions import LogVersions

# Those that an API server writes. An event without one of them does not say which parts it lacks.
LEVELS = ("Metadata", "Request", "RequestResponse")
# Subresources that create something next to the object and leave it as it was.
_BESIDE = frozenset({"token", "exec", "attach", "portforward", "proxy", "log"})


class _Row(msgspec.Struct):
    object: msgspec.Raw = msgspec.Raw()


class _Table(msgspec.Struct):
    rows: list[_Row] = []


class _List(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] = []
    kind: str = ""
    api_version: str = ""


class _DryRun(msgspec.Struct, rename="camel"):
    dry_run: list[str] = []


class _Eviction(msgspec.Struct, rename="camel"):
    delete_options: _DryRun | None = None


def versions_of(event: Event) -> Iterator[tuple[ObjectKey, Version]]:
    """The versions that a successful write made or a read showed; empty for refusals, dry runs and unfinished stages.

    `doubt` says of a version why its write may have stored nothing; the object's other versions may tell (see Timeline).
    """
    is_dry = was_dry_run(event) if event.verb in WRITE_VERBS else False
    if is_dry is not True:
        doubt = "" if event.code else f"the log has no answer to the write {event.audit_id}, which may have been refused"
        if isinstance(is_dry, Unknown):
            doubt = doubt or f"{is_dry.reason}, so the write {event.audit_id} may have been a dry run"
        for key, version in _shown_by(event):
            yield key, replace(version, doubt=doubt) if doubt and version.audit_id else version


def _shown_by(event: Event) -> Iterator[tuple[ObjectKey, Version]]:
    final = event.may_have_succeeded and event.stage == "ResponseComplete" and event.resource.resource
    if final and event.succeeded and event.verb == "get" and not event.subresource:
        yield from _read_version(event)
    if final and event.succeeded and event.verb == "list" and not event.subresource:
        yield from _listed_versions(event)
    if not final or event.verb not in WRITE_VERBS or event.subresource in _BESIDE:
        return
    if event.verb == "deletecollection":
        yield from _deleted_items(event)
        return
    head = event.response_head
    kind = body_kind(head, event.response_raw)
    key = key_of(event, head)
    if event.subresource in ("binding", "eviction") or event.resource.resource == "bindings":
        yield _pod_write(event, key)
    elif event.verb == "delete":
        yield key, _deleted(event, head, kind)
    elif event.subresource == "scale":
        version = _version(event, Form.SCALE if kind is BodyKind.OBJECT else Form.OPAQUE, head, body=event.response_raw)
        is_built_in = by_resource(event.resource.group, event.resource.resource) is not None
        # A custom resource's definition says where it keeps its replicas; it is not looked up here.
        yield key, version if is_built_in else replace(version, grade=Grade.PARTIAL)
    else:
        version = _written(event, head, kind)
        yield key, version
        if version.form is not Form.OPAQUE and _ends_with(head, event):
            yield key, _version(event, Form.GONE, head)


def _read_version(event: Event) -> Iterator[tuple[ObjectKey, Version]]:
    """The version that a recorded read shows. It has no audit_id, because this request did not write it."""
    head = event.response_head
    if body_kind(head, event.response_raw) is BodyKind.OBJECT:
        version = _version(event, Form.WHOLE, head, body=event.response_raw)
        yield key_of(event, head), replace(version, audit_id="", created=moment_of(head.meta.creation_timestamp))


def _listed_versions(event: Event) -> Iterator[tuple[ObjectKey, Version]]:
    """The versions that a recorded list shows. Its items lack the type, which the list has."""
    head = event.response_head
    if body_kind(head, event.response_raw) is not BodyKind.LIST:
        return
    kind, items = list_items(event.response_raw)
    named = b'{"kind":%s,"apiVersion":%s,' % (msgspec.json.encode(kind), msgspec.json.encode(head.api_version))
    for item in items:
        body = named + (item.encode() if isinstance(item, str) else item).lstrip()[1:].lstrip()
        own = head_of(body)
        if own.meta.name:
            place = event.cluster, event.resource.group, event.resource.resource, own.meta.namespace, own.meta.name
            version = _version(event, Form.WHOLE, own, body=body)
            created = moment_of(own.meta.creation_timestamp)
            yield object_key(*place), replace(version, audit_id="", created=created, creates=False)


def asks_for_dry_run(event: Event) -> bool | Unknown:
    """`request.dryRun`: from the DeleteOptions in the body of a delete, else from the query. Without a URI the answer may tell.

    The DeleteOptions inside an Eviction are those of the deletion to come, not of this request (kubernetes/apiserver
    pkg/endpoints/handlers/{create,delete}.go).
    """
    if event.request_raw is None or event.verb not in ("delete", "deletecollection"):
        return asks_dry_run(event.request_uri) if event.request_uri else _as_answered(event)
    try:
        return bool(msgspec.json.decode(event.request_raw, type=_DryRun).dry_run)
    except msgspec.DecodeError:
        return False


def _as_answered(event: Event) -> bool | Unknown:
    """Whether a write without a recorded URI was a dry run, by a mark of the export, a review of admission or its answer.

    Only storage gives a new object a resourceVersion. The answer to an update has another one than the object that the client sent
    only if it was stored (kubernetes/apiserver pkg/registry/generic/registry/dryrun.go).
    """
    if DRY_RUN in event.notes:
        return True
    if event.review is not None:
        return event.review.dry_run
    answered, sent = event.response_head.meta.resource_version, event.request_head.meta.resource_version
    if event.subresource or event.response_kind is not BodyKind.OBJECT:
        return NO_URI
    if event.verb == "create":
        return not answered
    return False if event.verb == "update" and answered and sent not in ("", "0", answered) else NO_URI


def was_dry_run(event: Event) -> bool | Unknown:
    """Whether the write changed nothing because it, or the deletion that an Eviction wants, was a dry run."""
    asked = asks_for_dry_run(event)
    if asked is True or event.subresource != "eviction" or event.request_raw is None:
        return asked
    try:
        nested = msgspec.json.decode(event.request_raw, type=_Eviction).delete_options
    except msgspec.DecodeError:
        return asked
    return True if nested is not None and nested.dry_run else asked


def key_of(event: Event, response: Head) -> ObjectKey:
    """The object that a write named; a generated name is known from the response alone."""
    meta = metadata_head(event.response_raw) if response.kind == "Table" else response.meta
    name = event.name or meta.name
    resource = "pods" if event.resource.resource == "bindings" else event.resource.resource
    return object_key(event.cluster, event.resource.group, resource, event.namespace, name)


def table_metadata(raw: Raw | None) -> Raw | None:
    """The PartialObjectMetadata in the one row of a Table that answers a write, or None."""
    if raw is None:
        return None
    try:
        rows = msgspec.json.decode(raw, type=_Table).rows
    except msgspec.DecodeError:
        return None
    found = bytes(rows[0].object) if len(rows) == 1 else b""
    return found if found not in (b"", b"null") else None


def metadata_head(raw: Raw | None) -> Meta:
    """The identifying part of the metadata in a Table that answers a write."""
    return head_of(table_metadata(raw)).meta


def list_items(raw: Raw | None) -> tuple[str, list[Raw]]:
    """The kind and the raw items of a list body."""
    if raw is None:
        return "", []
    try:
        found = msgspec.json.decode(raw, type=_List)
    except msgspec.DecodeError:
        return "", []
    return found.kind.removesuffix("List"), [bytes(item) for item in found.items]


def answered_metadata(event: Event) -> Object | None:
    """The metadata in an answer that shows metadata alone, or None."""
    head = event.response_head
    kind = body_kind(head, event.response_raw)
    raw = table_metadata(event.response_raw) if kind is BodyKind.TABLE else event.response_raw
    if raw is None or kind not in (BodyKind.TABLE, BodyKind.METADATA) or not event.succeeded:
        return None
    metadata: Object = decode_json(raw)["metadata"]
    return metadata


def disturbance_of(event: Event) -> Disturbance | None:
    """The possible changes of a deletecollection that no list shows: it was refused halfway, or recorded without its answer."""
    if event.verb != "deletecollection" or event.stage != "ResponseComplete" or event.subresource or was_dry_run(event) is True:
        return None
    admission = outcome_of(event).admission
    listed = event.response_kind is BodyKind.LIST
    if admission is Admission.NOT_REACHED or (event.succeeded and listed):
        return None
    version = Version(
        form=Form.DISTURBED,
        since=event.stage_ts,
        began=event.ts,
        source=f"{event.label}: {why_no_body(event)}",
        audit_id=event.audit_id,
        waits=event.resource.resource in ("pods", "namespaces") or _asks_for_finalizers(event),
    )
    place = object_key(event.cluster, event.resource.group, event.resource.resource, event.namespace, "")
    return Disturbance(*place[:4], version)


def _asks_for_finalizers(event: Event) -> bool:
    """Whether a deletion waits for the garbage collector (apiserver registry/store.go, deletionFinalizersForGarbageCollection)."""
    body = decode_json(event.request_raw) if event.request_raw is not None else None
    options = delete_options(query_of(event.request_uri), body)
    return options.get("propagationPolicy") in ("Foreground", "Orphan") or options.get("orphanDependents") is True


def record(event: Event, versions: LogVersions) -> None:
    """Enter the object versions of one event. A body that nests too deep to be read was written all the same."""
    try:
        found, disturbance = list(versions_of(event)), disturbance_of(event)
    except RecursionError:
        found, disturbance = [(key_of(event, Head()), _version(event, Form.OPAQUE, Head()))], None
    for key, version in found:
        versions.add(key, version)
    if disturbance:
        versions.disturb(disturbance)
    if event.verb == "deletecollection" and event.succeeded and was_dry_run(event) is False:
        place = object_key(event.cluster, event.resource.group, event.resource.resource, event.namespace, "")
        versions.sweep(place, event.stage_ts)


def keeps_bodies(event: Event) -> bool:
    """Whether a body would have been recorded if the client had sent one."""
    if event.level not in ("Request", "RequestResponse") or "requestObject" in altered_bodies(event.notes):
        return False
    return not is_truncated(event) and "objects_expired" not in event.flags


def is_truncated(event: Event) -> bool:
    """Whether the server dropped the bodies of an event that was too large."""
    return "truncated" in event.flags or "audit.k8s.io/truncated" in event.annotations


def why_no_body(event: Event) -> str:
    """Why the response of a write is not the object, in words for a report."""
    if event.response_raw is None:
        return why_not_kept(event, "responseObject")
    return f"the answer was a {event.response_head.kind or 'body of no kind'}"


def why_not_kept(event: Event, body: str = "requestObject") -> str:
    """Why an event lacks a body, in words for a report."""
    if is_truncated(event):
        return "the event was truncated"
    if "objects_expired" in event.flags:
        return "its bodies were dropped when their retention ended"
    if (problem := altered_bodies(event.notes).get(body)) is not None:
        return ALTERED_WORDS[problem]
    if event.level not in LEVELS:
        return f"the audit level is unknown: the event says {event.level!r}"
    if event.level in ("Request", "RequestResponse") and "redacted" in event.flags:
        return "redaction removed its bodies, which hold credentials"
    return f"the audit level was {event.level}"


def _source(event: Event, form: Form) -> str:
    if form is Form.OPAQUE:
        return f"{event.label}: {why_no_body(event)}"
    shown = "response to" if event.review is None or event.level == "RequestResponse" else "admission review of"
    return f"{shown} {event.label}; {REDACTED_IN_PART}" if event.is_redacted else f"{shown} {event.label}"


def _version(event: Event, form: Form, head: Head, body: Raw | None = None, metadata: Raw | None = None) -> Version:
    return Version(
        form=form,
        since=event.stage_ts,
        began=event.ts,
        source=_source(event, form),
        audit_id=event.audit_id,
        uid=head.meta.uid,
        resource_version=head.meta.resource_version,
        api_version=head.api_version,
        body=body,
        metadata=metadata,
        grade=Grade.PARTIAL if "redacted" in event.flags else Grade.INFERRED,
        grace_seconds=head.meta.deletion_grace_period_seconds,
        creates=event.code == 201 and not event.subresource,
        sent=event if form is Form.OPAQUE and event.response_raw is None and keeps_bodies(event) else None,
    )


def _written(event: Event, head: Head, kind: BodyKind) -> Version:
    if kind is BodyKind.OBJECT:
        return _version(event, Form.WHOLE, head, body=event.response_raw)
    if kind not in (BodyKind.METADATA, BodyKind.TABLE):
        return _version(event, Form.OPAQUE, head)
    metadata = event.response_raw if kind is BodyKind.METADATA else table_metadata(event.response_raw)
    if metadata is None:
        return _version(event, Form.OPAQUE, head)
    told = head_of(metadata)
    if event.verb == "patch":
        # The garbage collector patches finalizers and owners and asks for metadata alone; other patches may change more.
        changed = _version(event, Form.METADATA, told, body=event.request_raw, metadata=metadata)
        if event.request_raw is None:
            return changed
        patch = decode_json(event.request_raw)
        return replace(changed, patch=patch_type(patch, event.request_uri, event.resource, event.subresource).value)
    if event.request_raw is None:
        return _version(event, Form.OPAQUE, told)
    asked = event.request_head.api_version
    return replace(_version(event, Form.CREATED, told, body=event.request_raw, metadata=metadata), api_version=asked)


def _ends_with(head: Head, event: Event) -> bool:
    """An update that removes the last finalizer of a marked object deletes it (registry/store.go, deleteWithoutFinalizers)."""
    meta = head.meta
    if meta.deletion_timestamp is None or meta.finalizers:
        return False
    if event.resource.resource == "namespaces" and not event.resource.group:
        return event.subresource == "finalize"
    return not meta.deletion_grace_period_seconds


def _deleted(event: Event, head: Head, kind: BodyKind) -> Version:
    if kind is BodyKind.NONE:
        return _version(event, Form.OPAQUE, head)
    if kind is not BodyKind.OBJECT:
        # The Status of a deletion carries a uid in its details only, and no resourceVersion.
        return _version(event, Form.GONE, Head())
    if stays_after_delete(head, event.resource.resource):
        version = _version(event, Form.WHOLE, head, body=event.response_raw)
    else:
        version = _version(event, Form.GONE, head)
    return replace(version, found=event.response_raw, created=moment_of(head.meta.creation_timestamp))


def stays_after_delete(head: Head, resource: str) -> bool:
    """Whether the object that a DELETE returned is still there: it waits for its grace period, its finalizers or its content."""
    meta = head.meta
    waits = bool(meta.deletion_grace_period_seconds) or bool(meta.finalizers) or resource == "namespaces"
    return meta.deletion_timestamp is not None and waits


def _deleted_items(event: Event) -> Iterator[tuple[ObjectKey, Version]]:
    """The server answers with the items as it listed them, before it deleted each (registry/store.go, DeleteCollection)."""
    kind, items = list_items(event.response_raw)
    api_version = f"{event.resource.group}/{event.resource.version}".lstrip("/")
    for raw in items:
        head = head_of(raw)
        key = object_key(event.cluster, event.resource.group, event.resource.resource, head.meta.namespace, head.meta.name)
        waits = bool(head.meta.finalizers) or event.resource.resource in ("pods", "namespaces")
        version = _version(event, Form.MARKED if waits else Form.GONE, Head(metadata=Meta(uid=head.meta.uid)))
        shown = raw if head.kind else _with_kind(raw, kind, api_version)
        yield key, replace(version, api_version=api_version, found=shown, created=moment_of(head.meta.creation_timestamp))


def _with_kind(raw: Raw, kind: str, api_version: str) -> Raw:
    """An item of a built-in list, with the kind and apiVersion that only the list itself has."""
    fields = msgspec.json.decode(raw)
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, **fields}) if isinstance(fields, dict) else raw


def _pod_write(event: Event, key: ObjectKey) -> tuple[ObjectKey, Version]:
    """Binding and eviction answer with a Status, without the new resourceVersion of the pod."""
    request = event.request_head
    form = Form.MARKED if event.subresource == "eviction" else Form.BINDING
    if form is Form.BINDING and event.request_raw is None:
        form = Form.OPAQUE
    name = event.name or request.meta.name
    return key._replace(name=name), _version(event, form, Head(metadata=Meta(uid=request.meta.uid)), body=event.request_raw)
