"""The cluster's past that a replay needs in addition to the requests: namespaces, params, definitions, and policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from ingest.published.target import is_url
from queries import LakeReader

from ..history.kinds import by_kind, by_resource
from ..history.listings import Span
from ..history.snapshots import ResourceName
from ..history.world import NEEDED, LogHistory
from ..runs.window import Window, horizon
from .kept.facts import state_of
from .sql import statement

# How many rows of the lake are held at a time.
BATCH_ROWS = 1024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A process that replays, compares and reports asks for the same history several times; those of other files make room.
_LOADED_MAX = 2
_loaded: dict[object, LogHistory] = {}
_lock = Lock()


class NamedKind(Protocol):
    """A kind of objects that rules look up, such as the kind of a policy's params."""

    @property
    def api_version(self) -> str:
        """Its group and version, as in a manifest."""
        ...

    @property
    def kind(self) -> str:
        """Its name, as in a manifest."""
        ...


def load_history(reader: LakeReader, param_kinds: Iterable[NamedKind], window: Window) -> LogHistory:
    """The history of all objects that policies with these params look up, for a window of time.

    It is held in memory: namespaces, params and RBAC, but not the objects of the requests. Callers share it, and do not change it.
    `reader` must see all events of its files: not a session that `between` narrowed.
    """
    kinds = frozenset(param_kinds)
    state = _state_of(reader)
    if state is None:
        return _load(reader, kinds, window)
    key = (state, kinds, window.until)
    with _lock:
        found = _loaded.pop(key, None)
    if found is None:
        found = _load(reader, kinds, window)
    with _lock:
        _loaded[key] = found
        for oldest in list(_loaded)[:-_LOADED_MAX]:
            del _loaded[oldest]
    return found


def _state_of(reader: LakeReader) -> object:
    """What a history depends on: the files of a lake, which never change under one name; None for files on object storage."""
    paths = (*reader.files.events, *reader.files.objects)
    if not paths or any(map(is_url, paths)):
        return None
    return reader.files.cluster, tuple((path, state_of(path)) for path in paths)


def _load(reader: LakeReader, param_kinds: Iterable[NamedKind], window: Window) -> LogHistory:
    until = horizon(reader, window)
    kinds = {(kind.api_version.rpartition("/")[0], kind.kind) for kind in param_kinds}
    built_in = [row for group, kind in kinds if (row := by_kind(group, kind))]
    resources = {ResourceName(row.group, row.resource) for row in built_in} | set(NEEDED)
    kinds |= {(row.group, row.kind) for name in NEEDED if (row := by_resource(*name))}
    events = {
        "resources": sorted(f"{name.group}/{name.resource}" for name in resources),
        # The definition of a custom kind gives its resource. It is only known after loading, so the whole group is loaded.
        "groups": sorted({group for group, kind in kinds if by_kind(group, kind) is None}),
        "until": until,
    }
    history = LogHistory.from_rows(
        rows_of_query(reader, "history_events", events), snapshot_rows(reader, kinds, until=until), _spans(reader, until)
    )
    if events["groups"]:  # built-in kinds are always known
        history.unconfigured = _unconfigured(reader)
    return history


def _unconfigured(reader: LakeReader) -> dict[tuple[str, str], list[tuple[datetime, str]]]:
    """When a server said that it does not know the kind of a policy's params: by cluster and policy, in the order of time."""
    found: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
    for cluster, policy, ts, message in reader.connection.execute(statement("unconfigured")).fetchall():
        found.setdefault((cluster, policy), []).append((ts, message))
    return found


def _spans(reader: LakeReader, until: datetime | None) -> dict[str, Span]:
    """The times of the first and the last event of each cluster."""
    return {row["cluster"]: Span(row["first_ts"], row["last_ts"]) for row in rows_of_query(reader, "spans", {"until": until})}


def snapshot_rows(
    reader: LakeReader,
    kinds: Iterable[tuple[str, str]],
    *,
    cluster: str | None = None,
    names: Iterable[str] | None = None,
    until: datetime | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of `objects` of some (group, kind), and with these names (None: all, and lists that were empty)."""
    parameters = {
        "kinds": sorted(f"{group}/{kind}" for group, kind in kinds),
        "cluster": cluster,
        "names": None if names is None else sorted(names),
        "until": until,
    }
    return rows_of_query(reader, "history_objects", parameters)


def rows_of_query(reader: LakeReader, name: str, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of one of this room's statements, batch by batch, as dictionaries."""
    relation: duckdb.DuckDBPyRelation = reader.sql(statement(name), parameters)
    for batch in relation.to_arrow_reader(BATCH_ROWS):
        yield from rows_of(batch)


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> list[Any]:
    """The values of a column. It converts times itself, because Arrow looks up the time zone for each value."""
    if not (pa.types.is_timestamp(column.type) and column.type.unit == "us" and column.type.tz):
        return column.to_pylist()
    return [None if since is None else EPOCH + timedelta(0, 0, since) for since in column.cast(pa.int64()).to_pylist()]
