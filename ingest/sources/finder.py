"""Finds audit events inside any JSON value: at most some levels deep, as objects, as JSON in texts, or in base64.

Log shippers, search engines and cloud services wrap each event in a record of their own. They differ in the names of the fields
alone, so no name is needed to find the event: an object with `auditID` and `stage` is one, and so is a row whose columns are the
fields of an event (`ingest/sources/rows.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .exports import Expand, Found, joined
from .packed import holds_packed, unpacked_list, unpacked_text
from .reviews import review_in
from .rows import event_of_row, is_flat, may_be_flat, with_audit_level

# An OTLP record is the deepest of the known forms: resourceLogs, scopeLogs, logRecords, body, text, event.
_DEPTH_MAX = 12
_TEXT_BYTES_MIN = 20
# A sign of an event: a record without one belongs to another log.
_TRACE = re.compile(rb"audit_?id|protopayload|requesturi|object_?ref|audit\.k8s\.io|admissionreview\b", re.IGNORECASE)
# A record of a log, as against an object that someone gave by mistake.
_RECORD = re.compile(rb'"(?:@?message|MESSAGE|log|line|_raw|_source|body|textPayload|jsonPayload|@timestamp|index)"\s*:')
_OPENINGS = re.compile(rb"[{\[]")
_QUOTED = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
# How an object or a list of JSON begins, as against the labels and brackets of a prefix.
_OPEN = re.compile(rb'[{\[]\s*["{\[]')
_OPENINGS_MAX = 30
# Around an event that was cut: a crash leaves NULs.
_PADDING = b" \t\r\n\0,"
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_KLOG = re.compile(rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_text = msgspec.json.Decoder(str)
_anything = msgspec.json.Decoder(msgspec.Raw)
_row = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class _Head(msgspec.Struct, rename="camel"):
    audit_id: str | None = msgspec.field(name="auditID", default=None)
    stage: str | None = None
    level: msgspec.Raw = msgspec.Raw()
    user: msgspec.Raw = msgspec.Raw()
    object_ref: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()
    source_ips: msgspec.Raw = msgspec.field(name="sourceIPs", default=msgspec.Raw(b"[]"))
    request_object: msgspec.Raw = msgspec.Raw()
    response_object: msgspec.Raw = msgspec.Raw()

    @property
    def is_event(self) -> bool:
        """Whether the value has the identity of an event."""
        return self.audit_id is not None and self.stage is not None

    @property
    def is_usual(self) -> bool:
        """Whether the fields that tables spread over columns have the place and the type that they have in an event."""
        objects = (bytes(part)[:1] == b"{" for part in (self.user, self.object_ref, self.annotations))
        bodies = [bytes(part)[:1] for part in (self.request_object, self.response_object)]
        has_bodies = any(bodies) or bytes(self.level) == b'"Metadata"'
        return all(objects) and bytes(self.source_ips)[:1] == b"[" and has_bodies and b'"' not in bodies


_head = msgspec.json.Decoder(_Head)


def has_trace(value: bytes) -> bool:
    """Whether bytes mention a field that audit events alone have."""
    return _TRACE.search(value) is not None


def may_hold_event(value: bytes) -> bool:
    """Whether a value mentions an event, or has base64 of one that does."""
    return has_trace(value) or holds_packed(value, may_hold_event)


def is_other_log(value: bytes) -> bool:
    """Whether a value is a line of klog, or a shipper's record of another log."""
    if may_hold_event(value):
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
            return _in_list(value, expand, depth)
        return _in_object(value, expand, depth)
    except (ValueError, RecursionError):
        return None


def _in_object(value: bytes, expand: Expand, depth: int) -> Found | None:
    head = _lenient_head(value)
    is_event = head is not None and head.is_event
    if head is not None and is_event and (head.is_usual or not may_be_flat(value)):
        return Found([with_audit_level(value)])
    members = {name: bytes(raw) for name, raw in _members.decode(value).items()}
    if is_event:
        return Found([(event_of_row(members) if is_flat(members) else None) or with_audit_level(value)])
    if b'"AdmissionReview"' in value and (review := review_in(members)) is not None:
        return review
    if {"columns", "rows"} <= members.keys() and (table := _rows_of(members, expand)) is not None:
        return table
    if len(members) == 1 and _type_of(next(iter(members))) in _TYPED_VALUES:
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


def _in_list(value: bytes, expand: Expand, depth: int) -> Found | None:
    if data := unpacked_list(value):
        return _lines(data, expand, depth) if may_hold_event(data) else None
    found = _first_of(map(bytes, _items.decode(value)), expand, depth)
    if found is None and _PAIRS.match(value):
        pairs = [_plain_pair(item) for item in msgspec.json.decode(value, type=list[dict[str, Any]])]
        return events_inside(_encoder.encode(dict(pairs)), expand, depth + 1)
    return found


def _in_text(value: bytes, expand: Expand, depth: int) -> Found | None:
    if len(value) < _TEXT_BYTES_MIN or not may_hold_event(value):
        return None
    text = _text.decode(value).encode("utf-8", "replace")
    return _lines(unpacked_text(text) or text, expand, depth)


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
# Writers of protobuf's JSON may keep the names of its fields, with underscores.
_TYPED_VALUES = ("kvlistvalue", "arrayvalue")
_TYPED = (*_TYPED_VALUES, "stringvalue", "intvalue", "boolvalue", "doublevalue", "bytesvalue")
# A row as a list of its fields, such as attributes of OpenTelemetry and results of Logs Insights.
_PAIRS = re.compile(rb'\[\s*\{\s*"(?:key|field|name)"\s*:', re.IGNORECASE)


def _type_of(name: str) -> str:
    return name.replace("_", "").lower()


def _plain(value: Any) -> Any:
    if value == {}:
        return None
    if not isinstance(value, dict) or len(value) != 1 or (kind := _type_of(next(iter(value)))) not in _TYPED:
        return value
    inner = next(iter(value.values()))
    if kind == "kvlistvalue":
        return {item["key"]: _plain(item.get("value")) for item in inner.get("values", ())}
    if kind == "arrayvalue":
        return [_plain(item) for item in inner.get("values", ())]
    return int(inner) if kind == "intvalue" else inner


def _plain_pair(item: dict[str, Any]) -> tuple[str, Any]:
    """The name and the value of a field. Raises ValueError for an object of another kind."""
    if len(item) != 2:
        raise ValueError("not a pair")
    name, value = item.values()
    return str(name), _plain(value)


def events_in_text(line: bytes, expand: Expand, depth: int = 0) -> Found | None:
    """The events of a line that has something in front of its JSON, or has it in quotes; None where it has none.

    Syslog, `kubectl logs --prefix`, `oc adm node-logs`, Fluentd and container runtimes put a time, a host or a tag there. A server
    that was killed, or met a full disk, leaves an event without an end there; it is given as it is, and decoding refuses it.
    """
    if not may_hold_event(line):
        return None
    found: list[Found] = []
    rest = 0
    for value, end in _values_in(line):
        if may_hold_event(value):
            inside = expand(value, depth + 1)
            if inside.events != [value] or _is_event(value):
                found += [*_torn(line[rest : end - len(value)]), inside]
                rest = end
    if found:
        return joined([*found, *_torn(line[rest:])])
    for match in _QUOTED.finditer(line):
        if may_hold_event(match[0]) and (inner := events_inside(match[0], expand, depth)) is not None:
            return inner
    data = unpacked_text(line)
    return _lines(data, expand, depth) if may_hold_event(data) else None


def _torn(text: bytes) -> list[Found]:
    """An event that begins in a text between whole events, and has no end there."""
    opening = _OPEN.search(text)
    torn = b"" if opening is None else text[opening.start() :].strip(_PADDING)
    return [Found([torn])] if has_trace(torn) else []


def ends_with_event(line: bytes) -> bool:
    """Whether a line ends with a whole object that mentions events, and is not inside another object that was cut."""
    values = list(_values_in(line)) if has_trace(line) else []
    if not values or not has_trace(values[-1][0]):
        return False
    first = values[0][1] - len(values[0][0])
    return _OPEN.search(line, 0, first) is None and _OPEN.search(line, values[-1][1]) is None


def _values_in(line: bytes) -> Iterator[tuple[bytes, int]]:
    """The JSON objects and arrays in a line, and where each ends."""
    at = failed = 0
    while failed < _OPENINGS_MAX and (match := _OPENINGS.search(line, at)) is not None:
        value = _value_at(line, match.start())
        at = match.start() + len(value or b"x")
        failed += value is None
        if value is not None:
            yield value, at


def _is_event(value: bytes) -> bool:
    head = _lenient_head(value)
    return head is not None and head.audit_id is not None


def _value_at(line: bytes, start: int) -> bytes | None:
    """The JSON value that begins at a position; None where none does. A tag, a tail or another value may follow it."""
    rest = line[start:]
    try:
        _anything.decode(rest)
    except RecursionError:
        return rest
    except ValueError as error:
        end = trailing_at(error)
        return None if end is None else rest[:end]
    return rest


def trailing_at(error: ValueError) -> int | None:
    """The offset of what follows a JSON value, by the one error that says where a value ends; None for another error."""
    match = _TRAILING.search(str(error))
    return None if match is None else int(match[1]) - 1  # it counts from 1
