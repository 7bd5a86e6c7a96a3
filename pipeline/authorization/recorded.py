"""The RBAC objects of recorded clusters, as each request met them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from ingest.errors import InputError

from ..cel.library.authorizer import Answer, Attributes
from ..history.in_force import in_force
from ..history.snapshots import ResourceName
from ..history.version import ObjectKey, object_key
from ..history.world import LogHistory
from ..other_authorizers import OtherAuthorizers
from ..request import Evidence, Known, Object, Unknown, UserInfo
from .authorizer import answer
from .documents import ClusterRole, binding_from_object, cluster_role_from_object, rules_from_object
from .rbac import Binding, Bindings, Rules, Versions

GROUP = "rbac.authorization.k8s.io"
# An authorizer sees a change as soon as its informer does: after milliseconds, or later while a server is busy.
CHANGE_DELAY = timedelta(seconds=1)

_ALWAYS = datetime.min.replace(tzinfo=UTC)
T = TypeVar("T")


class ClusterRoles(NamedTuple):
    """The ClusterRoles of a cluster at a moment; `missing` says why there may be further ones."""

    found: tuple[Versions[ClusterRole], ...]
    missing: str = ""


class RecordedRbac:
    """Who was allowed what at any moment, in the clusters of a history. Computes each result once, when it is first needed."""

    def __init__(
        self, history: LogHistory, others: Mapping[str, OtherAuthorizers] | None = None, delay: timedelta = CHANGE_DELAY
    ) -> None:
        """`others` has the further authorizers of each cluster; a cluster without an entry may have any."""
        self._history = history
        self._others = dict(others or {})
        self._delay = delay
        self._bindings: dict[tuple[str, str], _Epochs[Bindings]] = {}
        self._roles: dict[tuple[str, str, str], _Epochs[Versions[Rules]]] = {}
        self._keys: dict[tuple[str, str], dict[str, list[ObjectKey]]] = {}
        self._cluster_roles: dict[str, _Epochs[ClusterRoles]] = {}
        # By id of the object, which the history keeps, and by how it was read.
        self._read: dict[tuple[int, Any], tuple[Object, Any]] = {}

    def authorize(self, cluster: str, ts: datetime, user: UserInfo, asked: Attributes) -> Answer:
        """The answer that the authorizers of a cluster would have given to a user at a moment."""
        return answer(self.at(cluster, ts), self._others.get(cluster, OtherAuthorizers.ANY), user, asked)

    def at(self, cluster: str, ts: datetime) -> RbacAt:
        """The RBAC objects that a request received at `ts` met."""
        return RbacAt(self, cluster, ts)

    def bindings(self, cluster: str, namespace: str, ts: datetime) -> Bindings:
        """See RbacObjects."""
        epochs = self._bindings.get((cluster, namespace))
        if epochs is None:
            resource = "rolebindings" if namespace else "clusterrolebindings"
            keys = self._keys_of(cluster, resource).get(namespace, [])
            each = [self._object(key, binding_from_object) for key in keys]
            names = [key.name for key in keys]
            boundaries = self._boundaries_of(cluster, resource, namespace, each)
            epochs = _Epochs(boundaries, lambda moment: self._index(cluster, resource, namespace, each, names, moment))
            self._bindings[cluster, namespace] = epochs
        return epochs.at(ts)

    def role(self, cluster: str, namespace: str, name: str, ts: datetime) -> Versions[Rules]:
        """See RbacObjects."""
        epochs = self._roles.get((cluster, namespace, name))
        if epochs is None:
            resource = "roles" if namespace else "clusterroles"
            key = object_key(cluster, GROUP, resource, namespace, name)
            epochs = self._roles[cluster, namespace, name] = self._object(key, rules_from_object)
        return epochs.at(ts)

    def cluster_roles(self, cluster: str, ts: datetime) -> ClusterRoles:
        """Every ClusterRole with its labels and its aggregation rule."""
        epochs = self._cluster_roles.get(cluster)
        if epochs is None:
            each = [self._object(key, cluster_role_from_object) for key in self._keys_of(cluster, "clusterroles").get("", [])]
            boundaries = self._boundaries_of(cluster, "clusterroles", "", each)
            epochs = _Epochs(
                boundaries,
                lambda moment: ClusterRoles(
                    tuple(one.at(moment) for one in each), self._missing(cluster, "clusterroles", "", moment)
                ),
            )
            self._cluster_roles[cluster] = epochs
        return epochs.at(ts)

    def gathering(self, cluster: str) -> frozenset[str]:
        """The names of the ClusterRoles that gather others, in any version."""
        found = set()
        for key in self._keys_of(cluster, "clusterroles").get("", []):
            for version in self._history.versions.timeline(key):
                value = self._value(self._history.object_of(version), cluster_role_from_object)
                if isinstance(value, Known) and value.value is not None and value.value.selectors is not None:
                    found.add(key.name)
        return frozenset(found)

    def named(self, cluster: str) -> frozenset[tuple[str, str]]:
        """Each (group, resource) that a role, in any version, allows for some names only. Rules may write `*` for either."""
        found: set[tuple[str, str]] = set()
        for resource in ("roles", "clusterroles"):
            for keys in self._keys_of(cluster, resource).values():
                for key in keys:
                    for version in self._history.versions.timeline(key):
                        value = self._value(self._history.object_of(version), rules_from_object)
                        rules = value.value if isinstance(value, Known) else None
                        for rule in rules or ():
                            found.update((group, each) for group in rule.groups for each in rule.resources if rule.names)
        return frozenset(found)

    def namespaces(self, cluster: str) -> Iterable[str]:
        """The namespaces that have RoleBindings at any time."""
        return self._keys_of(cluster, "rolebindings")

    def moments(self, cluster: str) -> Sequence[datetime]:
        """The moments at which some answer may change: between two of them all roles and bindings stay as they are."""
        found: set[datetime] = set()
        for resource in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            for namespace, keys in self._keys_of(cluster, resource).items():
                found.update(self._list_boundaries(cluster, resource, namespace))
                for key in keys:
                    found.update(self._changes(key))
        return sorted(found)

    def _boundaries_of(self, cluster: str, resource: str, namespace: str, each: Iterable[_Epochs[Any]]) -> list[datetime]:
        own = self._list_boundaries(cluster, resource, namespace)
        return sorted({*own, *(moment for one in each for moment in one.boundaries)})

    def _missing(self, cluster: str, resource: str, namespace: str, ts: datetime) -> str:
        """Why there may be objects of a resource that nothing tells of; empty if all are known."""
        since, why = self._complete_since(cluster, resource, namespace)
        return "" if since is not None and since <= ts else why

    def _index(
        self,
        cluster: str,
        resource: str,
        namespace: str,
        objects: Iterable[_Epochs[Versions[Binding]]],
        names: Sequence[str],
        ts: datetime,
    ) -> Bindings:
        return Bindings((each.at(ts) for each in objects), self._missing(cluster, resource, namespace, ts), names)

    def _object(self, key: ObjectKey, read: Callable[[Object, str], T]) -> _Epochs[Versions[T]]:
        """The versions of an object that requests at each moment may have met."""
        boundaries = {*self._list_boundaries(key.cluster, key.resource, key.namespace), *self._changes(key)}
        return _Epochs(sorted(boundaries), lambda moment: self._versions(key, moment, read))

    def _changes(self, key: ObjectKey) -> set[datetime]:
        """The moments at which the versions that requests may meet change."""
        changes: set[datetime] = set()
        for version in self._history.versions.timeline(key):
            changes |= {version.began, version.since, version.since + self._delay}
            changes |= {version.created, version.created + self._delay} if version.created else set()
        return changes

    def _versions(self, key: ObjectKey, ts: datetime, read: Callable[[Object, str], T]) -> Versions[T]:
        if not any(self._history.versions.timeline(key)):
            return (self._unmentioned(key, ts),)
        found = in_force(self._history, key, ts, self._delay)
        if found is None:
            return (Known(None, "not there then"),)
        return tuple(self._value(evidence, read) for evidence in (found.object, *found.others))

    def _unmentioned(self, key: ObjectKey, ts: datetime) -> Evidence[None]:
        since, _ = self._complete_since(key.cluster, key.resource, key.namespace)
        if since is not None and since <= ts:
            return Known(None, "neither in a snapshot nor in the log")
        return Unknown(f"nothing is recorded of {key.resource} {key.namespace}/{key.name}".replace(" /", " "))

    def _value(self, evidence: Evidence[Object | None], read: Callable[[Object, str], T]) -> Evidence[T | None]:
        if isinstance(evidence, Unknown):
            return evidence
        value = evidence.value
        if value is None:
            return Known(None, evidence.source, evidence.grade)
        place = id(value), read
        if place not in self._read:
            self._read[place] = (value, _read(read, value, evidence.source))
        found: T | Unknown = self._read[place][1]
        return found if isinstance(found, Unknown) else Known(found, evidence.source, evidence.grade)

    def _keys_of(self, cluster: str, resource: str) -> dict[str, list[ObjectKey]]:
        """The objects of a resource by namespace."""
        found = self._keys.get((cluster, resource))
        if found is None:
            found = self._keys[cluster, resource] = {}
            for key in sorted(self._history.keys(cluster, ResourceName(GROUP, resource))):
                found.setdefault(key.namespace, []).append(key)
        return found

    def _complete_since(self, cluster: str, resource: str, namespace: str) -> tuple[datetime | None, str]:
        """The moment from which on every object of a resource is known by name, None if never; and why not before.

        A snapshot gives this knowledge for any moment, unless the log evidently lacks writes of the resource. The log holds every
        request in question, so it also holds the creates and deletes between the request and the snapshot. A log that shows how the
        server made its first roles gives it too, because no roles existed before them (kubernetes
        plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
        """
        name = ResourceName(GROUP, resource)
        listed = self._history.listings.first(cluster, name, namespace)
        if listed is not None:
            lacks = self._history.listings.unrecorded(cluster, name, listed)
            why = f"the {listed.source} lists {resource} only later, and the log lacks some of their writes: {lacks}"
            lost = self._history.listings.lost_collection(cluster, name, listed, namespace)
            if lost is not None and not lacks:
                return lost.since, f"deletions before the {listed.source} are not recorded: {lost.source}"
            return (listed.taken, why) if lacks else (_ALWAYS, "")
        first = [object_key(cluster, GROUP, kind, "", "cluster-admin") for kind in ("clusterroles", "clusterrolebindings")]
        began = [self._created(key) for key in first]
        why = f"no snapshot lists {resource}, and the log does not begin with the cluster"
        return max(moment for moment in began if moment) if all(began) else None, why

    def _created(self, key: ObjectKey) -> datetime | None:
        """The moment of an object's creation, if the log's first event of the object is its creation."""
        first = next(iter(self._history.versions.timeline(key)), None)
        return first.since if first is not None and first.creates else None

    def _list_boundaries(self, cluster: str, resource: str, namespace: str) -> list[datetime]:
        """The moments from which on an object that is not mentioned is known to be absent."""
        listed = self._history.listings.first(cluster, ResourceName(GROUP, resource), namespace)
        since, _ = self._complete_since(cluster, resource, namespace)
        moments = (since, listed.taken + self._delay if listed else None)
        return [moment for moment in moments if moment is not None]


def _read(read: Callable[[Object, str], T], value: Object, source: str) -> T | Unknown:
    """The object of a record; Unknown if it is not as RBAC objects are, because a log may hold what no API server stores."""
    try:
        return read(value, source)
    except InputError as error:
        return Unknown(error.message)


class RbacAt(NamedTuple):
    """One moment of a RecordedRbac; implements RbacObjects."""

    recorded: RecordedRbac
    cluster: str
    ts: datetime

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        return self.recorded.bindings(self.cluster, namespace, self.ts)

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        return self.recorded.role(self.cluster, namespace, name, self.ts)

    def cluster_roles(self) -> ClusterRoles:
        """Every ClusterRole with its labels and its aggregation rule."""
        return self.recorded.cluster_roles(self.cluster, self.ts)

    def namespaces(self) -> Iterable[str]:
        """The namespaces that have RoleBindings at any time."""
        return self.recorded.namespaces(self.cluster)


class _Epochs(Generic[T]):
    """A value that changes at some moments only; computed once for each span between two moments."""

    def __init__(self, boundaries: list[datetime], make: Callable[[datetime], T]) -> None:
        self.boundaries = boundaries
        self._make = make
        self._values: dict[int, T] = {}

    def at(self, ts: datetime) -> T:
        epoch = bisect_right(self.boundaries, ts)
        value = self._values.get(epoch)
        if value is None:
            value = self._values[epoch] = self._make(ts)
        return value
