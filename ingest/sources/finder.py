"""Finds audit events inside any JSON value: at most some levels deep, as objects, as JSON in texts, or in base64.

Log shippers, search engines and cloud services wrap each event in a record of their own. They differ in the names of the fields
alone, so no name is needed to find the event: an object with `auditID` and `stage` is one, and so is a row whose columns are the
fields of an event (`ingest/sources/rows.py`).
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from .exports import Expand, Found, joined
from .reviews import review_in
from .rows import event_of_row, with_audit_level

# An OTLP record is the deepest of the known forms: resourceLogs, scopeLogs, logRecords, body, text, event.
_DEPTH_MAX = 12
_TEXT_BYTES_MIN = 20
# How base64 of gzip begins, and of JSON.
_PACKED = re.compile(rb'"(?:H4sI|eyJ|ewog|ewo|eyAi)[\w+/=]{20}')
_INFLATED_BYTES_MAX = 256 << 20
# A sign of an event: a record without one belongs to another log.
_TRACE = re.compile(rb"audit_?id|protopayload|requesturi|audit\.k8s\.io|admissionreview\b", re.IGNORECASE)
# A record of a log, as against an object that someone gave by mistake.
_RECORD = re.compile(rb'"(?:@?message|MESSAGE|log|line|_raw|_source|body|textPayload|jsonPayload|@timestamp|index)"\s*:')
_OPENINGS = re.compile(rb"[{\[]")
_QUOTED = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_OPENINGS_MAX = 30
_KLOG = re.compile(rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_text = msgspec.json.Decoder(str)
_anything = msgspec.json.Decoder(msgspec.Raw)
_row = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class _Head(msgspec.Struct):
    audit_id: str | None = msgspec.field(name="auditID", default=None)
    stage: str | None = None


_head = msgspec.json.Decoder(_Head)


def has_trace(value: bytes) -> bool:
    """Whether bytes mention a field that audit events alone have."""
    return _TRACE.search(value) is not None


def may_hold_event(value: bytes) -> bool:
    """Whether a value mentions an event, or has base64 that may."""
    return has_trace(value) or _PACKED.search(value) is not None


def is_other_log(value: bytes) -> bool:
    """Whether a value is a line of klog, or a shipper's record of another log."""
    if has_trace(value):
        return False
    return _KLOG.match(value) is not None or (value[:1] == b"{" and _RECORD.search(value) is not None)


def events_inside(value: bytes, expand: Expand, depth: int = 0) -> Found | None:
    """The events in a JSON value; None where it holds none. `expand` knows the envelopes that need more than finding."""
    start = value[:1]
    if depth > _DEPTH_MAX or start not in (b"{", b"[", b'"'):
        return None
    try:
        if start == b'"':
            return _in_text(value, expand, depth)
        if start == b"[":
            return _first_of(map(bytes, _items.decode(value)), expand, depth)
        return _in_object(value, expand, depth)
    except (ValueError, RecursionError):
        return None


def _in_object(value: bytes, expand: Expand, depth: int) -> Found | None:
    head = _lenient_head(value)
    if head is not None and head.audit_id is not None and head.stage is not None:
        return Found([with_audit_level(value)])
    members = {name: bytes(raw) for name, raw in _members.decode(value).items()}
    if b'"AdmissionReview"' in value and (review := review_in(members)) is not None:
        return review
    if {"columns", "rows"} <= members.keys() and (table := _rows_of(members, expand)) is not None:
        return table
    if set(members) in _TYPED_VALUES:
        return _first_of([_encoder.encode(_plain(_row.decode(value)))], expand, depth)
    found = _first_of(members.values(), expand, depth)
    if found is not None:
        return found
    return None if (event := event_of_row(members)) is None else Found([event])


def _lenient_head(value: bytes) -> _Head | None:
    try:
        return _head.decode(value)
    except (ValueError, RecursionError):
        return None


def _first_of(values: Iterable[bytes], expand: Expand, depth: int) -> Found | None:
    found = [inside for value in values if (inside := _deeper(value, expand, depth + 1)) is not None]
    return joined(found) if found else None


def _deeper(value: bytes, expand: Expand, depth: int) -> Found | None:
    if value[:1] == b"{" and has_trace(value) and (known := expand(value, depth)).form:
        return known
    return events_inside(value, expand, depth)


def _in_text(value: bytes, expand: Expand, depth: int) -> Found | None:
    if len(value) < _TEXT_BYTES_MIN:
        return None
    if _PACKED.match(value):
        data = _unpacked(_text.decode(value))
        return _lines(data, expand, depth) if data else None
    if not has_trace(value):
        return None
    return _lines(_text.decode(value).encode("utf-8", "replace"), expand, depth)


def _lines(data: bytes, expand: Expand, depth: int) -> Found | None:
    """The events of a text, which may hold one on each line."""
    whole = data.strip()
    try:
        _anything.decode(whole)
    except (ValueError, RecursionError):
        parts = [line for line in whole.split(b"\n") if line.strip()]
    else:
        parts = [whole]
    found = [expand(part, depth + 1) for part in parts]
    return joined(found) if any(part.events for part in found) else None


def _unpacked(text: str) -> bytes:
    """The bytes of base64, and of gzip inside it; empty where they are neither. An AWS subscription and Pub/Sub send such texts."""
    try:
        data = base64.b64decode(text, validate=True)
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(wbits=31).decompress(data, _INFLATED_BYTES_MAX)
    except (binascii.Error, ValueError, zlib.error):
        return b""
    return data if has_trace(data) else b""


def _rows_of(members: dict[str, bytes], expand: Expand) -> Found | None:
    """A table as Azure's query API returns it: the names of columns once, and rows of values."""
    try:
        columns = msgspec.json.decode(members["columns"], type=list[dict[str, Any]])
        rows = msgspec.json.decode(members["rows"], type=list[list[msgspec.Raw]])
        names = [str(column["name"]) for column in columns]
    except (ValueError, KeyError):
        return None
    return joined(expand(_encoder.encode(dict(zip(names, row, strict=False)))) for row in rows)


# OpenTelemetry's AnyValue (opentelemetry-proto common/v1/common.proto): a value is an object with one member that names its type.
_TYPED = ("kvlistValue", "arrayValue", "stringValue", "intValue", "boolValue", "doubleValue")
_TYPED_VALUES = ({"kvlistValue"}, {"arrayValue"})


def _plain(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _TYPED:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "kvlistValue":
        return {item["key"]: _plain(item.get("value")) for item in inner.get("values", ())}
    if kind == "arrayValue":
        return [_plain(item) for item in inner.get("values", ())]
    return int(inner) if kind == "intValue" else inner


def events_in_text(line: bytes, expand: Expand, depth: int = 0) -> Found | None:
    """The events of a line that has something in front of its JSON, or has it in quotes; None where it has none.

    Syslog, `kubectl logs --prefix`, `oc adm node-logs`, Fluentd and container runtimes put a time, a host or a tag there.
    """
    if not has_trace(line):
        return None
    for count, match in enumerate(_OPENINGS.finditer(line)):
        if count == _OPENINGS_MAX:
            break
        if (value := _value_at(line, match.start())) is not None and has_trace(value):
            found = expand(value, depth + 1)
            return found if found.events != [value] or _is_event(value) else None
    for match in _QUOTED.finditer(line):
        if has_trace(match[0]) and (inside := events_inside(match[0], expand, depth)) is not None:
            return inside
    return None


def _is_event(value: bytes) -> bool:
    head = _lenient_head(value)
    return head is not None and head.audit_id is not None


def _value_at(line: bytes, start: int) -> bytes | None:
    """The JSON value that begins at a position; None where none does. What follows it is not looked at."""
    rest = line[start:].rstrip(b", \t\r;'\"")
    try:
        _anything.decode(rest)
    except RecursionError:
        return rest
    except ValueError:
        return None
    return rest
