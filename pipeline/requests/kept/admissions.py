"""Admission requests that only the history of their objects tells, as rows: no policy decides what they are, so once is enough.

A row holds the record of the request without its bodies, and what reconstruction made of it: the objects that validating admission
saw, with their sources and grades, or the reason why the request is not evaluated. Of an attempt, it holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from ingest.schema import EVENTS

from ...history.attributes import namespace_of_request
from ...history.event import TOO_DEEP, Event, decode_json
from ...history.evidence import LazyKnown
from ...history.fitness import UNFIT
from ...history.outcome import Admission
from ...history.reconstruct import Attempt, NotReplayed
from ...request import AdmissionRequest, Evidence, Grade, GroupVersionKind, Known, Object, Operation, Unknown

# The columns of the record. A body is kept only as the object that was made of it.
_RECORDED = [
    "cluster", "audit_id", "stage", "stage_ts", "ts", "level", "verb", "request_uri", "user_agent",
    "user_name", "user_uid", "user_groups", "user_extra", "impersonated_user",
    "api_group", "api_version", "resource", "subresource", "namespace", "name",
    "code", "status_reason", "status_message", "annotations", "notes", "flags",
]  # fmt: skip
_PLANNED = ["class", "is_plain", "object_key", "sweep_key"]
_TEXT = pa.string()
_MADE = {
    "reason": _TEXT,  # why it is not evaluated; null if it is
    "admission": _TEXT,  # see Admission; null if it is evaluated
    "unfit": _TEXT,  # why a body of the event is not an object of Kubernetes; empty if all are
    "untried": _TEXT,  # of an attempt: why its requests are not known, or empty; null of a request that is no attempt
    "parts": _TEXT,  # JSON of Parts; few are distinct
    "object_name": _TEXT,
    "object": _TEXT,  # JSON; null if it is unknown, or null itself
    "object_source": _TEXT,  # or the reason why it is unknown
    "old_object": _TEXT,
    "old_source": _TEXT,
}
# One row per request. The first four columns are those of `planned.sql`; see `Kept` for the columns that are made.
_FIELDS: list[pa.Field[Any]] = [
    pa.field("class", pa.int32(), nullable=False),
    pa.field("is_plain", pa.bool_(), nullable=False),
    pa.field("object_key", pa.uint64(), nullable=False),
    pa.field("sweep_key", pa.uint64(), nullable=False),
    *(EVENTS.field(name).with_nullable(True) for name in _RECORDED),
    *(pa.field(name, text) for name, text in _MADE.items()),
]
ADMISSIONS = pa.schema(_FIELDS)
# A request whose values cannot be read as a whole, or that has several passes, is not kept.
Outcome: TypeAlias = list[AdmissionRequest] | NotReplayed | Attempt
_UNREADABLE = (*UNFIT, RecursionError)
_encode = msgspec.json.Encoder().encode


class _Value(msgspec.Struct, array_like=True, frozen=True):
    """Evidence without its value: a grade, or `is_known` false."""

    is_known: bool
    grade: Grade
    is_null: bool = False


class Parts(msgspec.Struct, array_like=True, frozen=True):
    """The parts of a request that are equal in many."""

    operation: Operation
    kind: tuple[str, str, str] | None
    kind_source: str  # or the reason why it is unknown; so for the others
    kind_grade: Grade
    name: _Value
    name_source: str
    dry_run: bool | None  # None: unknown, for the reason of the options
    options: dict[str, Any] | None
    options_known: bool
    options_source: str
    options_grade: Grade
    object: _Value
    old_object: _Value


class Kept(NamedTuple):
    """The columns of a row that reconstruction makes."""

    reason: str | None
    admission: str | None
    unfit: str
    untried: str | None = None
    parts: str | None = None
    object_name: str | None = None
    object: str | None = None
    object_source: str | None = None
    old_object: str | None = None
    old_source: str | None = None


def kept_of(outcome: Outcome, unfit: str) -> Kept | None:
    """The kept row of a request; None if it cannot be kept. `unfit` says why a body is not an object of Kubernetes."""
    if isinstance(outcome, NotReplayed):
        # How deep a body may nest depends on the process that reads it.
        return None if outcome.reason == TOO_DEEP else Kept(outcome.reason, outcome.admission.value, unfit)
    if isinstance(outcome, Attempt):
        return _kept_attempt(outcome, unfit)
    return _kept_requests(outcome, Kept(None, None, unfit))


def _kept_attempt(attempt: Attempt, unfit: str) -> Kept | None:
    stopped = attempt.stopped
    found = Kept(stopped.reason if stopped else None, stopped.admission.value if stopped else None, unfit, "")
    if isinstance(attempt.requests, NotReplayed):
        return found._replace(untried=attempt.requests.reason)
    return _kept_requests(attempt.requests, found)


def _kept_requests(requests: list[AdmissionRequest], found: Kept) -> Kept | None:
    if len(requests) != 1:
        return None
    (request,) = requests
    try:
        texts = [_text(request.object), _text(request.old_object)]
        return Kept(
            *found[:4],
            _encode(_parts(request)).decode(),
            request.name.value if isinstance(request.name, Known) else None,
            texts[0],
            _source(request.object),
            texts[1],
            _source(request.old_object),
        )
    except _UNREADABLE:
        return None


def _parts(request: AdmissionRequest) -> Parts:
    kind, options = request.kind, request.options
    return Parts(
        operation=request.operation,
        kind=(kind.value.group, kind.value.version, kind.value.kind) if isinstance(kind, Known) else None,
        kind_source=_source(kind),
        kind_grade=_grade(kind),
        name=_value(request.name),
        name_source=_source(request.name),
        dry_run=None if isinstance(request.dry_run, Unknown) else request.dry_run,
        options=options.value if isinstance(options, Known) else None,
        options_known=isinstance(options, Known),
        options_source=_source(options),
        options_grade=_grade(options),
        object=_value(request.object),
        old_object=_value(request.old_object),
    )


def _value(evidence: Evidence[Any]) -> _Value:
    return _Value(isinstance(evidence, Known), _grade(evidence), isinstance(evidence, Known) and evidence.value is None)


def _source(evidence: Evidence[Any]) -> str:
    return evidence.source if isinstance(evidence, Known) else evidence.reason


def _grade(evidence: Evidence[Any]) -> Grade:
    return evidence.grade if isinstance(evidence, Known) else Grade.EXACT


def _text(evidence: Evidence[Object | None]) -> str | None:
    """The JSON of an object. Raises ValueError if the text does not decode to an equal object."""
    if isinstance(evidence, Unknown) or evidence.value is None:
        return None
    text = _encode(evidence.value).decode()
    if decode_json(text) != evidence.value:
        raise ValueError("the object is not the same after it was written and read")
    return text


def kept_rows(batch: pa.RecordBatch, kept: Mapping[int, Kept]) -> pa.Table:
    """Some rows of a batch, which has the columns of `planned.sql`, as a table with the columns ADMISSIONS."""
    of_record = batch.select([*_PLANNED, *_RECORDED]).take(pa.array(kept, pa.int32()))
    made = [pa.array(values, _TEXT) for values in zip(*kept.values(), strict=True)]
    return pa.Table.from_arrays([*of_record.columns, *made], names=ADMISSIONS.names).cast(ADMISSIONS)


def outcome_of_row(row: dict[str, Any]) -> tuple[Event, Outcome]:
    """The event of a row of ADMISSIONS, without bodies, and what reconstruction made of it."""
    event = Event.from_row({**row, "request_object": None, "response_object": None})
    stopped = None if row["reason"] is None else NotReplayed(row["reason"], Admission(row["admission"]))
    if row["untried"] is None:
        return event, [_request_of(event, row)] if stopped is None else stopped
    if row["untried"]:
        return event, Attempt(NotReplayed(row["untried"], Admission.UNKNOWN), stopped)
    return event, Attempt([_request_of(event, row)], stopped)


def _request_of(event: Event, row: Mapping[str, Any]) -> AdmissionRequest:
    parts, kind, options = _read_parts(row["parts"])
    name: Evidence[str] = Unknown(parts.name_source)
    if parts.name.is_known:
        name = Known(row["object_name"], parts.name_source, parts.name.grade)
    return AdmissionRequest(
        cluster=event.cluster,
        audit_id=event.audit_id,
        pass_index=0,
        ts=event.ts,
        operation=parts.operation,
        kind=kind,
        resource=event.resource,
        subresource=event.subresource,
        namespace=namespace_of_request(event),
        name=name,
        user=event.user,
        dry_run=options if isinstance(options, Unknown) else bool(parts.dry_run),
        options=options,
        object=_evidence(parts.object, row["object"], row["object_source"]),
        old_object=_evidence(parts.old_object, row["old_object"], row["old_source"]),
    )


@lru_cache(maxsize=4096)
def _read_parts(text: str) -> tuple[Parts, Evidence[GroupVersionKind], Evidence[Object | None]]:
    parts = _PARTS.decode(text)
    kind: Evidence[GroupVersionKind] = Unknown(parts.kind_source)
    if parts.kind is not None:
        kind = Known(GroupVersionKind(*parts.kind), parts.kind_source, parts.kind_grade)
    options: Evidence[Object | None] = Unknown(parts.options_source)
    if parts.options_known:
        options = Known(parts.options, parts.options_source, parts.options_grade)
    return parts, kind, options


_PARTS = msgspec.json.Decoder(Parts)


def _evidence(value: _Value, text: str | None, source: str) -> Evidence[Object | None]:
    if not value.is_known:
        return Unknown(source)
    if value.is_null or text is None:
        return Known(None, source, value.grade)
    read: Callable[[], Object] = partial(decode_json, text)
    return LazyKnown(read, source, value.grade)
