"""One audit event as this room reads it: a typed view of a row of the lake's `events` table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from ingest.notes import REDACTED
from ingest.reviewed import REVIEWED
from ingest.server.wordings import wordings_of

from ..cel.projection import decode
from ..request import GroupVersionResource, Json, UserInfo
from ..withheld import hides_values
from .reviewed import Review, reviews_of

Raw: TypeAlias = str | bytes
Decode: TypeAlias = Callable[[Raw], Json]
Row: TypeAlias = Mapping[str, Any]

# Reads numbers as the API server does, so that a reader of a whole object sees the same values as a lane.
decode_json: Decode = decode

# The reason for an object that was recorded but could not be read.
TOO_DEEP = "an object nests deeper than can be read"


class BodyKind(StrEnum):
    """The kind of a recorded body. Only OBJECT and LIST are objects of the resource that the request names."""

    NONE = "none"
    OBJECT = "object"
    LIST = "list"
    TABLE = "table"
    METADATA = "metadata"  # PartialObjectMetadata
    STATUS = "status"
    OTHER = "other"  # a patch, or something that is not an object at all


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The few fields of metadata that say which object and which version a body is."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


_NO_META = Meta()


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """The identifying part of a body; decoding it skips the rest, which costs a tenth of decoding the whole."""

    kind: str = ""
    api_version: str = ""
    metadata: Meta | None = None

    @property
    def meta(self) -> Meta:
        return self.metadata or _NO_META


_HEAD = msgspec.json.Decoder(Head)
_NO_HEAD = Head()


def moment_of(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it in objects; None if the text is not a time, or lacks a zone."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def head_of(raw: Raw | None) -> Head:
    """The identifying part of a body; an empty Head for no body, patch operations, ill-typed metadata, or too deep nesting."""
    if raw is None:
        return _NO_HEAD
    try:
        return _HEAD.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # also ValidationError: a patch may hold anything where an object has a string
        return _NO_HEAD


def body_kind(head: Head, raw: Raw | None) -> BodyKind:
    """Classify a body. For clients that asked for a Table or PartialObjectMetadata, responseObject holds that, not the object."""
    if raw is None:
        return BodyKind.NONE
    if not head.kind or not head.api_version:
        return BodyKind.OTHER
    if head.api_version.startswith("meta.k8s.io/"):
        special = {"Table": BodyKind.TABLE, "PartialObjectMetadata": BodyKind.METADATA}
        return special.get(head.kind, BodyKind.OTHER)
    if head.kind == "Status" and head.api_version == "v1":
        return BodyKind.STATUS
    if head.kind.endswith("List") and not head.meta.name and not head.meta.uid:
        return BodyKind.LIST
    return BodyKind.OBJECT


class Event(msgspec.Struct, frozen=True):
    """A row of `events`, with nulls as empty strings where the API server treats both alike."""

    cluster: str
    audit_id: str
    stage: str
    level: str
    ts: datetime  # requestReceivedTimestamp
    stage_ts: datetime
    verb: str
    request_uri: str
    user_agent: str
    user: UserInfo  # the effective one
    resource: GroupVersionResource
    subresource: str
    namespace: str
    name: str
    code: int
    reason: str
    message: str
    annotations: Mapping[str, str]
    notes: Mapping[str, str]  # Hindcast's own
    request_raw: Raw | None
    response_raw: Raw | None
    flags: frozenset[str]
    reviews: tuple[Review, ...] = ()
    _heads: dict[str, Head] = {}  # filled at the first read

    @property
    def wordings(self) -> frozenset[str]:
        """The names of the wordings that the answer's text has, or had before redaction: see ingest/server/wordings.py."""
        return wordings_of(self.message, self.notes)

    @property
    def is_redacted(self) -> bool:
        """Whether redaction may have replaced values in its bodies, its URI or its patches of webhooks."""
        return REDACTED in self.notes and hides_values(self.notes[REDACTED])

    @classmethod
    def from_row(cls, row: Row) -> Event:
        """Read a row with the columns of ingest.schema.EVENTS, as pyarrow or DuckDB hand it over."""
        stage_ts: datetime = row["stage_ts"]
        # pyarrow gives pairs, DuckDB a dict
        annotations, notes = dict(row["annotations"]), dict(row["notes"])
        flags = frozenset(row["flags"])
        return cls(
            cluster=row["cluster"],
            audit_id=row["audit_id"],
            stage=row["stage"],
            level=row["level"],
            ts=row["ts"] or stage_ts,
            stage_ts=stage_ts,
            verb=row["verb"] or "",
            request_uri=row["request_uri"] or "",
            user_agent=row["user_agent"] or "",
            user=effective_user(row),
            resource=GroupVersionResource(row["api_group"] or "", row["api_version"] or "", row["resource"] or ""),
            subresource=row["subresource"] or "",
            namespace=row["namespace"] or "",
            name=row["name"] or "",
            code=row["code"] or 0,
            reason=row["status_reason"] or "",
            message=row["status_message"] or "",
            annotations=annotations,
            notes=notes,
            request_raw=row["request_object"],
            response_raw=row["response_object"],
            flags=flags,
            reviews=reviews_of(row.get("review"), flags, notes.get(REDACTED, "")) if REVIEWED in flags else (),
        )

    @property
    def request_head(self) -> Head:
        """The identifying part of requestObject, decoded once."""
        if "request" not in self._heads:
            self._heads["request"] = head_of(self.request_raw)
        return self._heads["request"]

    @property
    def response_head(self) -> Head:
        """The identifying part of responseObject, decoded once."""
        if "response" not in self._heads:
            self._heads["response"] = head_of(self.response_raw)
        return self._heads["response"]

    @property
    def response_kind(self) -> BodyKind:
        """The kind of responseObject."""
        return body_kind(self.response_head, self.response_raw)

    @property
    def review(self) -> Review | None:
        """The last of its AdmissionReviews: admission may run several times, and the last time counts."""
        return self.reviews[-1] if self.reviews else None

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300

    @property
    def written_raw(self) -> Raw | None:
        """The object that was written, whole, as the answer to a request that succeeded shows it."""
        return self.response_raw if self.succeeded and self.response_kind is BodyKind.OBJECT else None

    @property
    def may_have_succeeded(self) -> bool:
        """Whether it succeeded, or the log has no code of its answer."""
        return self.succeeded or self.code == 0

    @property
    def write_id(self) -> tuple[str, datetime]:
        """The identity of the request: clients choose auditIDs, and may give several requests the same one."""
        return self.audit_id, self.stage_ts

    @property
    def label(self) -> str:
        """How a reason or source names this event."""
        moment = self.stage_ts.isoformat(timespec="microseconds").removesuffix("+00:00")
        return f"{self.verb} {self.audit_id} of {moment}Z"


def effective_user(row: Row) -> UserInfo:
    """The user that policies see: the impersonated user if the request impersonated, else the authenticated one.

    Ingest takes no event whose users have another form. Of a user in a lake that something else wrote, nothing is known.
    """
    try:
        return _effective_user(row)
    except (AttributeError, TypeError, ValueError, RecursionError):
        return UserInfo("", "", (), {}, False)


def _effective_user(row: Row) -> UserInfo:
    if row["impersonated_user"]:
        user = decode_json(row["impersonated_user"])
        name, groups = user.get("username") or "", tuple(user.get("groups") or ())
        return UserInfo(name, user.get("uid") or "", groups, _extra(user.get("extra")), are_all_known(name, groups))
    extra = _extra(decode_json(row["user_extra"])) if row["user_extra"] else {}
    name, groups = row["user_name"] or "", tuple(row["user_groups"])
    return UserInfo(name, row["user_uid"] or "", groups, extra, are_all_known(name, groups))


def are_all_known(username: str, groups: Sequence[str]) -> bool:
    """Whether a record of a user holds more than the name. Entries of GKE, and trimmed logs, have only that.

    A server gives every user a group: system:authenticated or system:unauthenticated, and the superusers theirs
    (kubernetes/apiserver pkg/authentication/group). And every request that authorizers see has a user.
    """
    return bool(username and groups)


def _extra(told: Mapping[str, Any] | None) -> dict[str, Any]:
    """The extra values, with empty lists in place of the nulls that Go writes for them."""
    return {name: values or [] for name, values in (told or {}).items()}
