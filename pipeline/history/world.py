"""The state of the cluster at any moment, from the log and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ..matching.namespaces import NAME_LABEL
from ..request import Evidence, Grade, GroupVersionKind, GroupVersionResource, Known, Object, Unknown, worst
from .creation import schema_sets_defaults
from .event import Event, Row
from .evidence import noted
from .kinds import by_kind, may_be_served
from .listings import Listings, Span
from .objects import object_of
from .old_object import describe
from .removals import record_removals
from .scale import ScalePaths, paths_of
from .snapshots import ObjectList, ResourceName, lists_of, snapshot_versions
from .version import Form, ObjectKey, Version, object_key
from .versions import LogVersions
from .writes import disturbance_of, record

CRDS = ResourceName("apiextensions.k8s.io", "customresourcedefinitions")
NAMESPACES = ResourceName("", "namespaces")
POLICIES = ResourceName("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDINGS = ResourceName("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
MUTATING_BINDINGS = ResourceName("admissionregistration.k8s.io", "mutatingadmissionpolicybindings")
_RBAC_GROUP = "rbac.authorization.k8s.io"

_EVER = datetime.min.replace(tzinfo=UTC)

# The resources that a history needs in addition to the params of its policies. RBAC serves the evaluation of `authorizer`.
NEEDED = (
    NAMESPACES,
    CRDS,
    POLICIES,
    BINDINGS,
    MUTATING_BINDINGS,
    *(ResourceName(_RBAC_GROUP, name) for name in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")),
)


class LogHistory:
    """All moments of the clusters in a log; implements History of pipeline.world and Discovery of this room.

    Objects are decoded once per version and shared between callers, who must not change them.
    """

    def __init__(
        self,
        versions: LogVersions,
        lists: Mapping[tuple[str, ResourceName], Sequence[ObjectList]] | None = None,
        spans: Mapping[str, Span] | None = None,
    ) -> None:
        """`lists` are those of snapshots, earliest first; `spans` say from when to when a cluster has events."""
        self.versions = versions
        self.listings = Listings(versions, lists or {}, self.keys, spans)
        # By cluster and policy: when the server refused a request because it did not know the kind of the policy's params, and its
        # words. Whoever loads a history of a lake sets it.
        self.unconfigured: Mapping[tuple[str, str], Sequence[tuple[datetime, str]]] = {}
        self._by_resource: dict[tuple[str, ResourceName], list[ObjectKey]] = {}
        for key in versions.objects():
            self._by_resource.setdefault((key.cluster, ResourceName(key.group, key.resource)), []).append(key)
        self._objects: dict[int, tuple[Version, Evidence[Object | None]]] = {}  # by id: hashing a version reads it all

    @classmethod
    def from_rows(cls, events: Iterable[Row], objects: Iterable[Row] = (), spans: Mapping[str, Span] | None = None) -> LogHistory:
        """Build from rows of the lake's `events` (writes of the needed resources; others do no harm) and `objects`."""
        versions = LogVersions()
        for row in events:
            event = Event.from_row(row)
            if event.may_have_succeeded:
                record(event, versions)
            elif disturbance := disturbance_of(event):
                versions.disturb(disturbance)
        rows = list(objects)
        for key, version in snapshot_versions(rows):
            versions.add(key, version)
        lists = lists_of(rows)
        record_removals(versions, lists)
        return cls(versions, lists, spans)

    def at(self, cluster: str, ts: datetime) -> LogWorld:
        """The world as a request received at `ts` met it."""
        return LogWorld(self, cluster, ts)

    def keys(self, cluster: str, name: ResourceName) -> Sequence[ObjectKey]:
        """Every recorded object of a resource."""
        return self._by_resource.get((cluster, name), ())

    def object_at(self, key: ObjectKey, moment: datetime) -> Evidence[Object | None]:
        """One object as of a moment. Known(None) if it did not exist."""
        version = self.versions.current(key, moment)
        if version is not None:
            return self.object_of(version)
        removed: Version | None = None
        if self.versions.absent_before(key, moment):
            first = next(iter(self.versions.timeline(key)))
            removed = self.listings.removed_before(key, moment, first.created or first.since)
            if removed is None:
                return Known(None, "created later", Grade.INFERRED)
        listing = self.listing(key.cluster, ResourceName(key.group, key.resource), moment, key.namespace)
        if removed is not None and not (isinstance(listing, Known) and listing.value <= moment):
            return Unknown(
                f"{describe(key)} was created later, and one of that name may have been deleted before: {removed.source}"
            )
        if isinstance(listing, Known):
            return self._unlisted(key, moment, listing)
        nothing = f"nothing is recorded of {key.resource} {key.namespace}/{key.name} up to then".replace(" /", " ")
        return Unknown(f"{nothing}; {listing.reason}" if isinstance(listing, Unknown) else nothing)

    def _unlisted(self, key: ObjectKey, moment: datetime, listing: Known[datetime]) -> Evidence[Object | None]:
        """An object without a record up to a moment, where a list shows all objects that existed."""
        first = next(iter(self.versions.timeline(key)), None)
        if first is None or listing.value <= moment:
            return Known(None, "not in the snapshot", listing.grade)
        if not first.audit_id:
            return Unknown(f"{describe(key)} was written after this, and the write is not recorded: {first.source}")
        return Unknown(f"{describe(key)} was there before it was written, but what it was is not recorded: {first.source}")

    def object_of(self, version: Version) -> Evidence[Object | None]:
        """The object of a version, decoded once."""
        found = self._objects.get(id(version))
        if found is None:
            found = self._objects[id(version)] = (version, object_of(version))
        return found[1]

    def listing(
        self, cluster: str, name: ResourceName, moment: datetime, namespace: str | None = None
    ) -> Evidence[datetime] | None:
        """Since when all objects of a resource are known by name, if they are at a moment; one without a record is then absent.

        They are known if they were listed, or if their kind was itself defined in the log. None if no list covers them. Unknown if
        a later list covers them but is not evidence for that moment. `namespace` limits the question to one namespace; None asks
        about all.
        """
        found = self.listings.complete(cluster, name, moment, namespace)
        if isinstance(found, Known) and found.value.taken <= moment:
            return Known(found.value.taken, found.source, found.grade)
        crd = object_key(cluster, *CRDS, "", f"{name.resource}.{name.group}")
        if any(version.creates for version in self.versions.timeline(crd)):
            return Known(_EVER, "the definition of the kind", Grade.INFERRED)
        if namespace and self.listings.began_whole(cluster, name, namespace, moment):
            return Known(_EVER, "the log, which shows how the namespace was made", Grade.INFERRED)
        return Known(found.value.taken, found.source, found.grade) if isinstance(found, Known) else found

    def custom_kind(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> GroupVersionKind | None:
        """The kind of a custom resource; see Discovery. Its definition is the one at that moment, or the earliest known."""
        definition = self._definition(cluster, resource, moment)
        return GroupVersionKind(resource.group, resource.version, definition["spec"]["names"]["kind"]) if definition else None

    def scale_paths(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> ScalePaths | None:
        """Where a custom resource keeps its scale; see Discovery."""
        definition = self._definition(cluster, resource, moment)
        return paths_of(definition, resource.version) if definition else None

    def sets_defaults(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> bool:
        """Whether the schema of a custom resource has defaults; see Discovery."""
        definition = self._definition(cluster, resource, moment)
        return definition is None or schema_sets_defaults(definition, resource.version)

    def lists_all(self, event: Event, moment: datetime) -> bool:
        """See Discovery. In a namespace that was made in the log, each object was made in the log, too."""
        if event.namespace and self.listings.began_in_log(event.cluster, event.namespace, moment):
            return True
        name = ResourceName(event.resource.group, event.resource.resource)
        return isinstance(self.listing(event.cluster, name, moment, event.namespace), Known)

    def has_mutating_policies(self, cluster: str) -> bool:
        """Whether a MutatingAdmissionPolicy was ever bound; see Discovery."""
        return bool(self.keys(cluster, MUTATING_BINDINGS))

    def _definition(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> Object | None:
        key = object_key(cluster, *CRDS, "", f"{resource.resource}.{resource.group}")
        version = self.versions.current(key, moment) or next(iter(self.versions.timeline(key)), None)
        found = self.object_of(version) if version else None
        return found.value if isinstance(found, Known) else None


@dataclass(frozen=True, slots=True)
class LogWorld:
    """One moment of a LogHistory; implements World of pipeline.world."""

    history: LogHistory
    cluster: str
    ts: datetime
    _crds: dict[tuple[str, str], Evidence[Object | None]] = field(default_factory=dict, compare=False, repr=False)

    def namespace(self, name: str) -> Evidence[Object | None]:
        """See World. The label with the namespace's own name is always present: the server sets it.

        Controllers put objects into a new namespace before its creator has the answer.
        """
        key = object_key(self.cluster, *NAMESPACES, "", name)
        found = self.history.object_at(key, self.ts)
        first = next(iter(self.history.versions.timeline(key)), None)
        if first is not None and first.creates and first.began <= self.ts < first.since:
            found = self.history.object_of(first)
        if isinstance(found, Known) and found.value is not None:
            metadata = found.value["metadata"]
            metadata["labels"] = {NAME_LABEL: name} | (metadata.get("labels") or {})
        return found

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        """See World."""
        resource = self.resource_of(api_version, kind)
        if isinstance(resource, Unknown):
            return resource
        if resource.value is None:
            return Known(None, resource.source, resource.grade)
        key = object_key(self.cluster, *resource.value, namespace, name)
        return in_version(self.history.object_at(key, self.ts), api_version)

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        """See World. Unknown if one of the objects is, or if there may be others that were not listed."""
        return self._all(api_version, kind, namespace, lambda key: self.history.object_at(key, self.ts))

    def perhaps_listed(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        """As `params`, with objects that an earlier deletecollection may have deleted. A deletecollection changes no labels."""
        return self._all(api_version, kind, namespace, self._undeleted)

    def _undeleted(self, key: ObjectKey) -> Evidence[Object | None]:
        version = self.history.versions.current(key, self.ts)
        while version is not None and version.form is Form.DISTURBED and version.previous is not None:
            version = version.previous
        return self.history.object_of(version) if version is not None else self.history.object_at(key, self.ts)

    def _all(
        self, api_version: str, kind: str, namespace: str, object_of: Callable[[ObjectKey], Evidence[Object | None]]
    ) -> Evidence[Sequence[Object]]:
        resource = self.resource_of(api_version, kind)
        if isinstance(resource, Unknown):
            return resource
        if resource.value is None:
            return Known((), resource.source, resource.grade)
        listing = self.history.listing(self.cluster, resource.value, self.ts, namespace)
        if not isinstance(listing, Known):
            return listing or Unknown(f"no snapshot lists {kind}, so that there may be more of them than the log tells")
        found: list[Object] = []
        grade, is_redacted = listing.grade, False
        for key in sorted(self.history.keys(self.cluster, resource.value)):
            if key.namespace == namespace:
                evidence = in_version(object_of(key), api_version)
                if isinstance(evidence, Unknown):
                    return evidence
                if evidence.value is not None:
                    found.append(evidence.value)
                    grade, is_redacted = worst(grade, evidence.grade), is_redacted or evidence.is_redacted
        listed: Known[Sequence[Object]] = Known(found, f"all recorded {kind}", grade)
        return noted(listed) if is_redacted else listed

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        """See World."""
        group = api_version.rpartition("/")[0]
        row = by_kind(group, kind)
        if row is not None:
            return Known(row.namespaced if may_be_served(api_version) else None, "built-in resources")
        found = self.custom_resource(group, kind)
        if isinstance(found, Unknown):
            return found
        if found.value is None or not _serves(found.value, api_version):
            return self._once_served(api_version, kind) or Known(None, found.source, found.grade)
        return Known(found.value["spec"]["scope"] == "Namespaced", found.source, found.grade)

    def _once_served(self, api_version: str, kind: str) -> Known[bool | None] | None:
        """The scope of a kind that was served before.

        A server that watches the params of a policy does not check again whether their kind is served: it finds no params then
        (kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_source.go, ensureParamsForPolicyLocked).
        """
        for key in self.history.keys(self.cluster, CRDS):
            if not key.name.endswith(f".{api_version.rpartition('/')[0]}"):
                continue
            for version in self.history.versions.timeline(key):
                found = self.history.object_of(version) if version.form is Form.WHOLE and version.since <= self.ts else None
                crd = found.value if isinstance(found, Known) else None
                if crd is not None and crd["spec"]["names"]["kind"] == kind and _serves(crd, api_version):
                    return Known(crd["spec"]["scope"] == "Namespaced", version.source, Grade.PARTIAL)
        return None

    def objects(self, name: ResourceName) -> Evidence[Sequence[Object]]:
        """All recorded objects of a resource, ordered by namespace and name: roles and bindings for an authorizer."""
        listing = self.history.listing(self.cluster, name, self.ts)
        if not isinstance(listing, Known):
            return listing or Unknown(f"no snapshot lists {name.resource}")
        found = [self.history.object_at(key, self.ts) for key in sorted(self.history.keys(self.cluster, name))]
        unknown = next((evidence for evidence in found if isinstance(evidence, Unknown)), None)
        if unknown is not None:
            return unknown
        values = [evidence.value for evidence in found if isinstance(evidence, Known) and evidence.value is not None]
        return Known(values, f"all recorded {name.resource}", listing.grade)

    def resource_of(self, api_version: str, kind: str) -> Evidence[ResourceName | None]:
        """The resource that serves a kind; Known(None) if the cluster did not serve the kind."""
        group = api_version.rpartition("/")[0]
        row = by_kind(group, kind)
        if row is not None:
            return Known(ResourceName(row.group, row.resource) if may_be_served(api_version) else None, "built-in resources")
        found = self.custom_resource(group, kind)
        if isinstance(found, Unknown):
            return found
        if found.value is None or not _serves(found.value, api_version):
            return Known(None, found.source, found.grade)
        return Known(ResourceName(group, found.value["spec"]["names"]["plural"]), found.source, found.grade)

    def custom_resource(self, group: str, kind: str) -> Evidence[Object | None]:
        """The CustomResourceDefinition of a kind as of this moment; Known(None) if it did not exist."""
        if (group, kind) not in self._crds:
            self._crds[group, kind] = self._find_crd(group, kind)
        return self._crds[group, kind]

    def _find_crd(self, group: str, kind: str) -> Evidence[Object | None]:
        absent: Known[Object | None] | None = None
        for key in self.history.keys(self.cluster, CRDS):
            if not key.name.endswith(f".{group}"):
                continue
            found = self.history.object_at(key, self.ts)
            if isinstance(found, Unknown):
                return found
            if found.value is None:
                absent = found
            elif found.value["spec"]["names"]["kind"] == kind:
                return found
        if absent is not None:
            return absent
        listing = self.history.listing(self.cluster, CRDS, self.ts)
        if isinstance(listing, Known):
            return Known(None, "no CustomResourceDefinition in snapshot or log", listing.grade)
        missing = f"no CustomResourceDefinition of {kind} in {group} is recorded, and "
        return Unknown(missing + (listing.reason if listing else "no snapshot lists them"))


def in_version(found: Evidence[Object | None], api_version: str) -> Evidence[Object | None]:
    """A custom object in another version of its kind: without a conversion webhook only `apiVersion` differs."""
    if isinstance(found, Unknown) or found.value is None or found.value.get("apiVersion") == api_version:
        return found
    return Known({**found.value, "apiVersion": api_version}, f"{found.source}, in another version", Grade.PARTIAL)


def _serves(crd: Object, api_version: str) -> bool:
    version = api_version.rpartition("/")[2]
    return any(entry["name"] == version and entry.get("served", True) for entry in crd["spec"].get("versions", ()))
