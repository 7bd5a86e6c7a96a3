"""The webhook configurations that the log shows in force at the time of each request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Protocol

from ingest.errors import InputError

from ...admission.policies.model import ParamKind
from ...history.in_force import InForce, in_force
from ...history.snapshots import ResourceName
from ...history.world import LogHistory
from ...request import Evidence, Object, Unknown
from .decode import configuration_from_object
from .model import GROUP, Chain, Configuration, Phase

# Configurations are read when an informer hears of them, not in an interval (pkg/admission/configuration). Seen on a live 1.36
# control plane: 0.1 s.
CONFIGURATION_DELAY = timedelta(milliseconds=500)
# How many combinations of versions are tried for a request that came while configurations changed.
_VARIANTS_MAX = 16
KINDS = tuple(ParamKind(f"{GROUP}/v1", phase.kind) for phase in Phase)
_RESOURCES = tuple(ResourceName(GROUP, f"{phase}webhookconfigurations") for phase in Phase)


class Chains(Protocol):
    """The webhooks that requests meet."""

    @property
    def every(self) -> Sequence[Chain]:
        """All chains that some request may meet."""
        ...

    def at(self, cluster: str, ts: datetime) -> Sequence[Chain] | Unknown:
        """The chain at a moment; several where one was changed just then; Unknown where the log lacks a configuration."""
        ...


class GivenChain:
    """The same webhooks for every request."""

    def __init__(self, chain: Chain) -> None:
        self.every: Sequence[Chain] = (chain,)

    def at(self, cluster: str, ts: datetime) -> Sequence[Chain]:
        """See Chains."""
        return self.every


class RecordedChains:
    """The webhooks of each moment, from the log and snapshots. `history` must hold KINDS."""

    def __init__(self, history: LogHistory, version: tuple[int, int], delay: timedelta = CONFIGURATION_DELAY) -> None:
        self._history = history
        self._version = version
        self._delay = delay
        self._chains: dict[tuple[int, ...], Chain] = {}
        self._read: dict[int, tuple[Object, Configuration]] = {}
        self._boundaries: dict[str, list[datetime]] = {}
        self._epochs: dict[tuple[str, int], Sequence[Chain] | Unknown] = {}

    @property
    def every(self) -> Sequence[Chain]:
        """See Chains: one chain per version of each configuration."""
        found = []
        for key in sorted(self._history.versions.objects()):
            if ResourceName(key.group, key.resource) in _RESOURCES:
                versions = self._history.versions.timeline(key)
                read = (self._configuration(self._history.object_of(each)) for each in versions)
                found += [self._chain((each,)) for each in read if isinstance(each, Configuration)]
        return tuple(dict.fromkeys(found))

    def at(self, cluster: str, ts: datetime) -> Sequence[Chain] | Unknown:
        """See Chains."""
        epoch = (cluster, bisect_right(self._changes(cluster), ts))
        found = self._epochs.get(epoch)
        if found is None:
            found = self._epochs[epoch] = self._in_force(cluster, ts)
        return found

    def _changes(self, cluster: str) -> list[datetime]:
        """The moments between which the same versions may be in force."""
        if cluster not in self._boundaries:
            keys = [key for resource in _RESOURCES for key in self._history.keys(cluster, resource)]
            versions = [version for key in keys for version in self._history.versions.timeline(key)]
            moments = {moment for each in versions for moment in (each.began, each.since, each.since + self._delay)}
            listed = (moment for name, moment in self._history.listings.times() if name == cluster)
            self._boundaries[cluster] = sorted(moments.union(listed))
        return self._boundaries[cluster]

    def _in_force(self, cluster: str, ts: datetime) -> Sequence[Chain] | Unknown:
        choices: list[list[Configuration | None]] = []
        for resource in _RESOURCES:
            for key in sorted(self._history.keys(cluster, resource)):
                found = in_force(self._history, key, ts, self._delay)
                if found is None:
                    continue
                versions = self._versions(found)
                if isinstance(versions, Unknown):
                    return versions
                choices.append(versions)
        return tuple(self._chain(each for each in chosen if each) for chosen in islice(product(*choices), _VARIANTS_MAX))

    def _versions(self, found: InForce) -> list[Configuration | None] | Unknown:
        read = [self._configuration(each) for each in (found.object, *found.others)]
        missing = next((each for each in read if isinstance(each, Unknown)), None)
        return missing or [None if isinstance(each, Unknown) else each for each in read]

    def _configuration(self, evidence: Evidence[Object | None]) -> Configuration | Unknown | None:
        if isinstance(evidence, Unknown):
            return evidence
        value = evidence.value
        if value is None:
            return None
        if id(value) not in self._read:
            try:
                self._read[id(value)] = (value, configuration_from_object(value, evidence.source))
            except InputError as error:
                return Unknown(f"a recorded webhook configuration cannot be read: {error.message}")
        return self._read[id(value)][1]

    def _chain(self, configurations: Iterable[Configuration]) -> Chain:
        chosen = tuple(configurations)
        key = tuple(map(id, chosen))
        if key not in self._chains:
            self._chains[key] = Chain(chosen, self._version)
        return self._chains[key]
