"""Rows whose columns are the fields of an audit event, such as tables of logs and search results show them.

    AKSAudit, AKSAuditAdmin   Azure's tables (learn.microsoft.com, Azure Monitor reference, "AKSAudit"): AuditId, RequestUri, ...
    dotted names              user.username, kubernetes.audit.objectRef.resource, as search engines and spreadsheets flatten them
    ViaQ                      OpenShift's event with `k8s_audit_level`, because `level` is the severity there

A value becomes the field of the same meaning. A row without an audit ID gets one that its content determines, so that the same row
is stored once. The note `translated` names each value that the row had in another form, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import xxhash

from ..notes import TRANSLATED, Sealed, noted

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
# A field that has another place or type than in an event: `user.username`, `user_username`, or an object as text.
_FLAT = re.compile(
    rb'"(?:[\w.]*\.)?(?:user|impersonated_?user|object_?ref|response_?status|request_?object|response_?object|annotations)[._][^"]+"\s*:'
    rb'|"(?:user|objectRef|responseStatus|sourceIPs|annotations|requestObject|responseObject)"\s*:\s*"',
    re.IGNORECASE,
)
_NAMED = frozenset(("user", "impersonatedUser", "objectRef", "responseStatus"))
_OWN = frozenset(_INNER.values())
_UNDERSCORE = re.compile("_")
_BODIES = ("requestObject", "responseObject")
_LISTS = ("sourceIPs", "groups")
_KEYED = 2  # names inside `user` that lead to one of the lists of its `extra`
_ZONE_IN_NAME = re.compile(r"\s*\[(UTC)\]$")
# `11/21/2026, 3:24:16.123 AM`, as Azure's portal exports times.
_PORTAL_TIME = re.compile(r"(\d\d?)/(\d\d?)/(\d{4}),? (\d\d?):(\d\d):(\d\d)(?:\.(\d+))? ([AP]M)")
_PLAIN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?")

_encoder = msgspec.json.Encoder(order="sorted")
_items = msgspec.json.Decoder(list[msgspec.Raw])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def may_be_flat(event: bytes) -> bool:
    """Whether an object with the identity of an event may have fields as tables have them; `is_flat` is exact."""
    return _FLAT.search(event) is not None


def is_flat(members: Mapping[str, bytes]) -> bool:
    """Whether fields of an event have another place or type among some members than in an event."""
    paths = ((_path(name), raw) for name, raw in members.items())
    return any(len(path) > 1 or (path[0] in _STRUCTURED and raw[:1] == b'"') for path, raw in paths if path)


def event_of_row(members: Mapping[str, bytes]) -> bytes | None:
    """The event that a row of JSON values is; None where its columns are not those of an event.

    A body that is spread over columns is left out, because keys with dots look like paths.
    """
    if not (wanted := [name for name in members if _path(name)]):
        return None
    event: dict[str, Any] = {}
    for name in wanted:
        _put(event, name, members[name])
    is_request = "verb" in event and ("objectRef" in event or "requestURI" in event)
    if not any(event.get(name) for name in _TIMES) or not (is_request or ("auditID" in event and "stage" in event)):
        return None
    spread = sorted({path[0] for name in wanted if len(path := _path(name)) > 1 and path[0] in _BODIES})
    return Sealed(_encoder.encode(_completed(event, {name: raw for name, raw in members.items() if not _path(name)}, spread)))


def with_audit_level(event: bytes) -> bytes:
    """The event with its level where OpenShift's collector keeps that, because `level` is the severity of its record."""
    if b'"k8s_audit_level"' not in event:
        return event
    fields = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    level = fields.pop("k8s_audit_level", fields.get("level"))
    return msgspec.json.encode(fields | {"level": level})


def _path(column: str) -> tuple[str, ...]:
    """The field that a column is, with the field inside it; empty for a column of another kind.

    Dots stand between and before the two, or one underscore between them. Keys of annotations and of `extra` may have dots.
    """
    name = _ZONE_IN_NAME.sub("", column)
    parts = name.split(".")
    first = next((index for index, part in enumerate(parts) if _bare(part) in _NAMES), None)
    if first is not None:
        return _inside(_NAMES[_bare(parts[first])], parts[first + 1 :])
    for cut in _UNDERSCORE.finditer(name):
        field, inner = _NAMES.get(_bare(name[: cut.start()])), _INNER.get(_bare(name[cut.end() :]))
        if field is not None and inner is not None:
            return (field, inner)
    return ()


def _inside(field: str, inner: list[str]) -> tuple[str, ...]:
    if field == "annotations" and inner:
        prefix, slash, rest = ".".join(inner).partition("/")
        return (field, prefix.replace("_", ".") + slash + rest)  # the name of a domain has no underscore
    names = [_INNER.get(_bare(part), part) for part in inner]
    if names[:1] == ["extra"] and inner[1:]:
        return (field, "extra", ".".join(inner[1:]))
    return (field, *names)


def _bare(name: str) -> str:
    return _PUNCTUATION.sub("", name.lower())


def _put(event: dict[str, Any], column: str, raw: bytes) -> None:
    field, *inner = _path(column)
    if inner and field in _BODIES:
        return
    if raw[:1] == b"[" and (inner or [field])[0] not in _LISTS and len(inner) < _KEYED:
        items = _items.decode(raw)
        raw = bytes(items[0]) if len(items) == 1 else raw  # the fields of a search hit are lists
    value = _value(inner[-1] if inner else field, raw, structured=field in _STRUCTURED and not inner)
    if value is None or (value == "" and not (inner and field == "annotations")):
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
    if isinstance(value, msgspec.Raw) and name in _NAMED and raw[:1] == b"{":
        return _renamed(raw)
    if isinstance(value, str) and (structured or name in ("groups", "extra")) and value[:1] in ("{", "["):
        try:
            inner = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            return value if name in _BODIES else None
        value = msgspec.Raw(value.encode()) if name in _BODIES else inner  # a body is evidence, byte for byte
    if name in ("sourceIPs", "groups") and isinstance(value, str):
        return [part.strip() for part in value.split(",")] if value else None
    if name == "code" and isinstance(value, str | float):
        return int(float(value)) if str(value).replace(".", "", 1).isdigit() else None
    return value


def _renamed(raw: bytes) -> Any:
    """An object whose members may have the names of Go's fields, as tools print them: `Resource`, `APIGroup`."""
    members = _members.decode(raw)
    if not any(name not in _OWN and _bare(name) in _INNER for name in members):
        return msgspec.Raw(raw)
    return {_INNER.get(_bare(name), name): item for name, item in members.items()}


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


def _completed(event: dict[str, Any], others: Mapping[str, bytes], spread: Sequence[str]) -> dict[str, Any]:
    """The event with the fields that decoding wants, each of them noted if the row did not have it."""
    notes = [f"{field}=columns" for field in spread]
    if "stage" not in event and "responseStatus" in event:
        event["stage"] = "ResponseComplete"
        notes.append("stage=responseStatus")
    if "level" not in event or spread:
        bodies = "responseObject" in event, "requestObject" in event
        event["level"] = "RequestResponse" if bodies[0] else "Request" if bodies[1] else "Metadata"
        notes.append("level=bodies")
    if "auditID" not in event:
        event["auditID"] = f"content-{xxhash.xxh3_128_hexdigest(_encoder.encode([event, dict(sorted(others.items()))]))}"
        notes.append("auditID=content")
    annotations = event.get("annotations")
    known = msgspec.json.decode(annotations) if isinstance(annotations, msgspec.Raw) else annotations
    if notes or isinstance(known, dict):
        event["annotations"] = noted(known if isinstance(known, dict) else {}, {TRANSLATED: ";".join(notes)} if notes else {})
    return {"kind": "Event", "apiVersion": "audit.k8s.io/v1", **event}


def in_zone(event: bytes, zone: Any) -> bytes:
    """The sealed event with times that name no zone read in `zone`, a tzinfo."""
    return _BARE_TIME.sub(lambda match: match[1] + _zoned(match[2].decode(), zone).encode() + b'"', event)


_BARE_TIME = re.compile(rb'("(?:requestReceivedTimestamp|stageTimestamp)"\s*:\s*")(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)"')


def _zoned(text: str, zone: Any) -> str:
    whole, _, fraction = text.replace(" ", "T").replace(",", ".").partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=zone).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if fraction else "") + "Z"
