"""From the bytes of events to rows of the lake's `events` table.

Bodies go through byte for byte: they are evidence, and re-encoding would lose duplicate keys, number spellings and key order. What
cannot be decoded is returned with its reason and costs no other event.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from .altered import ALTERED, OTHER_RESOURCE, renamed_with, restored, why_no_body
from .event import ABSENT, FIELDS, VALIDATION_FAILURE, Event, Failure, LenientEvent, ObjectRef, OldMetadata, Person, Status, User
from .nesting import nests_too_deep
from .notes import REDACTED, REVIEW, TRANSLATED, parted
from .redaction.redact import tells_of_request
from .reviewed import MEMBERS, REVIEWED
from .schema import EVENTS
from .server.paths import resource_path
from .server.words import REDACTED as REDACTED_TEXT

_strict = msgspec.json.Decoder(Event)
_lenient = msgspec.json.Decoder(LenientEvent)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_failures = msgspec.json.Decoder(list[Failure])
_person = msgspec.json.Decoder(Person)
_extra = msgspec.json.Decoder(dict[str, list[str] | None])
_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

_NO_USER, _NO_REF, _NO_STATUS, _NO_METADATA = User(), ObjectRef(), Status(), OldMetadata()
_INT32 = range(-(2**31), 2**31)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
# The end of what datetime can hold, less a year: the code adds spans to the times of events.
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
# Rows become columns while they are still in the processor's cache; measured a third faster than a whole batch at once.
_CHUNK_ROWS = 2_000
_TOO_BIG = b'"skipped-too-big-size-object"'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOO_DEEP = "nested too deep to decode"


class NotAnEventError(ValueError):
    """The bytes are JSON but not an audit event; the text says why."""


@dataclass(slots=True)
class Rejected:
    """A line that is not an event: its position in the batch, its bytes, and the reason."""

    index: int
    raw: bytes
    reason: str


@dataclass(slots=True)
class Decoded:
    """One batch: `table` has the columns of schema.EVENTS, one row per accepted line in order; `rejected` has the others."""

    table: pa.Table
    rejected: list[Rejected] = field(default_factory=list)


def decode_events(lines: Iterable[bytes], cluster: str, ingest_ts: datetime, source: str) -> Decoded:
    """Decode one batch of raw events of one cluster; `source` names where they came from (`webhook`, a file's path)."""
    tables: list[pa.Table] = []
    rows: list[tuple[Any, ...]] = []
    rejected: list[Rejected] = []
    with paused_collector():
        for index, line in enumerate(lines):
            try:
                rows.append(_row(line))
            except (ValueError, RecursionError) as error:  # UnicodeDecodeError and msgspec's errors are ValueErrors
                rejected.append(Rejected(index, line, _reason(line, error)))
            if len(rows) == _CHUNK_ROWS:
                tables.append(_table(rows, cluster, ingest_ts, source))
                rows.clear()
        tables.append(_table(rows, cluster, ingest_ts, source))
        rows.clear()  # before the collector, which would walk all of them, may run again
    return Decoded(pa.concat_tables(tables), rejected)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Decoding makes many objects and no cycles; the cyclic collector would only walk them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# The order of the values that _row returns. The rest of schema.EVENTS is the same for a whole batch.
_ROW = tuple(name for name in EVENTS.names if name not in ("cluster", "ingest_ts", "ingest_source"))
# These hold bytes of the line itself, which _row has found to be UTF-8; they become text without a second check.
_RAW = frozenset(("user_extra", "impersonated_user", "request_object", "response_object", "extra", "review"))


def _row(line: bytes) -> tuple[Any, ...]:
    flags: list[str] = []
    if not line.isascii():
        line = _utf8(line, flags)
    event, extra, ts, stage_ts = _event(line)
    version = event.api_version
    if version is not None and version.startswith(_AUDIT_GROUP) and version not in _VERSIONS:
        raise NotAnEventError(f"an event of {version}, which this version does not know; it knows {', '.join(_VERSIONS)}")
    if nests_too_deep(line):
        raise NotAnEventError(_TOO_DEEP)
    user = event.user or _NO_USER
    uri, changed = event.request_uri, []
    if _contradicts(event):
        uri, changed = None, [f"requestURI={OTHER_RESOURCE}"]
        extra = _encoder.encode((_fields.decode(extra) if extra else {}) | {"requestURI": event.request_uri})
    ref = _reference(event, uri)
    status = event.response_status or _NO_STATUS
    group, version = ref.api_group, ref.api_version
    if ref.resource:
        if version and "/" in version and not group:
            # v1alpha1 wrote both into one field (kubernetes/apiserver pkg/apis/audit/v1alpha1/conversion.go).
            group, version = version.rsplit("/", 1)
        group = group or ""  # objectRef omits an empty group, which is the core group
    code = status.code
    if code is not None and code not in _INT32:
        raise NotAnEventError(f"responseStatus.code {code} is not an HTTP status")
    annotations, notes = parted(event.annotations) if event.annotations else ({}, {})
    separator = renamed_with(annotations)
    annotations = restored(annotations, separator)
    extra, review = _review(extra, notes)
    bodies = _bodies(event, flags, changed, separator)
    if changed:
        notes[ALTERED] = ",".join(changed)
    return (
        event.audit_id,
        event.stage,
        stage_ts,
        ts,
        event.level,
        event.verb,
        uri,
        user.username,
        user.uid or None,
        user.groups or (),
        _fitting(user.extra, _extra, "user.extra"),
        _fitting(event.impersonated_user, _person, "impersonatedUser"),
        event.source_ips or (),
        event.user_agent,
        group,
        version,
        ref.resource,
        ref.subresource,
        ref.namespace if ref.namespace is None else _namespace(event.verb, uri, ref.namespace),
        ref.name,
        ref.uid,
        ref.resource_version,
        code,
        status.reason,
        status.message,
        tuple(annotations.items()),
        tuple(notes.items()),
        _annotated(annotations, notes, flags) if annotations or notes else (),
        *bodies,
        extra,
        review,
        flags,
    )


def _review(extra: bytes | None, notes: dict[str, str]) -> tuple[bytes | None, bytes | None]:
    """The fields without a column, and those of a review that Hindcast made into an event. Of any other event they are its own."""
    if extra is None or REVIEW not in notes:
        return extra, None
    fields = _fields.decode(extra)
    own = {name: fields.pop(name) for name in MEMBERS if name in fields}
    return _encoder.encode(fields) if fields else None, _encoder.encode(own)


def _contradicts(event: Event) -> bool:
    """Whether the URI does not name the resource of objectRef. A server reads both from one URL, so a tool made this one up.

    Entries of GKE that other tools turned into events have such URIs: /core/v1/namespaces/n/pods/p.
    """
    ref, uri = event.object_ref, event.request_uri
    if ref is None or not ref.resource or not uri or _names(uri, ref) or REDACTED_TEXT in uri:
        return False
    found = resource_path(uri)
    if found is None:
        return not uri.startswith(_OLD_RESOURCES)
    is_other_group = ref.api_group not in (None, "", _CORE, found.group)
    return found.resource != ref.resource or is_other_group


def _names(uri: str, ref: ObjectRef) -> bool:
    """Whether a URI is of the usual form for a resource; `_contradicts` is exact."""
    prefix = f"/apis/{ref.api_group}/{ref.api_version}/" if ref.api_group else f"/api/{ref.api_version}/"
    if not uri.startswith(prefix):
        return False
    place = f"namespaces/{ref.namespace}/{ref.resource}" if ref.namespace else ref.resource or ""
    return uri.startswith(place, len(prefix)) and uri[len(prefix) + len(place) :][:1] in ("", "/", "?")


def _reference(event: Event, uri: str | None) -> ObjectRef:
    """objectRef, completed from the URI. A server writes all that the URI says; only a log that was trimmed lacks a part."""
    ref = event.object_ref or _NO_REF
    if ref.api_group == _CORE:  # no server serves a group of this name, which some tools give the group without one
        ref = msgspec.structs.replace(ref, api_group=None)
    if not uri or not uri.startswith(_RESOURCES) or _is_whole(ref, uri):
        return ref
    found = resource_path(uri)
    if found is None or not found.resource or (found.namespace and found.group in _IN_NO_NAMESPACE):
        return ref
    return ObjectRef(
        ref.resource or found.resource,
        ref.namespace or found.namespace or None,
        ref.name or found.name or None,
        ref.uid,
        ref.api_group or found.group or None,
        ref.api_version or found.version,
        ref.resource_version,
        ref.subresource or found.subresource or None,
    )


def _is_whole(ref: ObjectRef, uri: str) -> bool:
    """Whether a reference has all that an ordinary URI says. A path ends with the last part that it names."""
    if not (ref.resource and ref.api_version and (ref.api_group or uri[:6] != "/apis/")):
        return False
    if not ref.namespace and "/namespaces/" in uri:
        return False
    last = uri.partition("?")[0].rpartition("/")[2]
    # The server takes the name of a new object from the body.
    return bool(ref.name and last == (ref.subresource or ref.name)) or (last == ref.resource and not ref.subresource)


_AUDIT_GROUP = "audit.k8s.io/"
_VERSIONS = ("audit.k8s.io/v1", "audit.k8s.io/v1beta1", "audit.k8s.io/v1alpha1")
_RESOURCES = ("/api/", "/apis/")
_OLD_RESOURCES = "/oapi/"  # of OpenShift 3
_CORE = "core"
# No resource of these groups is in a namespace, so a URL that puts one there names nothing.
_IN_NO_NAMESPACE = frozenset({"admissionregistration.k8s.io", "apiextensions.k8s.io"})


def _namespace(verb: str | None, uri: str | None, told: str) -> str | None:
    """The namespace of the request.

    When objectRef lacks a namespace, the server fills it in from the body (kubernetes/apiserver pkg/audit/request.go,
    LogRequestObject). So a cluster-scoped object that names a namespace seems to be in it. The store, admission and authorizers go
    by the URL.
    """
    if verb not in ("create", "update") or not uri or "/namespaces/" in uri:
        return told
    return None if _CLUSTER_URL.match(uri) else told


# The path of a resource that is in no namespace.
_CLUSTER_URL = re.compile(r"/(?:api|apis/[^/?]+)/v[^/?]+/[^/?]+")


def _utf8(line: bytes, flags: list[str]) -> bytes:
    """The line as UTF-8, which JSON must be. Invalid bytes are replaced and flagged, so that the rest of the event is kept as
    evidence."""
    try:
        line.decode()
    except UnicodeDecodeError:
        flags.append("utf8_replaced")
        line = line.decode("utf-8", "replace").encode()
    return line.removeprefix(_BYTE_ORDER_MARK)


def _event(line: bytes) -> tuple[Event, bytes | None, datetime, datetime]:
    """The typed event; the fields without a column in the lake, as JSON; requestReceivedTimestamp; stageTimestamp.

    If one of the two times is missing, it is the other one.
    """
    extra: dict[str, Any] = {}
    try:
        event = _strict.decode(line)
        ts, stage_ts = _utc(event.request_ts), _utc(event.stage_ts)
    except msgspec.ValidationError:
        event = old = _lenient.decode(line)
        extra = {name: raw for name, raw in _fields.decode(line).items() if name not in FIELDS}
        # Reads the older versions as the API server does (kubernetes/apiserver pkg/apis/audit/v1beta1/conversion.go).
        ts = _utc(old.request_ts) or _utc(old.timestamp)
        stage_ts = _utc(old.stage_ts) or _utc((old.metadata or _NO_METADATA).created_ts)
    stage_ts = stage_ts or ts
    if stage_ts is None:  # it is part of a row's identity
        raise NotAnEventError("neither stageTimestamp nor requestReceivedTimestamp is set")
    ts = ts or stage_ts  # so that every stage judges the request, as of the moment at which it was surely received
    status = event.response_status
    if status is not None and (details := _body(status.details)):
        extra["responseStatus"] = {"details": msgspec.Raw(details)}
    return event, _encoder.encode(extra) if extra else None, ts, stage_ts


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise NotAnEventError(f"the time {moment.isoformat()} has no zone; give --zone")
    if moment >= _LATEST:
        raise NotAnEventError(f"the time {moment.isoformat()} is at the end of time")
    return moment if moment >= _EARLIEST else None  # Go's zero time stands for "not set"


def _body(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a field as received; None where it was absent or null."""
    if raw is ABSENT:
        return None
    data = bytes(raw)
    return None if data == b"null" else data


def _fitting(raw: msgspec.Raw, decoder: msgspec.json.Decoder[Any], name: str) -> bytes | None:
    """The bytes of a field that has one form. Raises NotAnEventError for any other form, because the request would be unknown
    then."""
    data = _body(raw)
    if data is not None:
        try:
            decoder.decode(data)
        except msgspec.DecodeError as error:
            raise NotAnEventError(f"{name} names no user: {error}") from error
    return data


def _object(raw: msgspec.Raw, flags: list[str]) -> bytes | None:
    """The bytes of a body. AKS replaces a large body by a text (learn.microsoft.com, Azure Monitor table AKSAudit)."""
    data = _body(raw)
    if data == _TOO_BIG:
        if "truncated" not in flags:
            flags.append("truncated")
        return None
    return data


def _bodies(event: Event, flags: list[str], changed: list[str], separator: str) -> list[bytes | None]:
    """Both bodies. One that no server writes does not count; `changed` gets it with the reason."""
    found: list[bytes | None] = []
    for name, raw in (("requestObject", event.request_object), ("responseObject", event.response_object)):
        data = _object(raw, flags)
        problem = None if data is None else why_no_body(name, event.verb, event.level, data, separator)
        found.append(data if problem is None else None)
        if problem:
            changed.append(f"{name}={problem}")
            flags += [] if ALTERED in flags else [ALTERED]
    return found


def _annotated(annotations: dict[str, str], notes: dict[str, str], flags: list[str]) -> list[dict[str, Any]] | tuple[()]:
    """The policy failures that the annotations report; also sets the flags for other annotations and for notes."""
    if annotations.get("audit.k8s.io/truncated") == "true":
        flags.append("truncated")
    if REDACTED in notes and tells_of_request(notes[REDACTED]):
        flags.append("redacted")
    if TRANSLATED in notes:
        flags.append("translated")
    if REVIEW in notes:
        flags.append(REVIEWED)
    text = annotations.get(VALIDATION_FAILURE)
    if text is None:
        return ()
    try:
        return [_failure(failure) for failure in _failures.decode(text)]
    except (ValueError, RecursionError):
        # The text itself stays in the annotations column; only its parsed form is missing.
        flags.append("annotation_malformed")
        return ()


def _failure(failure: Failure) -> dict[str, Any]:
    # Servers write a number, the API's documentation a string.
    index = None if failure.expression_index is None else int(failure.expression_index)
    if index is not None and index not in _INT32:
        raise ValueError("expressionIndex is not an index")
    return {
        "policy": failure.policy,
        "binding": failure.binding,
        "message": failure.message,
        "expression_index": index,
        "actions": failure.validation_actions or [],
    }


def _reason(line: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, msgspec.ValidationError):
        try:
            found = _anything.decode(line)
        except (ValueError, RecursionError):
            return f"no audit event: {error}"
        if isinstance(found, dict) and "auditID" not in found:
            kind, version = found.get("kind") or "JSON", found.get("apiVersion") or "no apiVersion"
            return f"no audit event but {kind} of {version}: it has no auditID"
        return f"no audit event: {error}"
    return f"no JSON: {error}" if isinstance(error, msgspec.DecodeError) else str(error)


def _table(rows: list[tuple[Any, ...]], cluster: str, ingest_ts: datetime, source: str) -> pa.Table:
    columns = dict(zip(_ROW, zip(*rows, strict=True) if rows else ((),) * len(_ROW), strict=True))
    constant = {"cluster": cluster, "ingest_ts": ingest_ts, "ingest_source": source}
    arrays: list[pa.Array[Any]] = []
    for item in EVENTS:
        if item.name in constant:
            arrays.append(pa.repeat(pa.scalar(constant[item.name], item.type), len(rows)))
        elif item.name in _RAW:
            arrays.append(pa.array(columns[item.name], pa.binary()).view(item.type))
        else:
            arrays.append(pa.array(columns[item.name], item.type))
    return pa.Table.from_arrays(arrays, schema=EVENTS)
