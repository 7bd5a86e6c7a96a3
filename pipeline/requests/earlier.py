"""The earlier states of objects that requests need: selected in the lake, ordered in memory.

A join in SQL by time alone would be wrong: writes cross each other, and only resource versions, which are in bodies, order them.
Without those the order is unknown. So SQL finds the writes of the needed objects, and `history/versions.py` orders the few writes
of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from queries import LakeReader

from ..history.event import Event, head_of
from ..history.kinds import by_resource
from ..history.snapshots import ResourceName, snapshot_versions
from ..history.versions import LogVersions
from ..history.world import LogHistory
from ..history.writes import list_items, record, versions_of
from ..request import GroupVersionResource
from ..runs.window import Window, horizon
from .classes import RequestClass
from .past import rows_of, snapshot_rows
from .shelf import PARTITION

# An object whose earlier state a request needs, with its namespace (empty for a cluster-scoped object).
_FIELDS: list[pa.Field[Any]] = [pa.field(name, pa.string()) for name in ("cluster", "resource", "place", "name")]
ASKED = pa.schema([*_FIELDS, pa.field(PARTITION, pa.int32())])
# In place of a name: the deletecollections that such an object may have met. No name holds a slash.
_SWEPT = "/"


def _record_listed(event: Event, asked: Collection[tuple[Any, ...]], versions: LogVersions) -> None:
    """Enter the versions of asked objects that a list shows."""
    resource = event.resource
    for key, version in versions_of(event):
        if (event.cluster, resource.resource, key.namespace, key.name) in asked:
            versions.add(key, version)


def asked_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The objects whose earlier state some requests need, as rows of ASKED. `batch` has the columns of `planned.sql`."""
    names = ("asks", "cluster", "api_group", "resource", "namespace", "name", PARTITION, "verb")
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
    for index, (asks, cluster, group, resource, namespace, name, partition, verb) in enumerate(zip(*columns, strict=True)):
        if asks:
            yield cluster, resource, _place(group, resource, namespace), name, partition
        elif verb == "deletecollection":
            # The server deletes the listed objects one by one, and they may change until their turn comes.
            for item in list_items(batch.column("response_object")[index].as_py())[1]:
                meta = head_of(item).meta
                yield cluster, resource, meta.namespace, meta.name, partition


def _place(group: str | None, resource: str, namespace: str | None) -> str:
    """See the macro `object_place`."""
    return "" if (group or "", resource) == ("", "namespaces") else namespace or ""


def asked_table(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Such rows as a table with the columns ASKED, each once."""
    found = sorted(set(rows), key=repr)
    return pa.Table.from_arrays([pa.array([row[at] for row in found], field.type) for at, field in enumerate(ASKED)], schema=ASKED)


class PlannedRequests(Protocol):
    """Which requests will be judged, as far as the history of their objects depends on it."""

    @property
    def classes(self) -> Sequence[RequestClass]: ...
    @property
    def window(self) -> Window: ...


class EarlierVersions:
    """Finds versions of objects in a lake. It needs a reader of its own, without another query in progress."""

    def __init__(self, plan: PlannedRequests, reader: LakeReader, history: LogHistory) -> None:
        self._reader = reader
        self._classes = plan.classes
        self._history = history
        self.until = horizon(reader, plan.window)

    def of(self, waiting: Sequence[pa.RecordBatch], writes: Iterable[pa.RecordBatch]) -> LogVersions:
        """The versions of the objects of requests that need an earlier state.

        `waiting` have the columns of `planned.sql`. `writes` have those of `past_writes.sql`, of these objects and others.
        Snapshots give all objects of these requests.
        """
        versions = LogVersions()
        asked = {row[:-1] for batch in waiting for row in asked_of(batch)}
        if not asked:
            return versions
        asked |= {(*key[:3], _SWEPT) for key in asked}
        found = set()
        for batch in writes:
            for row in rows_of(batch):
                is_list = row["verb"] == "list"
                place = _place(row["api_group"], row["resource"], row["namespace"])
                if not is_list and (row["cluster"], row["resource"], place, row["asked_name"]) not in asked:
                    continue
                # A write is shelved in every partition that asks for it, but counts once.
                event = (row["cluster"], row["audit_id"], row["stage_ts"])
                if event not in found:
                    found.add(event)
                    if is_list:
                        _record_listed(Event.from_row(row), asked, versions)
                    else:
                        record(Event.from_row(row), versions)
        names = {name for batch in waiting for name in pc.unique(batch.column("name")).to_pylist() if name}
        for cluster in sorted({key[0] for key in asked}):
            self._add_snapshots(cluster, names, versions)
        return versions

    def _add_snapshots(self, cluster: str, names: set[str], versions: LogVersions) -> None:
        resources = {
            kind: ResourceName(item.api_group, item.resource)
            for item in self._classes
            if item.cluster == cluster and (kind := self._kind(item)) is not None
        }
        rows = snapshot_rows(self._reader, resources, cluster=cluster, names=names, until=self.until)
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
