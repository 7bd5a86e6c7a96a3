"""The worlds of many requests: between two changes of what policies look up, all requests meet the same one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ..history.world import LogHistory
from ..request import Evidence, Object
from ..world import World

T = TypeVar("T")


class Worlds:
    """Worlds of a history, each made once and asked the same question once."""

    def __init__(self, history: LogHistory) -> None:
        self._history = history
        moments: dict[str, set[datetime]] = {}
        for key in history.versions.objects():
            moments.setdefault(key.cluster, set()).update(version.since for version in history.versions.timeline(key))
        self._changes = {cluster: sorted(found) for cluster, found in moments.items()}
        self._worlds: dict[tuple[str, int], RememberedWorld] = {}

    def at(self, cluster: str, ts: datetime) -> World:
        """See History of pipeline.world."""
        key = (cluster, bisect_right(self._changes.get(cluster, ()), ts))
        world = self._worlds.get(key)
        if world is None:
            world = self._worlds[key] = RememberedWorld(self._history.at(cluster, ts))
        return world


class RememberedWorld:
    """A World that keeps its answers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._answers: dict[Hashable, Any] = {}

    def namespace(self, name: str) -> Evidence[Object | None]:
        """See World."""
        return self._once(self._world.namespace, name)

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
