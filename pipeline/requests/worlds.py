"""The worlds of many requests: between two changes of the objects that policies look up, all requests meet the same one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..history.in_force import CHANGE_DELAY
from ..history.world import LogHistory
from ..request import Evidence, Known, Object, Unknown
from ..world import World
from .past import EPOCH

T = TypeVar("T")
_MICROSECOND = timedelta(microseconds=1)
# Up to so many changes of a cluster, it takes less time to compare all moments with each than to look each moment up.
_CHANGES_MAX = 64


class Worlds:
    """Worlds of a history, each made once and asked the same question once."""

    def __init__(self, history: LogHistory, delays: Iterable[timedelta] = (CHANGE_DELAY,)) -> None:
        """`delays` are the times after its write in which a role, a policy or a binding may not be in force yet."""
        self._history = history
        moments: dict[str, set[datetime]] = {}
        for key in history.versions.objects():
            for version in history.versions.timeline(key):
                told = [moment for moment in (version.began, version.since, version.created) if moment]
                moments.setdefault(key.cluster, set()).update(told, [moment + delay for moment in told for delay in delays])
        for cluster, listed in history.listings.times():
            moments.setdefault(cluster, set()).update([listed, *(listed + delay for delay in delays)])
        self._changes = {cluster: sorted(map(_microseconds, found)) for cluster, found in moments.items()}
        self._worlds: dict[tuple[str, int], RememberedWorld] = {}

    def at(self, cluster: str, ts: datetime) -> World:
        """See History of pipeline.world."""
        key = (cluster, self._epoch(cluster, _microseconds(ts)))
        world = self._worlds.get(key)
        if world is None:
            world = self._worlds[key] = RememberedWorld(self._history.at(cluster, ts))
        return world

    def epochs_in(self, cluster: str, moments: pa.Array[Any]) -> pa.Array[Any]:
        """For each timestamp with microseconds a number that is the same where the world of the cluster and its roles are."""
        times: Any = moments.cast(pa.int64())
        bounds: Any = pc.min_max(times)
        first, last = (self._epoch(cluster, bounds[end].as_py() or 0) for end in ("min", "max"))
        if last - first > _CHANGES_MAX:
            return pa.array([self._epoch(cluster, ts) for ts in times.to_pylist()], pa.int32())
        found: pa.Array[Any] = pa.repeat(pa.scalar(first, pa.int32()), len(times))
        for change in self._changes.get(cluster, [])[first:last]:
            found = pc.add(found, pc.greater_equal(times, pa.scalar(change, pa.int64())).cast(pa.int32()))
        return found

    def epochs(self, clusters: pa.Array[Any], moments: pa.Array[Any]) -> list[int]:
        """As `epochs_in`, of requests in several clusters, as a list."""
        times: list[Any] = moments.cast(pa.int64()).to_pylist()
        names: list[Any] = clusters.to_pylist()
        return [self._epoch(cluster, ts) for cluster, ts in zip(names, times, strict=True)]

    def _epoch(self, cluster: str, ts: int) -> int:
        return bisect_right(self._changes.get(cluster, ()), ts)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


class RememberedWorld:
    """A World of recorded requests that keeps its answers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._answers: dict[Hashable, Any] = {}

    def namespace(self, name: str) -> Evidence[Object | None]:
        """See World. Requests reach policies only in an existing namespace, so a missing one was missed by the record."""
        return self._once(self._namespace, name)

    def _namespace(self, name: str) -> Evidence[Object | None]:
        found = self._world.namespace(name)
        if isinstance(found, Known) and found.value is None:
            return Unknown(f"namespace {name} is not in the record as of then ({found.source})")
        return found

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        """See World."""
        return self._once(self._world.param, api_version, kind, namespace, name)

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        """See World."""
        return self._once(self._world.params, api_version, kind, namespace)

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        """See World."""
        return self._once(self._world.kind_is_namespaced, api_version, kind)

    def _once(self, ask: Callable[..., T], *arguments: str) -> T:
        key = (ask.__name__, *arguments)
        if key not in self._answers:
            self._answers[key] = ask(*arguments)
        answer: T = self._answers[key]
        return answer
