"""The labels of Pod Security that a namespace had at a moment: given ones, or those of the log and of snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from ...history.world import NAMESPACES, LogHistory
from ...request import Evidence, Known, Unknown
from ...requests.worlds import Worlds
from .given import Given
from .policy import own_labels


class LabelsInForce:
    """The labels of namespaces, as the plugin reads them: without prefix."""

    def __init__(self, given: Given, history: LogHistory) -> None:
        self._given = given
        self._history = history
        self._worlds = Worlds(history)
        self._others = given.everywhere

    @property
    def are_recorded(self) -> bool:
        """Whether some of them come from the log."""
        return self._others is None

    def at(self, cluster: str, namespace: str, ts: datetime) -> Evidence[Mapping[str, str]]:
        """The labels that a request received at `ts` met."""
        labels = self._given.labels.get(namespace, self._others)
        if labels is not None:
            return Known(labels, "given")
        found = self._worlds.at(cluster, ts).namespace(namespace)
        if isinstance(found, Unknown) or found.value is None:
            why = found.reason if isinstance(found, Unknown) else f"namespace {namespace} did not exist"
            return Unknown(f"the labels of namespace {namespace}: {why}")
        return Known(own_labels(found.value["metadata"].get("labels")), found.source, found.grade)

    def every(self) -> Iterator[Mapping[str, str]]:
        """All labels that some request may meet; the same ones may come several times."""
        yield from self._given.labels.values()
        if self._others is not None:
            yield self._others
            return
        for cluster in {key.cluster for key in self._history.versions.objects()}:
            for key in self._history.keys(cluster, NAMESPACES):
                for version in self._history.versions.timeline(key):
                    found = self._history.object_of(version) if version.body is not None else Unknown("")
                    if key.name not in self._given.labels and isinstance(found, Known) and found.value is not None:
                        yield own_labels((found.value.get("metadata") or {}).get("labels"))
