"""Whether an object without a record was absent at a moment, from the lists of snapshots and the log together.

A list is evidence for the time after it, because the log records later writes. A later list is evidence for the time before it
too: a listed object existed since its creation, and the log records deletions and changes. That holds only if the log records the
writes of a resource. The audit policy itself is not in the lake, so the log and the lists are compared: after one missing write, a
later list is not evidence for the time before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from ..request import Evidence, Grade, Known, Unknown
from .event import head_of
from .old_object import describe
from .snapshots import ObjectList, ResourceName
from .version import Disturbance, Form, ObjectKey, Version, object_key
from .versions import LogVersions

Keys = Callable[[str, ResourceName], Sequence[ObjectKey]]

# The lists of a snapshot are taken one after another, and times in objects are in whole seconds.
_LISTING_TIME = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_EVER = datetime.min.replace(tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)
# A list may be this much later than the last event, or as much as the log is long. An even later list says too little of its time.
_GAP_MAX = timedelta(hours=1)
_NAMESPACES = ResourceName("", "namespaces")
# Kubernetes puts one of each into every namespace (kube-root-ca.crt, default), so a list of all namespaces shows several.
_IN_EVERY_NAMESPACE = frozenset({ResourceName("", "configmaps"), ResourceName("", "serviceaccounts")})
_STAYS = frozenset({Form.WHOLE, Form.CREATED, Form.METADATA, Form.SCALE, Form.BINDING})
_MAY_REMOVE = frozenset({Form.GONE, Form.MARKED, Form.OPAQUE, Form.DISTURBED})


class Span(NamedTuple):
    """From the first event of a cluster to the last."""

    first: datetime
    last: datetime


class Listings:
    """The lists of all snapshots, and the conclusions from them."""

    def __init__(
        self,
        versions: LogVersions,
        lists: Mapping[tuple[str, ResourceName], Sequence[ObjectList]],
        keys: Keys,
        spans: Mapping[str, Span] | None = None,
    ) -> None:
        """`keys` gives every recorded object of a resource. Without `spans` they follow from the recorded writes."""
        self._versions = versions
        self._lists = lists
        self._keys = keys
        self._spans = dict(spans or {})
        self._nameless: dict[tuple[str, ResourceName], list[Disturbance]] = {}
        for found in versions.disturbances():
            self._nameless.setdefault((found.cluster, ResourceName(found.group, found.resource)), []).append(found)
        self._unrecorded: dict[tuple[str, ResourceName, ObjectList], str] = {}

    def times(self) -> Iterator[tuple[str, datetime]]:
        """The cluster and the moment of each list, and of each deletion that may change the evidence of a later list."""
        yield from ((cluster, found.taken) for (cluster, _), lists in self._lists.items() for found in lists)
        yield from ((cluster, found.version.since) for (cluster, _), several in self._nameless.items() for found in several)

    def first(self, cluster: str, name: ResourceName, namespace: str | None = None) -> ObjectList | None:
        """The earliest list of a resource in a namespace, or in all of them."""
        lists = self._lists.get((cluster, name), ())
        return next((found for found in lists if self._covers(cluster, name, found, namespace)), None)

    def complete(self, cluster: str, name: ResourceName, moment: datetime, namespace: str | None) -> Evidence[ObjectList] | None:
        """The list from which the objects of a resource at a moment follow, with its grade; None if no list covers them.

        `namespace` limits the question to one namespace; None asks about all. Unknown says why a later list is not evidence for
        that moment.
        """
        first = self.first(cluster, name, namespace)
        if first is None:
            return None
        if first.taken <= moment:
            return Known(first, first.source, Grade.INFERRED)
        problem = self._why_not_before(cluster, name, first) or self._lost_namespace(cluster, name, first, moment, namespace)
        lost = self.lost_collection(cluster, name, first, namespace)
        if not problem and lost is not None and moment < lost.since:
            problem = f"deletions before the {first.source} are not recorded: {lost.source}"
        if problem:
            return Unknown(problem)
        if first.taken > self._span(cluster).last:
            return Known(first, f"{first.source}, which was taken after the log ends", Grade.PARTIAL)
        return Known(first, f"{first.source}, and the log of the time before", Grade.INFERRED)

    def unrecorded(self, cluster: str, name: ResourceName, found: ObjectList) -> str:
        """A write of a resource that the log lacks, as a list or the log itself shows; empty without a sign of one."""
        place = (cluster, name, found)
        if place not in self._unrecorded:
            problems = (problem for key in self._keys(cluster, name) if (problem := self._unrecorded_of(key, name, found)))
            self._unrecorded[place] = next(problems, "")
        return self._unrecorded[place]

    def lost_collection(self, cluster: str, name: ResourceName, found: ObjectList, namespace: str | None) -> Version | None:
        """The last deletecollection before a list whose answer named no object: it may have deleted unrecorded ones.

        A namespace created in the log cannot hold such objects, because each of them was created in the log too.
        """
        lost = [version for version in self._nameless_deletions(cluster, name, namespace) if version.began <= found.taken]
        return max(lost, key=lambda version: version.since, default=None)

    def removed_before(self, key: ObjectKey, moment: datetime, created: datetime) -> Version | None:
        """A deletecollection that named no object, and may have removed one with this name between a moment and its creation."""
        name = ResourceName(key.group, key.resource)
        found = self._nameless_deletions(key.cluster, name, key.namespace)
        return next((version for version in found if moment < version.since and version.began < created), None)

    def _nameless_deletions(self, cluster: str, name: ResourceName, namespace: str | None) -> Iterator[Version]:
        for found in self._nameless.get((cluster, name), ()):
            is_asked = namespace is None or namespace == found.namespace
            if is_asked and not (found.namespace and self.began_in_log(cluster, found.namespace)):
                yield found.version

    def began_in_log(self, cluster: str, namespace: str, moment: datetime | None = None) -> bool:
        """Whether the log shows how a namespace was made, before a moment."""
        entries = self._versions.timeline(object_key(cluster, *_NAMESPACES, "", namespace)).entries
        return bool(entries) and entries[0].creates and (moment is None or entries[0].began <= moment)

    def began_whole(self, cluster: str, name: ResourceName, namespace: str, moment: datetime) -> bool:
        """Whether the log shows how a namespace and each recorded object of a resource in it were made, so that it lacks none.

        The log must record writes of the resource at all.
        """
        if not self.began_in_log(cluster, namespace, moment) or not self._versions.has_writes(cluster, name.group, name.resource):
            return False
        entries = [self._versions.timeline(key).entries for key in self._keys(cluster, name) if key.namespace == namespace]
        return all(not each or each[0].creates for each in entries)

    def _why_not_before(self, cluster: str, name: ResourceName, found: ObjectList) -> str:
        if not self._versions.has_writes(cluster, name.group, name.resource):
            return (
                f"the {found.source} lists {name.resource} only later, and no write of them is recorded: "
                "the log does not tell which were deleted before"
            )
        if problem := self.unrecorded(cluster, name, found):
            return f"the {found.source} lists {name.resource} only later, and the log lacks some of their writes: {problem}"
        span = self._span(cluster)
        if found.taken - span.last > max(_GAP_MAX, span.last - span.first):
            return f"the {found.source} was taken long after the log ends, and deletions since then are not recorded"
        return ""

    def _unrecorded_of(self, key: ObjectKey, name: ResourceName, found: ObjectList) -> str:
        if not key.name:
            return ""  # created with a generated name that is not recorded
        timeline = [version for version in self._versions.timeline(key) if version.since <= found.taken or version.audit_id]
        shown = next((version for version in timeline if not version.audit_id and version.since == found.taken), None)
        if key in found.keys and shown is not None:
            return self._unmade(key, shown, timeline) or _unremoved(key, timeline)
        if self._covers(key.cluster, name, found, key.namespace) and self._is_missed(key, timeline, found):
            return f"{describe(key)} is not listed, and its deletion is not recorded"
        return _unremoved(key, timeline)

    def _unmade(self, key: ObjectKey, shown: Version, timeline: Sequence[Version]) -> str:
        """Whether a list shows an object at a version that the log should record and does not."""
        written = [version for version in timeline if version.audit_id]
        if any(version.resource_version_number is None for version in written):
            return ""  # any of these may have made it
        if self._versions.timeline(object_key(*key[:3], key.namespace, "")).entries:
            return ""  # a create whose name is not recorded may have
        span = self._span(key.cluster)
        if any(version.resource_version == shown.resource_version for version in written):
            return ""
        number = shown.resource_version_number or 0
        is_in_log = shown.since <= span.last or number <= self._versions.newest_number(key.cluster)
        if is_in_log and self._versions.was_written_in_log(key, shown):
            return f"{describe(key)} is listed with resourceVersion {shown.resource_version}, which no recorded write made"
        created = shown.created
        if created and span.first < created - _SECOND and created < span.last and not any(version.creates for version in written):
            return f"{describe(key)} was created at {created:%Y-%m-%dT%H:%M:%SZ}, which is not recorded"
        return ""

    def _is_missed(self, key: ObjectKey, timeline: Sequence[Version], found: ObjectList) -> bool:
        """Whether a list should show an object and does not: the log records the object, and does not record its deletion."""
        written = [version for version in timeline if version.audit_id]
        if not written or any(version.form in _MAY_REMOVE for version in written) or _is_marked(written[-1]):
            return False
        before = [version for version in written if version.since + _LISTING_TIME < found.taken]
        return bool(before) and before[-1].form in _STAYS

    def _covers(self, cluster: str, name: ResourceName, found: ObjectList, namespace: str | None) -> bool:
        """Whether a list covers all namespaces, or the given one; a list itself does not say this."""
        only = found.only_namespace
        return only is None or only == namespace or not self._is_of_one_namespace(cluster, name, found, only)

    def _is_of_one_namespace(self, cluster: str, name: ResourceName, found: ObjectList, only: str) -> bool:
        if name in _IN_EVERY_NAMESPACE:
            others = (key for key in self._keys(cluster, _NAMESPACES) if key.name != only)
            if any(self._was_there(key, found.taken) for key in others):
                return True
        others = (key for key in self._keys(cluster, name) if key.namespace != only and key.name)
        return any(self._was_there(key, found.taken) for key in others)

    def _was_there(self, key: ObjectKey, moment: datetime) -> bool:
        """Whether an object is seen before a moment, without a possible deletion until then."""
        timeline = self._versions.timeline(key)
        before = [version for version in timeline if version.since + _LISTING_TIME < moment or not version.audit_id]
        last = before[-1] if before else None
        return last is not None and last.form in _STAYS and (last.created or last.since) <= moment and not _is_marked(last)

    def _lost_namespace(self, cluster: str, name: ResourceName, found: ObjectList, moment: datetime, namespace: str | None) -> str:
        """Why the objects of a namespace that was deleted before a list are not known; empty if they are.

        The namespace controller deletes the collection of each resource in the namespace, also of resources without objects
        (kubernetes pkg/controller/namespace/deletion/namespaced_resources_deleter.go).
        """
        if not namespace:
            return ""
        timeline = self._versions.timeline(object_key(cluster, *_NAMESPACES, "", namespace))
        gone = [version.since for version in timeline if version.form is Form.GONE]
        swept = self._versions.swept(object_key(cluster, *name, namespace, ""))
        for before, end in pairwise([_EVER, *gone]):
            if moment < end <= found.taken and not any(before < since <= end + _SECOND for since in swept):
                return f"namespace {namespace} was deleted before the {found.source}, and its content is not recorded"
        return ""

    def _span(self, cluster: str) -> Span:
        span = self._spans.get(cluster)
        if span is None:
            own = (key for key in self._versions.objects() if key.cluster == cluster)
            written = [version for key in own for version in self._versions.timeline(key) if version.audit_id]
            first, last = (version.began for version in written), (version.since for version in written)
            span = self._spans[cluster] = Span(min(first, default=_NEVER), max(last, default=_NEVER))
        return span


def _unremoved(key: ObjectKey, timeline: Sequence[Version]) -> str:
    """Whether an object is another one than before, although no possible deletion is recorded."""
    before: Version | None = None
    for version in timeline:
        if version.form in _MAY_REMOVE or _is_marked(version):
            before = None
        elif version.uid:
            if before is not None and before.audit_id and before.uid != version.uid:
                return f"{describe(key)} was created again, and its deletion is not recorded"
            before = version
    return ""


def _is_marked(version: Version) -> bool:
    return head_of(version.metadata or version.body).meta.deletion_timestamp is not None
