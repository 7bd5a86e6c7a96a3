"""The versions of every object that the log and snapshots speak of, and which of them a request met.

One object's versions are ordered by resourceVersion, which is one counter for the whole store. Writes whose answer does not tell
the resourceVersion (a binding, an eviction) take their place by time. A write at which nobody recorded a body still has its entry:
it says that the object changed, so that an older body is not taken for the current one.

For bulk work the lookups are an ASOF join: `(cluster, group, resource, namespace, name)` of `ObjectKey` equal, and of the rows of
one object the last with `resource_version_number` below that of the response; where the request was refused, the last with `since`
not after the request's `ts`. Only forms other than WHOLE need this class.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from ..request import Grade
from .event import Raw

# Resources that one storage serves under several groups (kubernetes pkg/kubeapiserver/default_storage_factory_builder.go).
_STORED_AS = {
    ("events.k8s.io", "events"): "",
    ("extensions", "daemonsets"): "apps",
    ("extensions", "deployments"): "apps",
    ("extensions", "replicasets"): "apps",
    ("extensions", "ingresses"): "networking.k8s.io",
    ("extensions", "networkpolicies"): "networking.k8s.io",
}


class ObjectKey(NamedTuple):
    """Which object, apart from its uid: a name may be used again."""

    cluster: str
    group: str
    resource: str
    namespace: str
    name: str


def object_key(cluster: str, group: str, resource: str, namespace: str, name: str) -> ObjectKey:
    """The key under which all versions of one object are found. A Namespace lies in no namespace, though its URL suggests so."""
    if not group and resource == "namespaces":
        namespace = ""
    return ObjectKey(cluster, _STORED_AS.get((group, resource), group), resource, namespace, name)


class Form(StrEnum):
    """What an entry knows of its version."""

    WHOLE = "whole"  # the body is the object
    METADATA = "metadata"  # the body is metadata alone; the rest is the version before
    CREATED = "created"  # the body is what a client asked to create; `metadata` is what the answer told
    SCALE = "scale"  # the body is a Scale
    BINDING = "binding"  # the body is a Binding: the pod before, with a node
    MARKED = "marked"  # the version before, marked for deletion; no body
    OPAQUE = "opaque"  # changed in a way that nobody recorded
    DISTURBED = "disturbed"  # perhaps changed, by a request that spoke of many objects and answered for none
    GONE = "gone"  # deleted


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one object. `since` is when the write was answered, `began` when it was received."""

    form: Form
    since: datetime
    began: datetime
    source: str
    audit_id: str = ""
    uid: str = ""
    resource_version: str = ""
    api_version: str = ""
    body: Raw | None = None
    metadata: Raw | None = None
    patch: str = ""  # of METADATA: the type of the patch that is the body
    previous: Version | None = None
    grade: Grade = Grade.INFERRED
    grace_seconds: int | None = None
    creates: bool = False  # the object did not exist before
    created: datetime | None = None  # of a snapshot: creationTimestamp, from which on the object existed

    @property
    def resource_version_number(self) -> int | None:
        """The resourceVersion as a number, or None where it is absent or not one."""
        return int(self.resource_version) if self.resource_version.isdigit() else None


class Versions(Protocol):
    """How reconstruction asks for versions. None means that nothing at all is known of the object at that point."""

    def before_write(self, key: ObjectKey, audit_id: str) -> Version | None:
        """The version that a recorded, successful write replaced."""
        ...

    def at(self, key: ObjectKey, resource_version: str, *, but: str = "") -> Version | None:
        """The version with this resourceVersion, `but` not as one event tells it."""
        ...

    def current(self, key: ObjectKey, moment: datetime) -> Version | None:
        """The last version whose write had been answered at a moment."""
        ...

    def changed_between(self, key: ObjectKey, after: datetime, until: datetime, *, but: str = "", numbered: bool = True) -> bool:
        """Whether a write of the object was answered after the one moment and received before the other.

        `but` leaves out one event, `numbered=False` the writes whose place in the order a resourceVersion tells.
        """
        ...


class Disturbance(NamedTuple):
    """A request that may have changed any object of a resource in a namespace, and nobody knows which."""

    cluster: str
    group: str
    resource: str
    namespace: str
    version: Version


class LogVersions:
    """Versions held in memory: a dictionary of sorted lists. Bodies are kept as they came; only their reader decodes them."""

    def __init__(self, versions: Iterable[tuple[ObjectKey, Version]] = ()) -> None:
        self._entries: dict[ObjectKey, list[Version]] = {}
        self._timelines: dict[ObjectKey, list[Version]] = {}
        self._disturbances: dict[tuple[str, str, str, str], list[Version]] = {}
        for key, version in versions:
            self.add(key, version)

    def add(self, key: ObjectKey, version: Version) -> None:
        """Add one version, in any order."""
        self._entries.setdefault(key, []).append(version)
        self._timelines.pop(key, None)

    def disturb(self, disturbance: Disturbance) -> None:
        """Add a request that may have changed any object in its reach."""
        self._disturbances.setdefault(disturbance[:4], []).append(disturbance.version)
        self._timelines.clear()

    def objects(self) -> Iterable[ObjectKey]:
        """Every object of which something is known, in the order of first mention."""
        return self._entries.keys()

    def timeline(self, key: ObjectKey) -> list[Version]:
        """All entries of an object, oldest first, each with a link to the one before."""
        timeline = self._timelines.get(key)
        if timeline is None:
            entries = [*self._entries.get(key, ()), *self._disturbances.get(key[:4], ())]
            timeline = self._timelines[key] = _linked(_ordered(entries))
        return timeline

    def before_write(self, key: ObjectKey, audit_id: str) -> Version | None:
        """See Versions."""
        for version in self.timeline(key):
            if version.audit_id == audit_id:
                return version.previous
        return None

    def at(self, key: ObjectKey, resource_version: str, *, but: str = "") -> Version | None:
        """See Versions. Of several records of one version, a whole body is the best."""
        timeline = self.timeline(key)
        found = [each for each in timeline if each.resource_version == resource_version and (not but or each.audit_id != but)]
        whole = [version for version in found if version.form is Form.WHOLE]
        return next(iter(whole or found), None)

    def current(self, key: ObjectKey, moment: datetime) -> Version | None:
        """See Versions. A snapshot taken later speaks for earlier moments too, as far as no write is recorded in between."""
        timeline = self.timeline(key)
        known = [version for version in timeline if version.since <= moment]
        if known:
            return known[-1]
        first = timeline[0] if timeline else None
        return first if first and first.created and first.created <= moment else None

    def absent_before(self, key: ObjectKey, moment: datetime) -> bool:
        """Whether the first thing known of an object is that it came into being after a moment."""
        timeline = self.timeline(key)
        if not timeline or timeline[0].since <= moment:
            return False
        first = timeline[0]
        return first.creates or (first.created is not None and first.created > moment)

    def changed_between(self, key: ObjectKey, after: datetime, until: datetime, *, but: str = "", numbered: bool = True) -> bool:
        """See Versions."""
        for version in self.timeline(key):
            crosses = version.since > after and version.began < until and version.audit_id not in ("", but)
            if crosses and (numbered or version.resource_version_number is None):
                return True
        return False


def _ordered(entries: list[Version]) -> list[Version]:
    """By time, and where both tell it by resourceVersion: responses of concurrent writes may be recorded in any order."""
    by_time = sorted(entries, key=lambda version: version.since)
    numbered = [version for version in by_time if version.resource_version_number is not None]
    in_order = iter(sorted(numbered, key=lambda version: _order(version, numbered)))
    return [version if version.resource_version_number is None else next(in_order) for version in by_time]


def _order(version: Version, numbered: list[Version]) -> tuple[int, bool, datetime, bool]:
    """Where a version stands among those with a number.

    A version that ends the object shares its number with the last body; a write that changed nothing, and a snapshot, share theirs
    with the write before. A snapshot comes after the writes that had begun when it was taken.
    """
    number, since = version.resource_version_number or 0, version.since
    if not version.audit_id:
        same = [other.since for other in numbered if other.resource_version_number == number and other.began < version.since]
        since = max([since, *same])
    return (number, version.form is Form.GONE, since, not version.audit_id)


def _linked(entries: list[Version]) -> list[Version]:
    linked: list[Version] = []
    for version in entries:
        previous = linked[-1] if linked else None
        if version.form is Form.DISTURBED and (previous is None or previous.form is Form.GONE):
            continue  # there was nothing to disturb
        linked.append(replace(version, previous=previous))
    return linked
