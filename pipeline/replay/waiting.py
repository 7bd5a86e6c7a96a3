"""Recorded requests with the history of their objects, in groups that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from queries import LakeReader

from ..history.event import Event
from ..history.versions import LogVersions
from .earlier import EarlierVersions, asked_of, asked_table
from .past import BATCH_ROWS, rows_of
from .sql import statement

# Requests that wait for the history of their objects are held up to this many bytes.
WAITING_BYTES_MAX = 256 * 1024 * 1024


class Recorded(NamedTuple):
    """One row of a query, as an event, with the earlier versions of its object and those of its group."""

    row: dict[str, Any]
    event: Event
    versions: LogVersions


def groups_of(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches in groups that end once they take more than WAITING_BYTES_MAX."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > WAITING_BYTES_MAX:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


def with_history(
    reader: LakeReader, selected: duckdb.DuckDBPyRelation, earlier_of: Callable[[LakeReader], EarlierVersions]
) -> Iterator[Recorded]:
    """The selected requests, in their order. `selected` has the columns of `planned.sql`.

    `earlier_of` makes the finder of earlier versions over a session of its own.
    """
    with reader.session() as past:
        earlier = earlier_of(past)
        for held in groups_of(selected.to_arrow_reader(BATCH_ROWS)):
            versions = _versions_for(held, past, earlier)
            for batch in held:
                for row in rows_of(batch):
                    yield Recorded(row, Event.from_row(row), versions)


def _versions_for(held: Sequence[pa.RecordBatch], past: LakeReader, earlier: EarlierVersions) -> LogVersions:
    past.connection.register("asked", asked_table(row for batch in held for row in asked_of(batch)))
    try:
        writes = past.sql(statement("past_writes"), {"until": earlier.until}).to_arrow_reader(BATCH_ROWS)
        return earlier.of(held, writes)
    finally:
        past.connection.unregister("asked")
