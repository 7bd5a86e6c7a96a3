"""Walks the recorded requests on kinds of given definitions, in the order of arrival, and judges each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from queries import LakeReader

from ....history.event import Event
from ....history.world import LogHistory
from ....request import Unknown
from ....requests.classes import RequestClass, Requests
from ....requests.earlier import EarlierVersions, PlannedRequests
from ....requests.met import Met, met
from ....requests.past import load_history
from ....requests.worlds import Worlds
from ....runs.verdict import Flip
from ....runs.window import Window
from ..definition import Definition
from ..formats import Version
from ..sql import statement
from .carried import Carrier
from .cascade import Cascade, Follows
from .definitions import DefinitionsOfTheTime
from .judging import judge
from .outcome import Decision, Outcome
from .served import Served

_UNREAD: Outcome | None = Outcome(Decision.UNKNOWN, "the request could not be read", flip=Flip.UNKNOWN)


class Judged(NamedTuple):
    """One request with its verdict. `follows` names earlier verdicts that would have changed what it met."""

    event: Event
    served: Served
    outcome: Outcome
    follows: Follows


class Walk:
    """The requests of one window on the kinds of definitions. It leaves tables in the connection of its reader."""

    def __init__(
        self, reader: LakeReader, window: Window, given: Mapping[str, Served], before: Mapping[str, Served], version: Version
    ) -> None:
        self._reader = reader
        self.window = window
        self._given = given
        self._history: LogHistory = load_history(reader, (), window)
        self._of_the_time = DefinitionsOfTheTime(dict(before), Worlds(self._history), version)
        self._before = before
        self._carrier = Carrier(self._history.has_mutating_policies, self._definition_at)
        versions = [f"{name}/{each.name}" for name, served in given.items() for each in served.definition.versions if each.served]
        parameters = {**window.parameters, "places": sorted(given), "served": sorted(versions)}
        reader.connection.execute(statement("asked"), parameters)
        self._requests = Requests.of(reader, "FROM schema_asked", window)

    @property
    def requests(self) -> int:
        """How many requests are on these kinds."""
        return self._requests.count

    def requests_of(self, name: str) -> int:
        """How many requests are on the kind called PLURAL.GROUP."""
        return sum(item.requests for item in self._requests.classes if f"{item.resource}.{item.api_group}" == name)

    def judged(self, share: tuple[int, int] = (0, 1)) -> Iterator[Judged]:
        """Every request of a share, one of so many, with its verdict; requests that did not come to their resource have none.

        A share holds whole namespaces, and so every request on each of its objects.
        """
        cascade = Cascade()
        definitions = {name: each.definition for name, each in (*self._given.items(), *self._before.items())}
        earlier = partial(_Earlier, definitions=definitions)
        number, of = share
        place = "hash(cluster, api_group, resource, coalesce(namespace, ''))"
        own = replace(self._requests, found=f"FROM schema_asked WHERE {place} % {of} = {number}")
        for found, outcome in met(own, self._reader, self._history, self._outcome, _UNREAD, earlier=earlier):
            if outcome is not None:
                yield Judged(found.event, self._served(found.event), outcome, cascade.add(found.event, outcome))

    def _served(self, event: Event) -> Served:
        return self._given[f"{event.resource.resource}.{event.resource.group}"]

    def _outcome(self, recorded: Met) -> Outcome | None:
        if recorded.unfit:
            return Outcome(Decision.UNKNOWN, recorded.unfit, flip=Flip.UNKNOWN)
        event = recorded.event
        return judge(event, self._served(event), self._definition_at(event), recorded.versions, self._carrier)

    def _definition_at(self, event: Event) -> Served | Unknown:
        return self._of_the_time.at(f"{event.resource.resource}.{event.resource.group}", event.cluster, event.ts)


class _Earlier(EarlierVersions):
    """Earlier states of custom resources, whose kinds the given definitions tell even where the log does not."""

    def __init__(
        self, requests: PlannedRequests, reader: LakeReader, history: LogHistory, definitions: Mapping[str, Definition]
    ) -> None:
        super().__init__(requests, reader, history)
        self._definitions = definitions

    def _kind(self, item: RequestClass) -> tuple[str, str] | None:
        found = self._definitions.get(f"{item.resource}.{item.api_group}")
        return (found.group, found.kind) if found is not None else super()._kind(item)
