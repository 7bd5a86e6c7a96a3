"""The rules that requests meet: the given ones, or those that the log shows in force at the time of each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Generic, Protocol, TypeVar

from ingest.errors import InputError

from ..history.in_force import InForce, in_force
from ..history.snapshots import ResourceName
from ..history.world import LogHistory
from ..request import Evidence, Object, Unknown

# How many combinations of versions are tried for a request that came while rules changed.
_VARIANTS_MAX = 16
ChainT = TypeVar("ChainT")
Chain_co = TypeVar("Chain_co", covariant=True)
RuleT = TypeVar("RuleT")


class Chains(Protocol[Chain_co]):
    """The rules of one stage that requests meet. A chain holds all rules that one request meets."""

    @property
    def every(self) -> Sequence[Chain_co]:
        """All chains that some request may meet."""
        ...

    def at(self, cluster: str, ts: datetime) -> Sequence[Chain_co] | Unknown:
        """The chain at a moment; several where a rule was changed just then; Unknown where the log lacks a rule."""
        ...


class GivenChain(Generic[ChainT]):
    """The same chain for every request."""

    def __init__(self, chain: ChainT) -> None:
        self.every: Sequence[ChainT] = (chain,)

    def at(self, cluster: str, ts: datetime) -> Sequence[ChainT]:
        """See Chains."""
        return self.every


class RecordedChains(ABC, Generic[RuleT, ChainT]):
    """The chain of each moment, from the log and snapshots. `history` must hold the objects of `resources`.

    A change may take up to `delay` until the server enforces it.
    """

    def __init__(self, history: LogHistory, resources: Sequence[ResourceName], delay: timedelta) -> None:
        self._history = history
        self._resources = resources
        self._delay = delay
        self._chains: dict[tuple[int, ...], ChainT] = {}
        self._read: dict[int, tuple[Object, RuleT]] = {}
        self._boundaries: dict[str, list[datetime]] = {}
        self._epochs: dict[tuple[str, int], Sequence[ChainT] | Unknown] = {}

    @property
    @abstractmethod
    def every(self) -> Sequence[ChainT]:
        """See Chains."""

    @abstractmethod
    def rule_of(self, value: Object, source: str) -> RuleT:
        """The rule that an object holds. Raises InputError."""

    @abstractmethod
    def chain_of(self, rules: tuple[RuleT, ...]) -> ChainT:
        """The chain of the rules that are in force together."""

    def at(self, cluster: str, ts: datetime) -> Sequence[ChainT] | Unknown:
        """See Chains."""
        epoch = (cluster, bisect_right(self._changes(cluster), ts))
        found = self._epochs.get(epoch)
        if found is None:
            found = self._epochs[epoch] = self._in_force(cluster, ts)
        return found

    def recorded_rules(self) -> Iterator[RuleT]:
        """The rule of every recorded version that can be read, by object and time."""
        for key in sorted(self._history.versions.objects()):
            if ResourceName(key.group, key.resource) in self._resources:
                for version in self._history.versions.timeline(key):
                    rule = self._rule(self._history.object_of(version))
                    if rule is not None and not isinstance(rule, Unknown):
                        yield rule

    def made(self, rules: tuple[RuleT, ...]) -> ChainT:
        """The chain of some rules; the same rules have the same chain, so that what it remembers is found again."""
        key = tuple(map(id, rules))
        if key not in self._chains:
            self._chains[key] = self.chain_of(rules)
        return self._chains[key]

    def _changes(self, cluster: str) -> list[datetime]:
        """The moments between which the same versions may be in force."""
        if cluster not in self._boundaries:
            keys = [key for resource in self._resources for key in self._history.keys(cluster, resource)]
            versions = [version for key in keys for version in self._history.versions.timeline(key)]
            moments = {moment for each in versions for moment in (each.began, each.since, each.since + self._delay)}
            listed = (moment for name, moment in self._history.listings.times() if name == cluster)
            self._boundaries[cluster] = sorted(moments.union(listed))
        return self._boundaries[cluster]

    def _in_force(self, cluster: str, ts: datetime) -> Sequence[ChainT] | Unknown:
        choices: list[list[RuleT | None]] = []
        for resource in self._resources:
            for key in sorted(self._history.keys(cluster, resource)):
                found = in_force(self._history, key, ts, self._delay)
                if found is None:
                    continue
                versions = self._versions(found)
                if isinstance(versions, Unknown):
                    return versions
                choices.append(versions)
        chosen = islice(product(*choices), _VARIANTS_MAX)
        return tuple(self.made(tuple(each for each in rules if each is not None)) for rules in chosen)

    def _versions(self, found: InForce) -> list[RuleT | None] | Unknown:
        read: list[RuleT | None] = []
        for evidence in (found.object, *found.others):
            rule = self._rule(evidence)
            if isinstance(rule, Unknown):
                return rule
            read.append(rule)
        return read

    def _rule(self, evidence: Evidence[Object | None]) -> RuleT | Unknown | None:
        """None for an object that did not exist."""
        if isinstance(evidence, Unknown):
            return evidence
        value = evidence.value
        if value is None:
            return None
        if id(value) not in self._read:
            try:
                self._read[id(value)] = (value, self.rule_of(value, evidence.source))
            except InputError as error:
                return Unknown(f"a recorded {value.get('kind')} cannot be read: {error.message}")
        return self._read[id(value)][1]
