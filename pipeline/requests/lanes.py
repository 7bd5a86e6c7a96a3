"""Lanes: most requests of a log equal an earlier one in every field that a judge reads, so that its cached verdicts hold for them.

A lane is for successful writes of one resource whose answer shows the object. The fields that are read are known beforehand: those
of policies, selectors and rules, say, since the read sets of expressions are sound. Only these are decoded, and requests with equal
fields have equal verdicts. Other requests take the general path, as do those that need another record, such as the object they
replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..cel.projection import decode, decoder
from ..cel.readset import Reads, ReadSet
from ..history.event import effective_user
from ..history.kinds import kind_of
from ..history.options import NO_URI, is_dry_run, query_of, write_options
from ..history.reconstruct import as_created
from ..request import (
    AdmissionRequest,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
)
from .classes import RequestClass

# The old object of an update in a lane, which does not look it up; see Lane.may_know_more.
_OLD_NOT_LOOKED_UP = Unknown("the old object was not looked up")
_NAME_NOT_READ = Known("", "no policy reads the name")
_NO_OLD: Known[Object | None] = Known(None, "the operation has no old object")
_encode = msgspec.json.Encoder().encode

# Columns that make up parts of `request`.
_COLUMNS_OF = {
    "userInfo": ("user_name", "user_uid", "user_groups", "user_extra", "impersonated_user"),
    "name": ("name",),
    "options": ("request_uri",),
    "dryRun": ("request_uri",),
}
_USER_COLUMNS = {"username": ("user_name", "impersonated_user")}
_CONSTANT_PARTS = frozenset(
    ["kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource", "namespace", "operation", "uid"]
)

Key: TypeAlias = tuple[object, ...]


class Parted(NamedTuple):
    """The fields that are read of an object: JSON without the object's name, and that name; None where it stays in the JSON."""

    text: bytes
    name: str | None

    def joined(self) -> Object:
        """The fields as values."""
        value: Object = decode(self.text)
        if self.name is not None:
            value["metadata"]["name"] = self.name
        return value


class LaneName(NamedTuple):
    """The requests of a lane: see `planned.sql` of replays for the conditions on them."""

    cluster: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    verb: str


def lane_name(item: RequestClass) -> LaneName:
    """The name of the requests of a class, and of others that differ in operation or outcome."""
    return LaneName(item.cluster, item.api_group, item.api_version, item.resource, item.subresource, item.verb)


class Lane:
    """The requests of one resource, subresource and verb, identified by the few fields that policies read."""

    narrows = False  # whether `narrowed` or `names` leaves something out
    reads_world = True  # whether the state of the cluster at its time may decide about a request

    def __init__(self, name: LaneName, reads: ReadSet, has_object_selector: bool, further: Sequence[str] = ()) -> None:
        """`reads` holds every field that may decide about a request, and `further` names columns of the record that may."""
        self.name = name
        self.columns = (*_columns(reads.of("request")), *further)
        self._resource = GroupVersionResource(name.api_group, name.api_version, name.resource)
        self._kind = kind_of(self._resource, name.subresource)
        self._names_object = "name" in self.columns
        self._has_object_selector = has_object_selector
        self.reads = _with_identity(reads.of("object"), self._names_object)
        # Most names are of one object, so they are kept apart from the fields that many objects share.
        self.reads_name = _reads_name_alone(self.reads)
        self._decode = decoder(self.reads)

    def value(self, response: str) -> Object | None:
        """The fields that are read of the object in a response; None if the response is not an object of the resource."""
        try:
            value = self._decode(response)
        except (ValueError, RecursionError):
            return None
        if value.__class__ is not dict or value.get("metadata").__class__ is not dict:
            return None
        kind, version = value.get("kind"), value.get("apiVersion")
        if kind.__class__ is not str or version.__class__ is not str or not kind or not version:
            return None
        is_other = kind == "Status" or kind.endswith("List") or version.startswith("meta.k8s.io/")
        return None if is_other else value

    def narrowed(self, value: Object) -> Object:
        """What decides of the fields that are read; it may be less than the read set can say. It may change the value.

        What is kept for later runs is not narrowed, because other rules may read all of it.
        """
        return value

    def names(self, value: Object) -> bool:
        """Whether the name of an object may decide, if the lane reads it. `value` is narrowed, and may lack the name."""
        return True

    def cut(self, text: str) -> Object:
        """What decides of a text that holds at least the fields that are read."""
        value: Object = self._decode(text)
        return self.narrowed(value)

    def parted(self, value: Object) -> Parted:
        """The fields that are read of an object, with the object's name apart from the others."""
        metadata = value["metadata"]
        name = metadata.get("name") if self.reads_name else None
        if name.__class__ is not str:
            return Parted(_encode(value), None)
        others = {key: each for key, each in metadata.items() if key != "name"}
        return Parted(_encode({**value, "metadata": others}), name)

    def key(self, parted: Parted, is_created: bool, namespace: str | None, epoch: int, columns: tuple[object, ...]) -> Key:
        """Requests of this lane with equal keys have equal verdicts. `epoch` stands for the state of the cluster around them."""
        return (self.name, is_created, namespace, epoch, columns, parted)

    def request(self, value: Object, row: Mapping[str, Any]) -> AdmissionRequest:
        """The admission request, with only the fields that policies read. `row` has the columns of `planned.sql` without bodies."""
        is_created = self.name.verb == "create" or row["code"] == 201
        operation = Operation.CREATE if is_created else Operation.UPDATE
        uri = row["request_uri"]
        query = query_of(uri or "")
        if is_created:
            value = as_created(value)
        kind = self._kind or GroupVersionKind(self._resource.group, self._resource.version, value["kind"])
        name = row["name"] or value["metadata"].get("name")
        return AdmissionRequest(
            cluster=self.name.cluster,
            audit_id=row["audit_id"],
            pass_index=0,
            ts=row["ts"] or row["stage_ts"],
            operation=operation,
            kind=Known(kind, "built-in resources" if self._kind else "responseObject"),
            resource=self._resource,
            subresource=self.name.subresource,
            namespace=row["namespace"] or "",
            name=Known(name, "objectRef" if row["name"] else "responseObject") if name and self._names_object else _NAME_NOT_READ,
            user=effective_user(row),
            dry_run=NO_URI if uri is None else is_dry_run(query),
            options=NO_URI if uri is None else Known(write_options(operation, query), "requestURI"),
            object=Known(value, "responseObject", Grade.EXACT),
            old_object=_NO_OLD if is_created else _OLD_NOT_LOOKED_UP,
        )

    def may_know_more(self, request: AdmissionRequest) -> bool:
        """Whether a verdict that came out unknown may be known from other records: an objectSelector also selects old objects."""
        return self._has_object_selector and request.old_object is _OLD_NOT_LOOKED_UP


def reads_version(reads: Reads) -> bool:
    """Whether metadata.resourceVersion may be read: in an update it is that of the version before, which no response shows."""
    metadata = reads.fields.get("metadata", Reads())
    return any(each.whole or each.elements is not None for each in (reads, metadata)) or "resourceVersion" in metadata.fields


def _columns(request: Reads) -> tuple[str, ...]:
    """The columns for the fields read of `request`, except those that all requests of a lane and a namespace share."""
    if request.whole or request.elements is not None or request.fields.keys() - _COLUMNS_OF.keys() - _CONSTANT_PARTS:
        parts: Sequence[str] = tuple(_COLUMNS_OF)
    else:
        parts = sorted(request.fields.keys() & _COLUMNS_OF.keys())
    columns: dict[str, None] = {}
    for part in parts:
        user = request.fields.get("userInfo", Reads()) if part == "userInfo" and not request.whole else Reads(whole=True)
        narrow = not (user.whole or user.elements is not None) and user.fields.keys() <= _USER_COLUMNS.keys() and user.fields
        names = _USER_COLUMNS["username"] if narrow else _COLUMNS_OF[part]
        columns |= dict.fromkeys(names)
    return tuple(columns)


def _reads_name_alone(reads: Reads) -> bool:
    """Whether the name of the object is read, but not as one of all the fields of its metadata."""
    metadata = reads.fields["metadata"]
    return "name" in metadata.fields and not any(each.whole or each.elements is not None for each in (reads, metadata))


def _with_identity(reads: Reads, names_object: bool) -> Reads:
    """The reads, plus the fields that show whether a response is an object."""
    found = Reads()
    found.merge(reads)
    for name in ("kind", "apiVersion"):
        found.at(name)
    found.at("metadata").at("namespace")
    if names_object:
        found.at("metadata").at("name")
    return found
