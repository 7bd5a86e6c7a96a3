"""From a recorded audit event to the admission requests that validating admission saw.

One event is one request for most verbs, one per deleted object for deletecollection, and none where admission was not reached. Every
input carries where it was taken from and how good that is. The rules follow kubernetes/apiserver pkg/endpoints/handlers and
pkg/registry/generic/registry/store.go; what they leave of a request in the log is tested against recorded AdmissionReviews.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ..request import (
    AdmissionRequest,
    Evidence,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
)
from .event import BodyKind, Decode, Event, Head, Raw, Row, body_kind, decode_json, head_of
from .evidence import LazyKnown
from .intended import created_object, patch_type, patched_object, updated_object
from .kinds import kind_of, subresource_kind
from .old_object import NO_STORED_OBJECT, deleted_object_of, old_object_of, old_scale_of
from .options import connect_object, delete_options, query_of, write_options
from .outcome import Admission, is_connect, outcome_of
from .versions import Versions
from .writes import key_of, list_items, metadata_head, was_dry_run, why_no_body

_DENIED_NAME = re.compile(r'^\S+ "([^"]+)" is forbidden: ')


@dataclass(frozen=True, slots=True)
class NotReplayed:
    """A request that gives no admission request. `admission` is NOT_REACHED where policies were not asked, UNKNOWN where nobody can tell."""

    reason: str
    admission: Admission


class Discovery(Protocol):
    """What the cluster served at a time, beyond the built-in resources."""

    def custom_kind(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> GroupVersionKind | None:
        """The kind of a custom resource, or None if no CRD is known for it."""
        ...


def admission_requests(
    row: Row, versions: Versions, discovery: Discovery | None = None, decode: Decode = decode_json
) -> list[AdmissionRequest] | NotReplayed:
    """The admission requests of one row of `events`, or why there are none.

    `versions` gives older bodies of the same object, `discovery` the kinds of custom resources (without it they are taken from bodies),
    and `decode` turns raw JSON of an object into a dict that this function may change; it is called when a value is first read.
    Rows of other stages than ResponseComplete are not replayed: each of their requests has such a row as well.
    """
    event = Event.from_row(row)
    if event.stage != "ResponseComplete" or not event.resource.resource:
        return NotReplayed(f"stage {event.stage} or no resource", Admission.NOT_REACHED)
    outcome = outcome_of(event)
    if outcome.admission in (Admission.NOT_REACHED, Admission.UNKNOWN):
        return NotReplayed(outcome.reason, outcome.admission)
    return _Reconstruction(event, versions, discovery, decode).requests()


@dataclass(frozen=True, slots=True)
class _Reconstruction:
    event: Event
    versions: Versions
    discovery: Discovery | None
    decode: Decode

    def requests(self) -> list[AdmissionRequest] | NotReplayed:
        event = self.event
        if is_connect(event):
            kind = kind_of(event.resource, event.subresource)
            if kind is None:
                return NotReplayed(f"the options of {event.resource.resource}/{event.subresource} are not known", Admission.UNKNOWN)
            options = connect_object(kind, event)
            return [
                self._request(
                    Operation.CONNECT, object_=Known(options, "requestURI"), old=NO_STORED_OBJECT, options=Known(None, "CONNECT")
                )
            ]
        match event.verb:
            case "create":
                return [self._create()]
            case "delete":
                return [self._delete()]
            case "deletecollection":
                return self._delete_collection()
            case _:
                return self._update()

    # -- one method per operation ------------------------------------------------------------------------------------------------

    def _create(self) -> AdmissionRequest:
        return self._request(Operation.CREATE, object_=self._created(), old=NO_STORED_OBJECT)

    def _update(self) -> list[AdmissionRequest] | NotReplayed:
        event = self.event
        if event.code == 201:
            return [self._create()]
        key = key_of(event, self._response)
        old = old_object_of(event, key, self.versions, self.decode)
        if isinstance(old, Unknown) and not event.succeeded and self._is_apply():
            return NotReplayed("an apply of an object that nobody saw: create or update", Admission.UNKNOWN)
        parent = old
        if event.subresource == "scale":
            old = old_scale_of(parent)
        return [self._request(Operation.UPDATE, object_=self._updated(old), old=old)]

    def _delete(self) -> AdmissionRequest:
        event = self.event
        old = deleted_object_of(event, key_of(event, self._response), self.versions, self.decode)
        return self._request(
            Operation.DELETE, object_=Known(None, "DELETE has no object"), old=old, options=self._delete_options(old)
        )

    def _delete_collection(self) -> list[AdmissionRequest] | NotReplayed:
        kind, items = list_items(self.event.response_raw)
        if not self.event.succeeded or self.event.response_raw is None:
            return NotReplayed(f"which objects were to be deleted is not recorded: {why_no_body(self.event)}", Admission.UNKNOWN)
        if not items:
            return NotReplayed("there was nothing to delete", Admission.NOT_REACHED)
        requests = []
        for index, raw in enumerate(items):
            old = self._listed(raw, kind)
            requests.append(
                self._request(
                    Operation.DELETE,
                    object_=Known(None, "DELETE has no object"),
                    old=old,
                    options=self._delete_options(old),
                    pass_index=index,
                    name=Known("", "a deletecollection names no object"),
                )
            )
        return requests

    # -- objects -----------------------------------------------------------------------------------------------------------------

    def _created(self) -> Evidence[Object | None]:
        event = self.event
        if subresource_kind(event.resource.group, event.resource.resource, event.subresource):
            return self._created_beside()
        if event.succeeded and self._response_kind is BodyKind.OBJECT:
            raw = event.response_raw
            assert raw is not None
            return LazyKnown(lambda: _as_created(self.decode(raw)), "responseObject")
        return created_object(event, self._name(), self.decode)

    def _created_beside(self) -> Evidence[Object | None]:
        """Binding, Eviction and TokenRequest: the body as sent, since the answer is a Status or holds more."""
        raw = self.event.request_raw
        if raw is None:
            return Unknown(f"the requested object was not recorded: the audit level was {self.event.level}")
        # Admission labels a Binding with the topology of its node, which no body shows.
        grade = Grade.PARTIAL if self.event.subresource == "binding" else Grade.EXACT
        return LazyKnown(lambda: self.decode(raw), "requestObject", grade)

    def _updated(self, old: Evidence[Object | None]) -> Evidence[Object | None]:
        event = self.event
        if event.succeeded and self._response_kind is BodyKind.OBJECT:
            raw = event.response_raw
            assert raw is not None
            sent = head_of(event.request_raw).meta.resource_version if event.verb == "update" else ""
            return _as_updated(raw, old, sent, self.decode)
        if event.verb == "update":
            return updated_object(event, old, self.decode)
        return patched_object(event, old, self.decode)

    def _listed(self, raw: str | bytes, kind: str) -> Evidence[Object | None]:
        """An item of a list: items of built-in lists leave out kind and apiVersion."""

        def read() -> Object:
            value: Object = self.decode(raw)
            version = f"{self.event.resource.group}/{self.event.resource.version}".lstrip("/")
            return {"kind": kind, "apiVersion": version, **value}

        return LazyKnown(read, "item of responseObject")

    # -- attributes --------------------------------------------------------------------------------------------------------------

    def _request(
        self,
        operation: Operation,
        *,
        object_: Evidence[Object | None],
        old: Evidence[Object | None],
        options: Evidence[Object | None] | None = None,
        pass_index: int = 0,
        name: Evidence[str] | None = None,
    ) -> AdmissionRequest:
        event = self.event
        name = name or self._name()
        return AdmissionRequest(
            cluster=event.cluster,
            audit_id=event.audit_id,
            pass_index=pass_index,
            ts=event.ts,
            operation=operation,
            kind=self._kind(),
            resource=event.resource,
            subresource=event.subresource,
            namespace=self._namespace(),
            name=name,
            user=event.user,
            dry_run=self._dry_run(),
            options=options or Known(write_options(operation, query_of(event.request_uri)), "requestURI"),
            object=object_,
            old_object=old,
        )

    def _kind(self) -> Evidence[GroupVersionKind]:
        event = self.event
        kind = kind_of(event.resource, event.subresource)
        if kind is not None:
            return Known(kind, "built-in resources")
        for head, raw, source in (
            (self._response, event.response_raw, "responseObject"),
            (head_of(event.request_raw), event.request_raw, "requestObject"),
        ):
            if body_kind(head, raw) is BodyKind.OBJECT and head.kind != "DeleteOptions":
                return Known(GroupVersionKind(event.resource.group, event.resource.version, head.kind), source)
        custom = self.discovery.custom_kind(event.cluster, event.resource, event.ts) if self.discovery else None
        if custom is not None:
            return Known(custom, "CustomResourceDefinition", Grade.INFERRED)
        return Unknown(
            f"no body and no CustomResourceDefinition tells the kind of {event.resource.resource}.{event.resource.group}"
        )

    def _name(self) -> Evidence[str]:
        """A generated name is resolved before validating admission; it stands in the response, or in the message of a denial."""
        event = self.event
        if event.name:
            return Known(event.name, "objectRef")
        told = metadata_head(event.response_raw) if self._response_kind is BodyKind.TABLE else self._response.meta
        if event.succeeded and told.name:
            return Known(told.name, "responseObject")
        if match := _DENIED_NAME.match(event.message):
            return Known(match[1], "responseStatus.message")
        return Unknown("the name was generated, and no response tells it")

    def _namespace(self) -> str:
        """A request for a Namespace has its own name for a namespace, but for a generated one."""
        event = self.event
        if event.resource.resource == "namespaces" and not event.resource.group:
            return event.namespace or event.name
        return event.namespace

    def _dry_run(self) -> bool:
        return False if self.event.subresource == "eviction" else was_dry_run(self.event)

    def _delete_options(self, old: Evidence[Object | None]) -> Evidence[Object | None]:
        event = self.event
        body = self.decode(event.request_raw) if event.request_raw is not None else None
        sent = delete_options(query_of(event.request_uri), body)
        source = "requestObject" if body is not None else "requestURI"
        if event.resource.resource != "pods" or event.resource.group:
            return Known(sent, source)
        return LazyKnown(lambda: with_pod_grace(sent, old), f"{source}, with the grace period of the pod", Grade.INFERRED)

    def _is_apply(self) -> bool:
        raw = self.event.request_raw
        return self.event.verb == "patch" and raw is not None and patch_type(self.event, decode_json(raw)) == "apply"

    @property
    def _response(self) -> Head:
        return head_of(self.event.response_raw)

    @property
    def _response_kind(self) -> BodyKind:
        return body_kind(self._response, self.event.response_raw)


def _as_created(value: Object) -> Object:
    """A stored object as validating admission saw it at its creation: before the store gave it a resourceVersion."""
    value.get("metadata", {}).pop("resourceVersion", None)
    if value.get("kind") == "PersistentVolumeClaim" and value.get("apiVersion") == "v1":
        value["status"] = {}  # the phase is a decoration of the response
    return value


def _as_updated(raw: Raw, old: Evidence[Object | None], sent_version: str, decode: Decode) -> Known[Object | None]:
    """A stored object as validating admission saw it at its update: with the resourceVersion of the version that it replaced."""

    def read() -> Object:
        value: Object = decode(raw)
        known = (old.value or {}).get("metadata", {}).get("resourceVersion", "") if isinstance(old, Known) else ""
        version = known or (sent_version if sent_version != "0" else "")
        metadata = value.get("metadata", {})
        metadata.pop("resourceVersion", None)
        if version:
            metadata["resourceVersion"] = version
        return value

    source = "responseObject" if sent_version or isinstance(old, Known) else "responseObject; resourceVersion not known"
    return LazyKnown(read, source)


def with_pod_grace(options: Object, old: Evidence[Object | None]) -> Object:
    """DeleteOptions of a pod with the grace period that the server settles on before admission.

    Follows kubernetes/kubernetes pkg/registry/core/pod/strategy.go, CheckGracefulDelete, and BeforeDelete of apiserver for pods that
    are being deleted already.
    """
    if isinstance(old, Unknown) or old.value is None:
        return options
    pod, grace_seconds = old.value, options.get("gracePeriodSeconds")
    pending = pod.get("metadata", {}).get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in pod.get("metadata", {}):
        grace_seconds = pending if grace_seconds is None else grace_seconds
    elif not pod.get("spec", {}).get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        grace_seconds = 0
    elif grace_seconds is None:
        grace_seconds = pod["spec"].get("terminationGracePeriodSeconds", 0)
    if grace_seconds is None:
        return options
    return {**options, "gracePeriodSeconds": 1 if grace_seconds < 0 else grace_seconds}
