"""Which policies, bindings and other configuration the server enforced at a moment.

A written policy is not in force at once: once a second, the server rebuilds its policies from its informers' objects
(kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_source.go). Requests within that span may have met either version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..request import Evidence, Known, Object, Unknown
from .snapshots import ResourceName
from .version import ObjectKey, Version
from .world import BINDINGS, POLICIES, LogHistory

# The refresh interval of the server, and half a second for informers and compilation. Seen on a live 1.36 control plane: 0.97 s.
CHANGE_DELAY = timedelta(seconds=1.5)

_ABSENT: Known[Object | None] = Known(None, "not created yet")


@dataclass(frozen=True, slots=True)
class InForce:
    """One policy, binding or other object of configuration as of a moment.

    `object` is the version that had settled; Known(None) if the object did not exist. `others` are versions that may have been in
    force instead, because they were written just then: empty at most moments. Versions equal in content to the settled one are left
    out.
    """

    name: str
    object: Evidence[Object | None]
    others: tuple[Evidence[Object | None], ...] = ()

    @property
    def is_in_flight(self) -> bool:
        """Whether the request may have met another version than `object`."""
        return bool(self.others)


class PolicyTimeline:
    """The policies and bindings of one cluster over time."""

    def __init__(self, history: LogHistory, cluster: str, delay: timedelta = CHANGE_DELAY) -> None:
        self._history = history
        self._cluster = cluster
        self._delay = delay
        keys = [*history.keys(cluster, POLICIES), *history.keys(cluster, BINDINGS)]
        changes = (version for key in keys for version in history.versions.timeline(key))
        self._boundaries = sorted({moment for version in changes for moment in (version.began, version.since + delay)})

    def epoch(self, ts: datetime) -> int:
        """A number that is the same for two moments only if policies_at and bindings_at are too."""
        return bisect_right(self._boundaries, ts)

    def policies_at(self, ts: datetime) -> Sequence[InForce]:
        """The policies that a request received at `ts` may have met, ordered by name."""
        return self._at(POLICIES, ts)

    def bindings_at(self, ts: datetime) -> Sequence[InForce]:
        """The bindings that a request received at `ts` may have met, ordered by name."""
        return self._at(BINDINGS, ts)

    def settling(self, ts: datetime) -> datetime | None:
        """The time from which all policies and bindings are in force that were in flight for a request received at `ts`."""
        keys = [*self._history.keys(self._cluster, POLICIES), *self._history.keys(self._cluster, BINDINGS)]
        changes = [version.since for key in keys for version in _in_flight(self._history, key, ts, self._delay)]
        return max(changes) + self._delay if changes else None

    def _at(self, resource: ResourceName, ts: datetime) -> Sequence[InForce]:
        keys = sorted(self._history.keys(self._cluster, resource))
        found = [in_force(self._history, key, ts, self._delay) for key in keys]
        return [item for item in found if item is not None]


def in_force(history: LogHistory, key: ObjectKey, ts: datetime, delay: timedelta) -> InForce | None:
    """One object of configuration as a request received at `ts` met it, if it existed. Changes take up to `delay`."""
    settled = _settled(history, key, ts - delay)
    others = [history.object_of(version) for version in _in_flight(history, key, ts, delay)]
    kept = tuple(other for other in others if not _say_the_same(settled, other))
    if isinstance(settled, Known) and settled.value is None and not kept:
        return None
    return InForce(key.name, settled, kept)


def _settled(history: LogHistory, key: ObjectKey, moment: datetime) -> Evidence[Object | None]:
    version = history.versions.current(key, moment)
    if version is not None:
        return history.object_of(version)
    found = history.object_at(key, moment)
    # The first event of a policy in the log is often its creation; before that the policy did not exist.
    return _ABSENT if isinstance(found, Known) else found


def _in_flight(history: LogHistory, key: ObjectKey, ts: datetime, delay: timedelta) -> list[Version]:
    return [
        version for version in history.versions.timeline(key) if version.audit_id and version.began <= ts < version.since + delay
    ]


def _say_the_same(left: Evidence[Object | None], right: Evidence[Object | None]) -> bool:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return False
    if left.value is None or right.value is None:
        return left.value is right.value
    return _said(left.value) == _said(right.value)


def _said(value: Object) -> Object:
    """The content of an object, apart from its identity and its status."""
    return {name: part for name, part in value.items() if name not in ("apiVersion", "metadata", "status")}
