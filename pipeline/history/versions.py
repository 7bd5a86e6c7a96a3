"""The versions of every object in the log and the snapshots, and the version that a request met.

One object's versions are ordered by resourceVersion, which is one counter for the whole store. Writes whose answer lacks the
resourceVersion (a binding, an eviction) are ordered by time. A write without a recorded body still has an entry: it says that the
object changed, so that an older body does not count as the current one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Protocol

import msgspec

from ..request import Grade, worst
from .event import head_of
from .version import Disturbance, Form, ObjectKey, Version, WriteId


class Versions(Protocol):
    """The queries of reconstruction for versions. None means that the object is not recorded at that point."""

    def before_write(self, key: ObjectKey, write: WriteId) -> Version | None:
        """The version that a recorded, successful write replaced."""
        ...

    def at(self, key: ObjectKey, resource_version: str, *, but: WriteId | None = None) -> Version | None:
        """The version with this resourceVersion; `but` excludes the record of one event."""
        ...

    def current(self, key: ObjectKey, moment: datetime) -> Version | None:
        """The last version whose write had been answered at a moment."""
        ...

    def absent_before(self, key: ObjectKey, moment: datetime) -> bool:
        """Whether the first record of an object is its creation after a moment."""
        ...

    def changed_between(
        self, key: ObjectKey, after: datetime, until: datetime, *, but: WriteId | None = None, numbered: bool = True
    ) -> bool:
        """Whether a write of the object was answered after the one moment and received before the other.

        `but` leaves out one event; `numbered=False` leaves out the writes that a resourceVersion orders.
        """
        ...


class LogVersions:
    """Versions held in memory, by object. Bodies are kept as they came; only their reader decodes them."""

    def __init__(self, versions: Iterable[tuple[ObjectKey, Version]] = ()) -> None:
        self._entries: dict[ObjectKey, list[Version]] = {}
        self._timelines: dict[ObjectKey, Timeline] = {}
        self._disturbances: dict[tuple[str, str, str, str], list[Version]] = {}
        self._swept: dict[tuple[str, str, str, str], list[datetime]] = {}
        self._clocks: dict[str, WriteClock] = {}
        for key, version in versions:
            self.add(key, version)

    def add(self, key: ObjectKey, version: Version) -> None:
        """Add one version, in any order."""
        self._entries.setdefault(key, []).append(version)
        self._timelines.pop(key, None)
        self._clocks.pop(key.cluster, None)

    def sweep(self, place: ObjectKey, since: datetime) -> None:
        """Add that a deletecollection in a namespace was answered, even if it had no objects. The name in `place` is ignored."""
        self._swept.setdefault(place[:4], []).append(since)

    def swept(self, place: ObjectKey) -> Sequence[datetime]:
        """When collections of this resource and namespace were deleted."""
        return self._swept.get(place[:4], ())

    def has_writes(self, cluster: str, group: str, resource: str) -> bool:
        """Whether any write of a resource is recorded."""
        if any(place[:3] == (cluster, group, resource) for place in (*self._swept, *self._disturbances)):
            return True
        own = (key for key in self._entries if key[:3] == (cluster, group, resource))
        return any(version.audit_id for key in own for version in self._entries[key])

    def disturb(self, disturbance: Disturbance) -> None:
        """Add a request that may have changed any object in its reach."""
        self._disturbances.setdefault(disturbance[:4], []).append(disturbance.version)
        self._timelines.clear()

    def disturbances(self) -> Iterator[Disturbance]:
        """All requests that may have changed any object in their reach."""
        return (Disturbance(*place, version) for place, found in self._disturbances.items() for version in found)

    def objects(self) -> Iterable[ObjectKey]:
        """Every object with an entry, in the order of first mention."""
        return self._entries.keys()

    def timeline(self, key: ObjectKey) -> Timeline:
        """All entries of an object."""
        timeline = self._timelines.get(key)
        if timeline is None:
            entries = [*self._entries.get(key, ()), *self._disturbances.get(key[:4], ())]
            timeline = self._timelines[key] = Timeline(entries)
        return timeline

    def before_write(self, key: ObjectKey, write: WriteId) -> Version | None:
        """See Versions."""
        version = self.timeline(key).by_write_id.get(write)
        return version.previous if version else None

    def at(self, key: ObjectKey, resource_version: str, *, but: WriteId | None = None) -> Version | None:
        """See Versions. Of several records of one version, a whole body is the best."""
        same = self.timeline(key).by_resource_version.get(resource_version, ())
        found = [version for version in same if version.write_id != but]
        whole = [version for version in found if version.form is Form.WHOLE]
        return next(iter(whole or found), None)

    def current(self, key: ObjectKey, moment: datetime) -> Version | None:
        """See Versions. A later snapshot also shows the state of earlier moments, as far as no write came in between."""
        version = self.timeline(key).current(moment)
        return None if version is not None and self.written_unseen(key, version, moment) else version

    def written_unseen(self, key: ObjectKey, version: Version, moment: datetime) -> bool:
        """Whether a later snapshot shows a change that an unrecorded write made after a moment.

        resourceVersions are one counter for the whole store: a higher one than that of a write that began later was written later.
        """
        number = version.resource_version_number
        if version.audit_id or version.since <= moment or number is None or key.resource == "events":
            return False
        made = self.timeline(key).by_resource_version[version.resource_version]
        return not any(other.audit_id for other in made) and self._clock(key.cluster).had_not_reached(number, moment)

    def was_written_in_log(self, key: ObjectKey, version: Version) -> bool:
        """Whether the write that made a version began after another write of the log, so that the log should record it."""
        number = version.resource_version_number
        return number is not None and self._clock(key.cluster).had_not_reached(number, None)

    def newest_number(self, cluster: str) -> int:
        """The highest resourceVersion that a recorded write made."""
        return self._clock(cluster).newest

    def _clock(self, cluster: str) -> WriteClock:
        clock = self._clocks.get(cluster)
        if clock is None:
            own = (versions for key, versions in self._entries.items() if key.cluster == cluster and key.resource != "events")
            clock = self._clocks[cluster] = WriteClock(version for versions in own for version in versions)
        return clock

    def absent_before(self, key: ObjectKey, moment: datetime) -> bool:
        """See Versions."""
        first = next(iter(self.timeline(key)), None)
        if first is None or first.since <= moment:
            return False
        return first.creates or (first.created is not None and first.created > moment)

    def changed_between(
        self, key: ObjectKey, after: datetime, until: datetime, *, but: WriteId | None = None, numbered: bool = True
    ) -> bool:
        """See Versions."""
        for version in self.timeline(key).since_after(after):
            crosses = version.began < until and version.audit_id and version.write_id != but
            if crosses and version.since > after and (numbered or version.resource_version_number is None):
                return True
        return False


class WriteClock:
    """The progress of a cluster's resourceVersion counter, from its recorded writes."""

    def __init__(self, versions: Iterable[Version]) -> None:
        told = sorted(
            (version.began, number)
            for version in versions
            if version.audit_id and (number := version.resource_version_number) is not None
        )
        self._began = [began for began, _ in told]
        self._lowest_to_come = list(accumulate((number for _, number in reversed(told)), min))[::-1]
        self.newest = max((number for _, number in told), default=0)

    def had_not_reached(self, number: int, moment: datetime | None) -> bool:
        """Whether a write that began at a moment or later (None: any write) made a lower resourceVersion than this one."""
        place = 0 if moment is None else bisect_left(self._began, moment)
        return place < len(self._began) and self._lowest_to_come[place] < number


class Timeline:
    """The entries of one object, oldest first, each with a link to the one before."""

    def __init__(self, entries: list[Version]) -> None:
        self.entries = _linked(_ordered(entries))
        self.by_write_id: dict[WriteId, Version] = {}
        self.by_resource_version: dict[str, list[Version]] = {}
        for version in self.entries:
            self.by_write_id.setdefault(version.write_id, version)
            self.by_resource_version.setdefault(version.resource_version, []).append(version)
        self._found: dict[WriteId, Version] = {}
        # The entries are not quite in order of time. These values are, so that bisection can look up a moment.
        self._latest_so_far = list(accumulate((version.since for version in self.entries), max))
        self._earliest_to_come = list(accumulate((version.since for version in reversed(self.entries)), min))[::-1]

    def __iter__(self) -> Iterator[Version]:
        return iter(self.entries)

    def current(self, moment: datetime) -> Version | None:
        """The last entry that was answered at a moment.

        Before the first entry, and after an entry without a body, a snapshot or deletion that comes next shows the object, if it
        existed already.
        """
        count = bisect_right(self._earliest_to_come, moment)
        last = self.entries[count - 1] if count else None
        following = self.entries[count] if count < len(self.entries) else None
        if (last is None or last.form is Form.OPAQUE) and following and following.created and following.created <= moment:
            shown = following if following.found is None else self._as_found(following)
            # Without a body, only the uid shows whether it is the same object.
            if last is None or not last.uid or not shown.uid or last.uid == shown.uid:
                return shown
        return last

    def _as_found(self, deletion: Version) -> Version:
        """The object as a deletion found it."""
        version = self._found.get(deletion.write_id)
        if version is None:
            source = f"what {deletion.source.removeprefix('response to ')} deleted"
            version = msgspec.structs.replace(
                deletion,
                form=Form.FOUND,
                body=deletion.found,
                found=None,
                source=source,
                audit_id="",
                resource_version="",
                previous=None,
            )
            self._found[deletion.write_id] = version
        return version

    def since_after(self, moment: datetime) -> list[Version]:
        """The tail of the entries, which holds every entry answered after a moment."""
        return self.entries[bisect_right(self._latest_so_far, moment) :]


def _ordered(entries: list[Version]) -> list[Version]:
    """By time, and by resourceVersion where both have one: responses of concurrent writes may be recorded in any order."""
    by_time = sorted(entries, key=_moment)
    numbered = [version for version in by_time if version.resource_version_number is not None]
    in_order = iter(sorted(numbered, key=lambda version: _order(version, numbered)))
    return [version if version.resource_version_number is None else next(in_order) for version in by_time]


def _moment(version: Version) -> tuple[datetime, datetime, bool, str]:
    """A sort key. Recorded writes come first within a moment, in an order that does not depend on the order of reading."""
    return (version.since, version.began, not version.audit_id, version.audit_id)


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
    for index, version in enumerate(entries):
        previous = linked[-1] if linked else None
        if version.form is Form.DISTURBED and (
            previous is None or previous.form is Form.GONE or _lives_on(previous, entries[index + 1 :])
        ):
            continue  # the object did not exist, or was not disturbed
        settled = _settled(entries, index, linked) if version.doubt else version
        if settled is not None:
            linked.append(_after(settled, previous))
    return linked


def _settled(entries: list[Version], index: int, linked: list[Version]) -> Version | None:
    """An entry that may not have been stored: None where it was not, or was before; opaque where that is not known.

    A dry run answers with the resourceVersion that its object has, and deletes nothing. `linked` are the entries before it.
    """
    version, later = entries[index], entries[index + 1 : index + 2]
    if version.form is Form.GONE:
        later = entries[index + 1 :]
        if any(other.uid and other.uid == version.uid for other in later) or _lives_on(linked[-1] if linked else version, later):
            return None
        is_stored = any(other.creates for other in later)
    else:
        number = version.resource_version_number
        before = next((other.resource_version_number for other in reversed(linked) if other.resource_version), None)
        is_stored = number is not None and before is not None and before < number
        if number is not None and number == before:
            return None
        # A later write that changes nothing, or a read, shows the same version.
        if number is not None and number in (other.resource_version_number for other in later):
            is_stored = is_stored and linked[-1].resource_version_number == before
            if not is_stored:
                return None
    if is_stored:
        return msgspec.structs.replace(version, doubt="", grade=worst(version.grade, Grade.PARTIAL))
    return msgspec.structs.replace(version, form=Form.OPAQUE, body=None, metadata=None, sent=None, source=version.doubt)


def _after(version: Version, previous: Version | None) -> Version:
    """The version with a link to the one before it.

    A disturbance is in the timelines of many objects, so it is copied. Every other version is of one object, and is linked in
    place: copying it would take longer than all other work on it.
    """
    if version.form is Form.DISTURBED:
        return msgspec.structs.replace(version, previous=previous)
    msgspec.structs.force_setattr(version, "previous", previous)
    return version


def _lives_on(version: Version, later: Iterable[Version]) -> bool:
    """Whether the same object is seen later without a mark of deletion: a deletion is never undone."""
    for other in later:
        if other.form is Form.GONE:
            return False
        if other.form in (Form.WHOLE, Form.METADATA, Form.CREATED) and other.uid:
            shown = head_of(other.metadata or other.body).meta
            return other.uid == version.uid and shown.deletion_timestamp is None
    return False
