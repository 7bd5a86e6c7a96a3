"""From a recorded audit event to the admission requests that validating admission saw.

One event gives one request for most verbs, one per deleted object for deletecollection, and no request if admission was not
reached. Every input carries its source and grade. The rules follow kubernetes/apiserver pkg/endpoints/handlers and
pkg/registry/generic/registry/store.go. Tests compare their results with recorded AdmissionReviews.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from queries.reach_rules import EXEMPT_REVIEWS

from ..request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from .attributes import Discovery, kind_of_request, name_of_request, namespace_of_request, scale_paths_of
from .creation import has_defaults
from .deletion import delete_options_of, is_pending
from .event import BodyKind, Decode, Event, Raw, Row, decode_json, head_of
from .evidence import LazyKnown, noted
from .intended import created_object, may_apply, patched_object, updated_object
from .kinds import by_resource, kind_of, subresource_kind
from .old_object import NO_STORED_OBJECT, deleted_object_of, old_object_of, old_scale_of, version_met, was_absent
from .options import NO_URI, connect_object, query_of, write_options
from .outcome import Admission, Outcome, is_connect, outcome_of
from .pruned import may_be_pruned, with_pruned
from .version import Version, object_key
from .versions import Versions
from .writes import asks_for_dry_run, key_of, list_items, why_no_body, why_not_kept

__all__ = [
    "Attempt",
    "Discovery",
    "NotReplayed",
    "admission_requests",
    "as_created",
    "attempted_requests",
    "before_validation",
    "intended_write",
    "possible_deletions",
    "told_by_record",
]

_UNSEEN = (Admission.NOT_REACHED, Admission.UNKNOWN)
_NO_OBJECT: Known[Object | None] = Known(None, "DELETE has no object")
_NO_OPTIONS: Known[Object | None] = Known(None, "CONNECT has no options")

# The store first reads a cached copy, which may be older than the last write (apiserver pkg/storage/cacher). A request is assumed
# to see writes that were answered this long before it. On live 1.36 control planes no write was missed after 27 ms.
CACHE_LAG_MAX = timedelta(milliseconds=50)
NEWER_VERSION = "the write met a newer version of the object"


@dataclass(frozen=True, slots=True)
class NotReplayed:
    """A request that gives no admission request, and why.

    `admission` is NOT_REACHED if policies were not evaluated, UNKNOWN if the log cannot tell.
    """

    reason: str
    admission: Admission


class Attempt(NamedTuple):
    """A request as the stages before validating admission met it.

    `requests` are its passes through admission, or why they are not known. `stopped` says why validating admission did not see it,
    or may not have; None if it did.
    """

    requests: list[AdmissionRequest] | NotReplayed
    stopped: NotReplayed | None


def admission_requests(
    row: Row | Event, versions: Versions, discovery: Discovery | None = None, decode: Decode = decode_json
) -> list[AdmissionRequest] | NotReplayed:
    """The admission requests of one row of `events`, or the reason why it gives none.

    `versions` gives older bodies of the same object and `discovery` the kinds of custom resources (without it they are taken from
    bodies). `decode` turns raw JSON of an object into a dict that this room may change; it is called when a value is first read.
    An Event made from the row will do as well. Rows of other stages than ResponseComplete are not replayed: each of their requests
    has such a row too.
    """
    event = row if isinstance(row, Event) else Event.from_row(row)
    if event.stage != "ResponseComplete" or not event.resource.resource:
        return NotReplayed(f"stage {event.stage} or no resource", Admission.NOT_REACHED)
    stopped = before_validation(event, versions)
    return _Reconstruction(event, versions, discovery, decode).requests() if stopped is None else stopped


def before_validation(event: Event, versions: Versions) -> NotReplayed | None:
    """Why validating admission did not see a request, or may not have; None if it did."""
    outcome = _with_history(outcome_of(event), event, versions)
    return NotReplayed(outcome.reason, outcome.admission) if outcome.admission in _UNSEEN else None


def attempted_requests(
    event: Event, versions: Versions, discovery: Discovery | None = None, decode: Decode = decode_json
) -> list[AdmissionRequest] | NotReplayed:
    """The admission requests of an event, whether or not it reached validating admission: mutating admission comes earlier."""
    return _Reconstruction(event, versions, discovery, decode).requests()


def intended_write(event: Event, versions: Versions, decode: Decode = decode_json) -> AdmissionRequest | NotReplayed:
    """The write that a create, update or patch was meant to be, whether or not admission was reached.

    The storage of roles and bindings looks at it before validating admission does.
    """
    reconstruction = _Reconstruction(event, versions, None, decode)
    if event.verb == "create":
        return reconstruction._create()
    found = reconstruction._update()
    return found if isinstance(found, NotReplayed) else found[0]


def possible_deletions(event: Event, versions: Versions, objects: Iterable[Object]) -> list[AdmissionRequest]:
    """The admission requests of a deletecollection that listed these objects, if it came to all of them."""
    own = _Reconstruction(event, versions, None, decode_json)
    return [own._deletion(Known(each, "the log before the deletecollection"), index) for index, each in enumerate(objects)]


def told_by_record(event: Event) -> NotReplayed | None:
    """Why a request gives no admission request, if its own record says so; None if it gives one, or if history may tell more."""
    outcome = outcome_of(event)
    if outcome.admission not in _UNSEEN or _may_be_corrected(outcome, event):
        return None
    return NotReplayed(outcome.reason, outcome.admission)


def _may_be_corrected(outcome: Outcome, event: Event) -> bool:
    """Whether an earlier version may correct the outcome: a client's stale version is rejected before policies run."""
    return event.code == 409 and event.verb == "update" and outcome.admission is Admission.UNKNOWN


def _with_history(outcome: Outcome, event: Event, versions: Versions) -> Outcome:
    """The outcome corrected by an earlier version."""
    if _may_be_corrected(outcome, event) and met_newer_version(event, versions):
        return Outcome(Admission.NOT_REACHED, NEWER_VERSION)
    return outcome


def met_newer_version(event: Event, versions: Versions) -> bool:
    """Whether an update named a version that was stale when it arrived, so that the server rejected it before validation."""
    key = key_of(event, event.response_head)
    sent = event.request_head.meta.resource_version
    settled = versions.current(key, event.ts - CACHE_LAG_MAX)
    return sent.isdigit() and _number_at_least(settled) > int(sent)


def _number_at_least(version: Version | None) -> int:
    """A lower bound on the resourceVersion of a stored object: that of the last version with a known one."""
    while version is not None and version.resource_version_number is None:
        version = version.previous
    return (version.resource_version_number or 0) if version else 0


@dataclass(frozen=True, slots=True)
class _Reconstruction:
    event: Event
    versions: Versions
    discovery: Discovery | None
    decode: Decode

    def requests(self) -> list[AdmissionRequest] | NotReplayed:
        # Policies stand before the webhook that records: what they denied, it did not see.
        review = self.event.review
        if review is not None and review.is_last and outcome_of(self.event).admission is not Admission.DENIED:
            return self._reviewed()
        if is_connect(self.event):
            return self._connect()
        match self.event.verb:
            case "create":
                return [self._create()]
            case "delete":
                return self._delete()
            case "deletecollection":
                return self._delete_collection()
            case _:
                return self._update()

    def _reviewed(self) -> list[AdmissionRequest]:
        """The requests as the reviews have them: the last one, or one per object of a deletecollection."""
        event = self.event
        reviews = event.reviews[-1:]
        if event.verb == "deletecollection":
            reviews = tuple(sorted(event.reviews, key=lambda review: (review.request.namespace, review.request.name)))
        return [
            self._request(review.operation, review.new(self.decode), review.old(self.decode), review.options, index, review.name)
            for index, review in enumerate(reviews)
        ]

    def _connect(self) -> list[AdmissionRequest] | NotReplayed:
        event = self.event
        kind = kind_of(event.resource, event.subresource)
        if kind is None:
            return NotReplayed(f"the options of {event.resource.resource}/{event.subresource} are not known", Admission.UNKNOWN)
        options = Known(connect_object(kind, event), "requestURI") if event.request_uri else NO_URI
        return [self._request(Operation.CONNECT, options, NO_STORED_OBJECT, _NO_OPTIONS)]

    def _create(self) -> AdmissionRequest:
        return self._request(Operation.CREATE, self._created(), NO_STORED_OBJECT, self._write_options(Operation.CREATE))

    def _update(self) -> list[AdmissionRequest] | NotReplayed:
        event = self.event
        if event.code == 201:
            return [self._create()]
        met = version_met(event, key_of(event, event.response_head), self.versions)
        old = old_object_of(event, met, self.decode)
        if isinstance(old, Unknown) and not event.succeeded and may_apply(event):
            if not event.subresource and was_absent(event, met, self.versions, self.discovery):
                return [self._create()]
            return NotReplayed("an apply of an object that the log does not show: it is a create or an update", Admission.UNKNOWN)
        if event.subresource == "scale":
            old = old_scale_of(old, scale_paths_of(event, self.discovery))
        known_version = met.resource_version if isinstance(old, Known) else ""
        new = self._updated(old, known_version)
        return [self._request(Operation.UPDATE, new, old, self._write_options(Operation.UPDATE))]

    def _delete(self) -> list[AdmissionRequest] | NotReplayed:
        event = self.event
        met = version_met(event, key_of(event, event.response_head), self.versions)
        if is_pending(event, met, self.decode):
            return NotReplayed("the deletion was pending already", Admission.NOT_REACHED)
        old = deleted_object_of(event, met, self.decode)
        return [self._request(Operation.DELETE, _NO_OBJECT, old, delete_options_of(event, old, self.decode))]

    def _delete_collection(self) -> list[AdmissionRequest] | NotReplayed:
        """One request per listed object. The server deletes them in several workers, so their order means nothing."""
        event = self.event
        if not event.succeeded or event.response_kind is not BodyKind.LIST:
            return NotReplayed(f"which objects were to be deleted is not recorded: {why_no_body(event)}", Admission.UNKNOWN)
        kind, items = list_items(event.response_raw)
        if not items:
            return NotReplayed("there was nothing to delete", Admission.NOT_REACHED)
        return [self._deletion(self._listed(raw, kind), index) for index, raw in enumerate(items)]

    def _deletion(self, old: Evidence[Object | None], index: int) -> AdmissionRequest:
        """The request on one object of a collection."""
        options = delete_options_of(self.event, old, self.decode)
        unnamed = Known("", "a deletecollection names no object")
        return self._request(Operation.DELETE, _NO_OBJECT, old, options, pass_index=index, name=unnamed)

    def _created(self) -> Evidence[Object | None]:
        event = self.event
        place = (event.resource.group, event.resource.resource)
        if subresource_kind(*place, event.subresource) or place in EXEMPT_REVIEWS:
            return self._created_beside()
        raw = self._whole_response()
        if raw is not None and may_be_pruned(event):
            return self._before_pruning(decode_json(raw), None, "")
        if raw is not None:
            return LazyKnown(lambda: as_created(self.decode(raw)), "responseObject", self._grade(Grade.EXACT))
        return created_object(event, name_of_request(event), self.decode, self._by_policies(), self._sets_defaults())

    def _sets_defaults(self) -> bool:
        resource = self.event.resource
        if by_resource(resource.group, resource.resource) is not None:
            return has_defaults(resource)
        return self.discovery is None or self.discovery.sets_defaults(self.event.cluster, resource, self.event.ts)

    def _created_beside(self) -> Evidence[Object | None]:
        """Binding, Eviction, TokenRequest and reviews: the body as sent, since the answer is a Status or holds more."""
        raw = self.event.request_raw
        if raw is None:
            return Unknown(f"the requested object was not recorded: {why_not_kept(self.event)}")
        # No body shows the labels that admission adds to a Binding, nor the default audiences that the server adds to a token.
        grade = Grade.PARTIAL if self.event.subresource in ("binding", "token") else Grade.EXACT
        complete = _with_account if self.event.subresource == "token" else _as_it_is
        return LazyKnown(lambda: complete(self.decode(raw), self.event), "requestObject", self._grade(grade))

    def _updated(self, old: Evidence[Object | None], known_version: str) -> Evidence[Object | None]:
        event = self.event
        raw = self._whole_response()
        if raw is None:
            make = updated_object if event.verb == "update" else patched_object
            return make(event, old, self.decode, self._by_policies(), self._tried_once())
        sent = event.request_head.meta.resource_version if event.verb == "update" else ""
        version = known_version or ("" if sent == "0" else sent)
        source = "responseObject" if version else "responseObject; resourceVersion not known"
        if may_be_pruned(event):
            return self._before_pruning(decode_json(raw), old.value if isinstance(old, Known) else None, version)
        return LazyKnown(lambda: _with_version(self.decode(raw), version), source, self._grade(Grade.EXACT))

    def _before_pruning(self, stored: Object, old: Object | None, version: str) -> Evidence[Object | None]:
        """A custom resource that webhooks changed: policies saw it before the store pruned it."""
        is_created = self.event.verb == "create" or self.event.code == 201
        stored = as_created(stored) if is_created else _with_version(stored, version)
        found = with_pruned(stored, self.event, old)
        # An update that was tried again shows the patches of its first try.
        is_sure = found is not None and (is_created or found == stored or self._tried_once())
        source = "responseObject and recorded webhook patches"
        source = source if version or is_created else f"{source}; resourceVersion not known"
        return Known(stored if found is None else found, source, self._grade(Grade.EXACT if is_sure else Grade.PARTIAL))

    def _listed(self, raw: Raw, kind: str) -> Evidence[Object | None]:
        """An item of a list: items of built-in lists leave out kind and apiVersion. It may have changed until its turn came."""
        event = self.event
        meta = head_of(raw).meta
        key = object_key(event.cluster, event.resource.group, event.resource.resource, meta.namespace, meta.name)
        changed = self.versions.changed_between(key, event.ts, event.stage_ts, but=event.write_id)
        version = f"{event.resource.group}/{event.resource.version}".lstrip("/")
        return LazyKnown(
            lambda: {"kind": kind, "apiVersion": version, **self.decode(raw)},
            "item of responseObject",
            self._grade(Grade.PARTIAL if changed else Grade.EXACT),
        )

    def _whole_response(self) -> Raw | None:
        """The response if it is the object that was written."""
        return self.event.written_raw

    def _by_policies(self) -> bool:
        """Whether mutating policies, which leave no trace, may have changed the object."""
        return self.discovery is None or self.discovery.has_mutating_policies(self.event.cluster)

    def _tried_once(self) -> bool:
        """Whether no other write crossed this one, so that its annotations are those of its only pass."""
        event = self.event
        key = key_of(event, event.response_head)
        return not self.versions.changed_between(key, event.ts - CACHE_LAG_MAX, event.stage_ts, but=event.write_id)

    def _grade(self, grade: Grade) -> Grade:
        """The grade, at most PARTIAL for a redacted event."""
        return Grade.PARTIAL if "redacted" in self.event.flags else grade

    def _write_options(self, operation: Operation) -> Evidence[Object | None]:
        uri = self.event.request_uri
        if not uri and self.event.review is not None:
            return self.event.review.options
        return Known(write_options(operation, query_of(uri)), "requestURI") if uri else NO_URI

    def _dry_run(self, options: Evidence[Object | None]) -> bool | Unknown:
        found = asks_for_dry_run(self.event)
        return options if isinstance(options, Unknown) and found is not True else found

    def _request(
        self,
        operation: Operation,
        new: Evidence[Object | None],
        old: Evidence[Object | None],
        options: Evidence[Object | None],
        pass_index: int = 0,
        name: Evidence[str] | None = None,
    ) -> AdmissionRequest:
        event = self.event
        dry_run = self._dry_run(options)
        if event.is_redacted:
            new, old, options = noted(new), noted(old), noted(options)
        return AdmissionRequest(
            cluster=event.cluster,
            audit_id=event.audit_id,
            pass_index=pass_index,
            ts=event.ts,
            operation=operation,
            kind=kind_of_request(event, self.discovery),
            resource=event.resource,
            subresource=event.subresource,
            namespace=namespace_of_request(event),
            name=name or name_of_request(event),
            user=event.user,
            dry_run=dry_run,
            options=options,
            object=new,
            old_object=old,
        )


def _as_it_is(value: Object, event: Event) -> Object:
    return value


def _with_account(value: Object, event: Event) -> Object:
    """A TokenRequest as its storage hands it to admission (kubernetes pkg/registry/core/serviceaccount/storage/token.go)."""
    metadata = value.setdefault("metadata", {})
    metadata.update({"name": metadata.get("name") or event.name, "namespace": metadata.get("namespace") or event.namespace})
    metadata["creationTimestamp"] = f"{event.ts:%Y-%m-%dT%H:%M:%SZ}"
    value["status"] = {"token": "", "expirationTimestamp": None}
    return value


def as_created(value: Object) -> Object:
    """A stored object as validating admission saw it at its creation: before the store gave it a resourceVersion."""
    value.get("metadata", {}).pop("resourceVersion", None)
    if value.get("kind") == "PersistentVolumeClaim" and value.get("apiVersion") == "v1":
        value["status"] = {}  # the phase is a decoration of the response
    return value


def _with_version(value: Object, version: str) -> Object:
    """A stored object as validating admission saw it at its update: with the resourceVersion of the version that it replaced."""
    metadata = value.get("metadata", {})
    metadata.pop("resourceVersion", None)
    if version:
        metadata["resourceVersion"] = version
    return value
