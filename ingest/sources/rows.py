"""Rows whose columns are the fields of an audit event, such as tables of logs and search results show them.

    AKSAudit, AKSAuditAdmin   Azure's tables (learn.microsoft.com, Azure Monitor reference, "AKSAudit"): AuditId, RequestUri, ...
    dotted names              user.username, kubernetes.audit.objectRef.resource, as search engines and spreadsheets flatten them
    ViaQ                      OpenShift's event with `k8s_audit_level`, because `level` is the severity there

A value becomes the field of the same meaning. A row without an audit ID gets one that its content determines, so that the same row
is stored once. The annotation `hindcast/translated` names each value that the row had in another form, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import xxhash

from .gke import ANNOTATION

# Names of columns, in lower case and without punctuation, and the field that they are.
_NAMES = {
    "auditid": "auditID",
    "stage": "stage",
    "level": "level",
    "k8sauditlevel": "level",
    "verb": "verb",
    "requesturi": "requestURI",
    "user": "user",
    "impersonateduser": "impersonatedUser",
    "sourceips": "sourceIPs",
    "useragent": "userAgent",
    "objectref": "objectRef",
    "responsestatus": "responseStatus",
    "requestobject": "requestObject",
    "responseobject": "responseObject",
    "requestreceivedtimestamp": "requestReceivedTimestamp",
    "requestreceivedtime": "requestReceivedTimestamp",
    "stagetimestamp": "stageTimestamp",
    "stagereceivedtime": "stageTimestamp",
    "annotations": "annotations",
}
_INNER = {
    "username": "username",
    "uid": "uid",
    "groups": "groups",
    "extra": "extra",
    "resource": "resource",
    "namespace": "namespace",
    "name": "name",
    "apigroup": "apiGroup",
    "apiversion": "apiVersion",
    "resourceversion": "resourceVersion",
    "subresource": "subresource",
    "code": "code",
    "reason": "reason",
    "message": "message",
}
_STRUCTURED = (
    "user",
    "impersonatedUser",
    "objectRef",
    "responseStatus",
    "requestObject",
    "responseObject",
    "annotations",
    "sourceIPs",
)
_TIMES = ("requestReceivedTimestamp", "stageTimestamp")
_LEVELS = ("None", "Metadata", "Request", "RequestResponse")
_PUNCTUATION = re.compile(r"[^a-z0-9]")
_ZONE_IN_NAME = re.compile(r"\s*\[(UTC)\]$")
# `11/21/2026, 3:24:16.123 AM`, as Azure's portal exports times.
_PORTAL_TIME = re.compile(r"(\d\d?)/(\d\d?)/(\d{4}),? (\d\d?):(\d\d):(\d\d)(?:\.(\d+))? ([AP]M)")
_PLAIN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?")

_encoder = msgspec.json.Encoder(order="sorted")


def event_of_row(members: Mapping[str, bytes]) -> bytes | None:
    """The event that a row of JSON values is; None where its columns are not those of an event."""
    if not (wanted := [name for name in members if _path(name)]):
        return None
    event: dict[str, Any] = {}
    for name in wanted:
        _put(event, name, members[name])
    is_request = "verb" in event and ("objectRef" in event or "requestURI" in event)
    if not any(event.get(name) for name in _TIMES) or not (is_request or ("auditID" in event and "stage" in event)):
        return None
    return _encoder.encode(_completed(event, {name: raw for name, raw in members.items() if not _path(name)}))


def with_audit_level(event: bytes) -> bytes:
    """The event with its level where OpenShift's collector keeps that, because `level` is the severity of its record."""
    if b'"k8s_audit_level"' not in event:
        return event
    fields = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    level = fields.pop("k8s_audit_level", fields.get("level"))
    return msgspec.json.encode(fields | {"level": level})


def _path(column: str) -> tuple[str, ...]:
    """The field that a column is, with the field inside it; empty for a column of another kind."""
    parts = [_PUNCTUATION.sub("", part.lower()) for part in _ZONE_IN_NAME.sub("", column).split(".")]
    first = next((index for index, part in enumerate(parts) if part in _NAMES), None)
    if first is None:
        return ()
    inner = _ZONE_IN_NAME.sub("", column).split(".")[first + 1 :]
    return (_NAMES[parts[first]], *(_INNER.get(_PUNCTUATION.sub("", part.lower()), part) for part in inner))


def _put(event: dict[str, Any], column: str, raw: bytes) -> None:
    field, *inner = _path(column)
    value = _value(field if not inner else inner[-1], raw, structured=field in _STRUCTURED and not inner)
    if value is None or value == "":
        return
    if field in _TIMES and isinstance(value, str):
        value = _time(value, "UTC" if _ZONE_IN_NAME.search(column) else "")
    if field == "level" and value not in _LEVELS:
        return  # OpenShift's severity, next to `k8s_audit_level`
    place = event
    for name in (field, *inner)[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            return
    place[(field, *inner)[-1]] = value


def _value(name: str, raw: bytes, *, structured: bool) -> Any:
    """A value of a column. A table keeps objects as JSON in texts, and lists with one item as that item."""
    value = msgspec.json.decode(raw) if not structured or raw[:1] == b'"' else msgspec.Raw(raw)
    if raw == b"null":
        return None
    if isinstance(value, str) and (structured or name in ("groups", "extra")) and value[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(value)
        except ValueError:
            return None
    if name in ("sourceIPs", "groups") and isinstance(value, str):
        return [part.strip() for part in value.split(",")] if value else None
    if name == "code" and isinstance(value, str | float):
        return int(float(value)) if str(value).replace(".", "", 1).isdigit() else None
    return value


def _time(text: str, zone: str) -> str:
    """A time in RFC 3339 where the row says its zone; the text without a zone otherwise, which decoding refuses."""
    if match := _PORTAL_TIME.fullmatch(text):
        month, day, year, hour, minute, second, fraction, half = match.groups()
        hours = int(hour) % 12 + (12 if half == "PM" else 0)
        text = f"{year}-{int(month):02}-{int(day):02} {hours:02}:{minute}:{second}" + (f".{fraction}" if fraction else "")
    if not (match := _PLAIN_TIME.fullmatch(text)):
        return text
    day, clock, fraction, told = match.groups()
    offset = (told or zone).replace("UTC", "Z")
    return f"{day}T{clock}" + (f".{fraction}" if fraction else "") + offset


def _completed(event: dict[str, Any], others: Mapping[str, bytes]) -> dict[str, Any]:
    """The event with the fields that decoding wants, each of them noted if the row did not have it."""
    notes = []
    if "stage" not in event and "responseStatus" in event:
        event["stage"] = "ResponseComplete"
        notes.append("stage=responseStatus")
    if "level" not in event:
        bodies = "responseObject" in event, "requestObject" in event
        event["level"] = "RequestResponse" if bodies[0] else "Request" if bodies[1] else "Metadata"
        notes.append("level=bodies")
    if "auditID" not in event:
        event["auditID"] = f"content-{xxhash.xxh3_128_hexdigest(_encoder.encode([event, dict(sorted(others.items()))]))}"
        notes.append("auditID=content")
    if notes:
        annotations = event.get("annotations")
        known = msgspec.json.decode(annotations) if isinstance(annotations, msgspec.Raw) else annotations
        event["annotations"] = {**(known if isinstance(known, dict) else {}), ANNOTATION: ";".join(notes)}
    return {"kind": "Event", "apiVersion": "audit.k8s.io/v1", **event}


def in_zone(event: bytes, zone: Any) -> bytes:
    """The event with times that name no zone read in `zone`, a tzinfo."""
    return _BARE_TIME.sub(lambda match: match[1] + _zoned(match[2].decode(), zone).encode() + b'"', event)


_BARE_TIME = re.compile(rb'("(?:requestReceivedTimestamp|stageTimestamp)"\s*:\s*")(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)"')


def _zoned(text: str, zone: Any) -> str:
    whole, _, fraction = text.replace(" ", "T").replace(",", ".").partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=zone).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if fraction else "") + "Z"
