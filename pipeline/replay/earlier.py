"""The earlier states of objects that requests ask for: selected in the lake, put in order in memory.

A join in SQL by time alone would be wrong: writes cross each other, and their order is that of resource versions, which are in
bodies, or has to be called unknown. So SQL finds the writes of the objects that are asked for, and `history/versions.py` orders
the few of each.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from queries import LakeReader

from ..history.event import Event
from ..history.kinds import by_resource
from ..history.snapshots import ResourceName, snapshot_versions
from ..history.versions import LogVersions
from ..history.world import LogHistory
from ..history.writes import record
from ..request import GroupVersionResource
from .past import horizon, rows_of_query, snapshot_rows
from .plan import Part, ReplayPlan, RequestClass
from .sql import statement

# Columns of `planned.sql` that tell which object's earlier state is asked for.
_ASKING = ["asks", "resource", "namespace", "name"]
_OF_PART = ("cluster", "first_resource", "last_resource")


class EarlierVersions:
    """Finds versions of objects in a lake. `reader` is its own: it must not be in the midst of another answer."""

    def __init__(self, plan: ReplayPlan, reader: LakeReader, history: LogHistory) -> None:
        self._reader = reader
        self._classes = plan.classes
        self._history = history
        self._until = horizon(reader, plan.window)

    def of(self, part: Part, requests: pa.Table) -> LogVersions:
        """The versions of the objects of those requests of a part that ask for an earlier state.

        `requests` has columns of `planned.sql`.
        """
        versions = LogVersions()
        self._reader.connection.register("general", requests.select(_ASKING))
        self._reader.connection.execute(statement("asked"))
        self._reader.connection.unregister("general")
        if not self._reader.connection.execute("FROM asked LIMIT 1").fetchall():
            return versions
        parameters = {name: part.parameters[name] for name in _OF_PART}
        for row in rows_of_query(self._reader, "past_writes", {**parameters, "until": self._until}):
            record(Event.from_row(row), versions)
        self._add_snapshots(part, versions)
        return versions

    def _add_snapshots(self, part: Part, versions: LogVersions) -> None:
        resources = {
            kind: ResourceName(item.api_group, item.resource)
            for item in self._classes
            if part.first[0] <= item.resource <= part.last[0] and (kind := self._kind(item)) is not None
        }
        # A part within one resource is within a range of namespaces; across several it is not.
        bounds = (part.first[1], part.last[1]) if part.first[0] == part.last[0] else (None, None)
        # A Namespace lies in no namespace, though its requests name one.
        first, last = (None, None) if part.first[0] == "namespaces" else bounds
        rows = snapshot_rows(
            self._reader, resources, cluster=part.cluster, first_namespace=first, last_namespace=last, until=self._until
        )
        for key, version in snapshot_versions(rows, lambda group, kind: resources.get((group, kind))):
            versions.add(key, version)

    def _kind(self, item: RequestClass) -> tuple[str, str] | None:
        """The (group, kind) under which snapshots list a resource."""
        built_in = by_resource(item.api_group, item.resource)
        if built_in is not None:
            return built_in.group, built_in.kind
        resource = GroupVersionResource(item.api_group, item.api_version, item.resource)
        custom = self._history.custom_kind(item.cluster, resource, datetime.max.replace(tzinfo=UTC))
        return (custom.group, custom.kind) if custom else None
