"""What stored objects carry of the fields that a schema does not know, who wrote each field, and what became of it.

A write that prunes removes a field from storage. A read removes nothing: a field that an earlier answer or snapshot showed, and
a read of the same resourceVersion does not, is still stored and hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from ....history.event import Event, Raw, decode_json
from ....history.objects import object_of
from ....history.patching import PatchError, PatchType, apply_patch, patch_type
from ....history.version import Form, ObjectKey, Version, object_key
from ....history.writes import disturbance_of, versions_of, was_dry_run
from ....request import Known, Object, UserInfo
from ....withheld import has_withheld, holds_placeholder
from ..props import Props
from .paths import Path, general, unknown_fields

# The schema of an API version such as `shop.example.com/v1`; None if the definition does not have it.
SchemaOf: TypeAlias = Callable[[str], Props | None]


class State(StrEnum):
    """What became of a field of an object that was stored once."""

    STORED = "stored"
    HIDDEN = "hidden"  # stored, and dropped on every read
    GONE = "gone"  # a later write removed it
    DELETED = "deleted"  # with its object
    UNKNOWN = "unknown"  # a later write of the object is not recorded whole


@dataclass(frozen=True, slots=True)
class Origin:
    """The request that wrote a field. Without a recorded request, `user` is None."""

    user: UserInfo | None
    ts: datetime
    audit_id: str = ""


@dataclass(slots=True)
class Carried:
    """One unknown field of one object. `since` is when its state began."""

    value: Any
    origin: Origin
    state: State
    since: datetime


@dataclass(slots=True)
class Stored:
    """One object as the log and the snapshots show it. `unknown` says why its present content is not known; empty if it is.

    `is_redacted`: redaction may have replaced values in it.
    """

    key: ObjectKey
    raw: Raw | Object | None = None
    api_version: str = ""
    resource_version: str = ""
    since: datetime | None = None
    is_deleted: bool = False
    unknown: str = ""
    is_redacted: bool = False
    fields: dict[Path, Carried] = field(default_factory=dict)

    @property
    def value(self) -> Object | None:
        """A copy of the object's last content that is recorded."""
        if self.raw is None or isinstance(self.raw, dict):
            return self.raw
        found: Object = decode_json(self.raw)
        return found

    @property
    def number(self) -> int | None:
        """The resourceVersion as a number."""
        return int(self.resource_version) if self.resource_version.isdigit() else None


class StoredObjects:
    """The objects of one kind, followed through requests and snapshots in the order of time."""

    def __init__(self, schema_of: SchemaOf) -> None:
        self._schema_of = schema_of
        self._objects: dict[ObjectKey, Stored] = {}

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._objects.values())

    def enter(self, event: Event, sent: Iterable[Path]) -> None:
        """Enter what one answered request did; `sent` are the unknown fields in its body."""
        for key, version in versions_of(event):
            self._version(key, version, event, frozenset(sent))
        if disturbance := disturbance_of(event):
            for each in self._objects.values():
                if each.key[:3] == disturbance[:3] and disturbance.namespace in ("", each.key.namespace):
                    self._lose(each, disturbance.version)

    def enter_listed(self, row: Mapping[str, Any], group: str, resource: str) -> ObjectKey:
        """Enter one object of a snapshot; returns its key."""
        key = object_key(row["cluster"], group, resource, row["namespace"], row["name"])
        stored = self._objects.setdefault(key, Stored(key))
        is_redacted = holds_placeholder(row["object"])
        self._read(stored, row["object"], row["api_version"], row["resource_version"] or "", row["observed_ts"], is_redacted)
        return key

    def unlisted(self, cluster: str, keys: frozenset[ObjectKey], taken: datetime) -> None:
        """Enter that a snapshot of the whole kind lists these objects of a cluster and no others."""
        for each in self._objects.values():
            if each.key.cluster == cluster and each.key not in keys and each.since is not None and each.since < taken:
                self._delete(each, taken)

    def _version(self, key: ObjectKey, version: Version, event: Event, sent: frozenset[Path]) -> None:
        stored = self._objects.setdefault(key, Stored(key))
        if version.doubt and version.form is not Form.OPAQUE:
            if version.form is Form.GONE or version.resource_version != stored.resource_version:
                self._lose(stored, version)
        elif not version.audit_id:
            assert version.body is not None
            self._read(stored, version.body, version.api_version, version.resource_version, version.since, event.is_redacted)
        elif version.form is Form.GONE:
            self._delete(stored, version.since)
        elif version.form in (Form.WHOLE, Form.CREATED):
            found = object_of(version)
            raw = version.body if version.form is Form.WHOLE else found.value if isinstance(found, Known) else None
            if raw is not None:
                self._written(stored, raw, version, event, sent)
        elif version.form not in (Form.MARKED, Form.SCALE):
            result = _result(stored, event)
            if result is None:
                self._lose(stored, version)
            else:
                self._written(stored, result, version, event, sent)

    def _written(self, stored: Stored, raw: Raw | Object, version: Version, event: Event, sent: frozenset[Path]) -> None:
        number = version.resource_version_number
        if number is not None and stored.number is not None and number < stored.number:
            return  # Answers arrive out of order.
        is_patched = event.response_raw is None and event.verb == "patch"
        stored.is_redacted = event.is_redacted or (is_patched and stored.is_redacted)
        stored.raw, stored.since, stored.is_deleted, stored.unknown = raw, version.since, False, ""
        sent_as = str(raw.get("apiVersion") or "") if isinstance(raw, dict) else ""
        stored.api_version = version.api_version or sent_as or stored.api_version
        stored.resource_version = version.resource_version or stored.resource_version
        known_as = {general(path): each for path, each in stored.fields.items()}
        whole_is_sent = event.verb in ("create", "update") and not event.subresource
        found = dict(self._unknown(stored))
        for path, value in found.items():
            before = stored.fields.get(path) or known_as.get(general(path))
            if before is not None and before.value == value and before.state is not State.GONE:
                may_differ = stored.is_redacted and has_withheld(value) and (whole_is_sent or path in sent)
                origin = Origin(None, before.origin.ts) if may_differ else before.origin
                stored.fields[path] = Carried(value, origin, State.STORED, version.since)
            else:
                user = event.user if whole_is_sent or path in sent else None
                stored.fields[path] = Carried(value, Origin(user, event.ts, event.audit_id), State.STORED, version.since)
        self._settle(stored, found, State.GONE, version.since)

    def _read(
        self, stored: Stored, raw: Raw | Object, api_version: str, resource_version: str, ts: datetime, is_redacted: bool
    ) -> None:
        number = int(resource_version) if resource_version.isdigit() else None
        if number is not None and stored.number is not None and number < stored.number and not stored.is_deleted:
            return  # The read is older than a write that is already entered.
        is_same = bool(resource_version) and resource_version == stored.resource_version
        before = stored.raw
        stored.raw, stored.api_version, stored.resource_version = raw, api_version, resource_version
        found = dict(self._unknown(stored))
        if is_same and before is not None and len(found) < sum(_is_there(each) for each in stored.fields.values()):
            stored.raw = before  # What an earlier record shows of the same bytes is more.
        stored.since, stored.is_deleted, stored.unknown, stored.is_redacted = ts, False, "", is_redacted
        for path, value in found.items():
            known = stored.fields.get(path)
            if known is None or known.value != value or not _is_there(known):
                stored.fields[path] = Carried(value, Origin(None, ts), State.STORED, ts)
            elif known.state is not State.STORED:
                known.state, known.since = State.STORED, ts
        self._settle(stored, found, State.HIDDEN if is_same else State.GONE, ts)

    def _unknown(self, stored: Stored) -> Iterator[tuple[Path, Any]]:
        schema = self._schema_of(stored.api_version)
        return iter(()) if schema is None else unknown_fields(stored.value, schema)

    @staticmethod
    def _settle(stored: Stored, found: Mapping[Path, Any], state: State, ts: datetime) -> None:
        """Note what became of the fields that a record no longer shows."""
        for path, each in stored.fields.items():
            if path not in found and _is_there(each) and each.state is not state:
                each.state, each.since = state, ts

    @staticmethod
    def _delete(stored: Stored, ts: datetime) -> None:
        stored.is_deleted, stored.since, stored.raw = True, ts, None
        for each in stored.fields.values():
            if _is_there(each):
                each.state, each.since = State.DELETED, ts

    @staticmethod
    def _lose(stored: Stored, version: Version) -> None:
        stored.unknown, stored.since = version.doubt or version.source, version.since
        for each in stored.fields.values():
            if _is_there(each):
                each.state, each.since = State.UNKNOWN, version.since


def _is_there(carried: Carried) -> bool:
    return carried.state in (State.STORED, State.HIDDEN, State.UNKNOWN)


def _result(stored: Stored, event: Event) -> Object | None:
    """What a write without its answer left, from its body; None if that does not follow."""
    if event.request_raw is None or was_dry_run(event) is not False:
        return None
    body = decode_json(event.request_raw)
    before = None if stored.is_deleted or stored.unknown else stored.value
    if event.verb in ("create", "update"):
        if not isinstance(body, dict):
            return None
        if event.subresource == "status":
            return None if before is None else {**before, "status": body.get("status")}
        return body
    kind = patch_type(body, event.request_uri, event.resource, event.subresource)
    if before is None or kind is PatchType.APPLY:
        return None
    try:
        patched = apply_patch(kind, before, body)
    except PatchError:
        return None
    return {**before, "status": patched.get("status")} if event.subresource == "status" else patched
