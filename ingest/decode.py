"""From the bytes of events to rows of the lake's `events` table.

Bodies go through byte for byte: they are evidence, and re-encoding would lose duplicate keys, number spellings and key order. What
cannot be decoded is returned with its reason and costs no other event.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from .event import FIELDS, VALIDATION_FAILURE, Event, Failure, LenientEvent, ObjectRef, Status, User
from .redact import ANNOTATION as REDACTED
from .schema import EVENTS

_strict = msgspec.json.Decoder(Event)
_lenient = msgspec.json.Decoder(LenientEvent)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_failures = msgspec.json.Decoder(list[Failure])
_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

_NO_USER, _NO_REF, _NO_STATUS = User(), ObjectRef(), Status()
_INT32 = range(-(2**31), 2**31)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class NotAnEventError(ValueError):
    """The bytes are JSON but no audit event; the text says what was found."""


@dataclass(slots=True)
class Rejected:
    """A line that is no event: its position in the batch, its bytes, and why."""

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
    rows: list[tuple[Any, ...]] = []
    rejected: list[Rejected] = []
    with paused_collector():
        for index, line in enumerate(lines):
            try:
                rows.append(_row(line))
            except (ValueError, RecursionError) as error:  # UnicodeDecodeError and msgspec's errors are ValueErrors
                rejected.append(Rejected(index, line, _reason(line, error)))
        return Decoded(_table(rows, cluster, ingest_ts, source), rejected)


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


def _row(line: bytes) -> tuple[Any, ...]:
    flags: list[str] = []
    event, extra = _event(line)
    ts, stage_ts = _times(event)
    user = event.user or _NO_USER
    ref = event.object_ref
    status = event.response_status or _NO_STATUS
    annotations = event.annotations or {}
    failures = _vap_failures(annotations, flags)
    if annotations.get("audit.k8s.io/truncated") == "true":
        flags.append("truncated")
    if REDACTED in annotations:
        flags.append("redacted")
    code = status.code
    if code is not None and code not in _INT32:
        raise NotAnEventError(f"responseStatus.code {code} is no HTTP status")
    ref = ref or _NO_REF
    return (
        event.audit_id,
        event.stage,
        stage_ts,
        ts,
        event.level,
        event.verb,
        event.request_uri,
        user.username,
        user.uid or None,
        user.groups or [],
        _text(user.extra, flags),
        _text(event.impersonated_user, flags),
        event.source_ips or [],
        event.user_agent,
        # objectRef omits an empty group, which is the core group; null only where the request names no resource.
        (ref.api_group or "") if ref.resource else None,
        ref.api_version,
        ref.resource,
        ref.subresource,
        ref.namespace,
        ref.name,
        ref.uid,
        ref.resource_version,
        code,
        status.reason,
        status.message,
        list(annotations.items()),
        failures,
        _text(event.request_object, flags),
        _text(event.response_object, flags),
        extra,
        flags,
    )


def _event(line: bytes) -> tuple[Event, str | None]:
    """The typed event, and as JSON text the top-level fields that the lake has no column for."""
    try:
        return _strict.decode(line), None
    except msgspec.ValidationError:
        event = _lenient.decode(line)
        unknown = {name: raw for name, raw in _fields.decode(line).items() if name not in FIELDS}
        return event, _encoder.encode(unknown).decode("utf-8", "replace") if unknown else None


def _times(event: Event) -> tuple[datetime | None, datetime]:
    """(requestReceivedTimestamp, stageTimestamp) in UTC; the second is part of a row's identity and must be there."""
    ts, stage_ts = _utc(event.request_ts), _utc(event.stage_ts)
    if stage_ts is None:
        stage_ts = ts
    if stage_ts is None:
        raise NotAnEventError("neither stageTimestamp nor requestReceivedTimestamp is set")
    return ts, stage_ts


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise NotAnEventError(f"the time {moment.isoformat()} has no zone")
    return moment if moment >= _EARLIEST else None  # Go's zero time stands for "not set"


def _text(raw: msgspec.Raw, flags: list[str]) -> str | None:
    """A raw body as text, unchanged; null is none. Invalid UTF-8, which JSON does not allow, is replaced and flagged."""
    data = bytes(raw)
    if data in (b"", b"null"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        flags.append("utf8_replaced")
        return data.decode("utf-8", "replace")


def _vap_failures(annotations: dict[str, str], flags: list[str]) -> list[dict[str, Any]]:
    text = annotations.get(VALIDATION_FAILURE)
    if text is None:
        return []
    try:
        return [
            {
                "policy": failure.policy,
                "binding": failure.binding,
                "message": failure.message,
                "expression_index": int(failure.expression_index) if failure.expression_index is not None else None,
                "actions": failure.validation_actions or [],
            }
            for failure in _failures.decode(text)
        ]
    except (ValueError, RecursionError):
        # The text itself stays in the annotations column; only its parsed form is missing.
        flags.append("annotation_malformed")
        return []


def _reason(line: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep to decode"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start} of a field"
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
    count = len(rows)
    constant = {"cluster": cluster, "ingest_ts": ingest_ts, "ingest_source": source}
    arrays = [
        pa.repeat(pa.scalar(constant[item.name], item.type), count)
        if item.name in constant
        else pa.array(columns[item.name], item.type)
        for item in EVENTS
    ]
    return pa.Table.from_arrays(arrays, schema=EVENTS)
