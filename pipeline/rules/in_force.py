"""The rules that the log and snapshots show in force at each moment, whatever stage they belong to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Generic, TypeVar

from ingest.errors import InputError

from ..history.in_force import in_force
from ..history.snapshots import ResourceName
from ..history.version import ObjectKey
from ..history.world import LogHistory
from ..request import Evidence, Object, Unknown

# How many combinations of versions are tried for a request that came while rules changed.
_VARIANTS_MAX = 16
T = TypeVar("T")
RuleT = TypeVar("RuleT")


def combinations(choices: Sequence[Sequence[T]]) -> Iterator[tuple[T, ...]]:
    """One of each choice, in every combination that is tried."""
    return islice(product(*choices), _VARIANTS_MAX)


class RecordedRules(ABC, Generic[RuleT]):
    """The recorded versions of the objects of some resources, each read once. `history` must hold these objects.

    A change may take up to `delay` until the server enforces it.
    """

    def __init__(self, history: LogHistory, resources: Sequence[ResourceName], delay: timedelta) -> None:
        self._history = history
        self._resources = resources
        self._delay = delay
        self._read: dict[int, tuple[Object, RuleT | Unknown]] = {}
        self._unreadable: dict[tuple[str, str], None] = {}
        self._boundaries: dict[str, list[datetime]] = {}

    @abstractmethod
    def rule_of(self, value: Object, source: str) -> RuleT:
        """The rule that an object holds. Raises InputError."""

    @property
    def unreadable(self) -> tuple[tuple[str, str], ...]:
        """The names of the objects that could not be read so far, each with the reason."""
        return tuple(self._unreadable)

    def recorded_rules(self) -> Iterator[RuleT]:
        """The rule of every recorded version that can be read, by object and time."""
        for key in sorted(self._history.versions.objects()):
            if ResourceName(key.group, key.resource) in self._resources:
                for version in self._history.versions.timeline(key):
                    rule = self.read(self._history.object_of(version))
                    if rule is not None and not isinstance(rule, Unknown):
                        yield rule

    def epoch(self, cluster: str, ts: datetime) -> int:
        """A number that is the same for two moments only if the same versions may be in force."""
        if cluster not in self._boundaries:
            keys = [key for resource in self._resources for key in self._history.keys(cluster, resource)]
            versions = [version for key in keys for version in self._history.versions.timeline(key)]
            moments = {moment for each in versions for moment in (each.began, each.since, each.since + self._delay)}
            listed = (moment for name, moment in self._history.listings.times() if name == cluster)
            self._boundaries[cluster] = sorted(moments.union(listed))
        return bisect_right(self._boundaries[cluster], ts)

    def in_force(self, cluster: str, ts: datetime) -> Iterator[tuple[ObjectKey, Sequence[RuleT | Unknown | None]]]:
        """Each object that a request may have met, with the rules of its versions; by resource and name."""
        for resource in self._resources:
            for key in sorted(self._history.keys(cluster, resource)):
                if (found := in_force(self._history, key, ts, self._delay)) is not None:
                    yield key, [self.read(each) for each in (found.object, *found.others)]

    def read(self, evidence: Evidence[Object | None]) -> RuleT | Unknown | None:
        """The rule of a recorded object; None for one that did not exist, Unknown for one that cannot be read."""
        if isinstance(evidence, Unknown):
            return evidence
        value = evidence.value
        if value is None:
            return None
        if id(value) not in self._read:
            self._read[id(value)] = (value, self._rule(value, evidence.source))
        return self._read[id(value)][1]

    def _rule(self, value: Object, source: str) -> RuleT | Unknown:
        try:
            return self.rule_of(value, source)
        except InputError as error:
            # The source differs from version to version, and is not part of the reason.
            reason = error.message.removeprefix(f"{source}: ")
            name, kind = value.get("metadata", {}).get("name"), value.get("kind")
            self._unreadable[str(name), f"the recorded {kind} cannot be read: {reason}"] = None
            return Unknown(f"a recorded {kind} cannot be read: {error.message}")
