"""The division of a run: it reads every event once, slice by slice; requests that need history are judged later, by bucket.

A slice is a range of rows as they lie in the lake's files, and a partition is a set of objects. A request that needs an earlier
state of its object is shelved in the object's partition, and so are the recorded writes of that object. Neighboring partitions
make a bucket, which is as large as one process can keep in memory. So a run does not read each file once per part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ingest.maintain import read_footer

from ..runs.window import Window
from .past import EPOCH
from .plan import RecordsPlan

# More partitions would make many small writes for each slice.
_PARTITIONS_MAX = 256
# Files with at most this part of a slice's events share one. The inputs of a file are kept if it has slices of its own.
_SHARED = 10
# A bucket holds fewer requests than a slice has events, because each request needs the versions of its object too.
_EVENTS_PER_BUCKETED = 10


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole files of events, or a range of the rows of one: `rows` are the first and the one after the last."""

    index: int
    files: tuple[str, ...]
    rows: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A range of partitions: from `first` up to, but not including, `end`."""

    first: int
    end: int


class _File(NamedTuple):
    path: str
    rows: int


def partitions_of(plan: RecordsPlan) -> int:
    """The number of partitions for the requests of a plan."""
    return 1 + min(_PARTITIONS_MAX - 1, plan.requests // bucket_requests(plan))


def bucket_requests(plan: RecordsPlan) -> int:
    """The most requests of a bucket, unless a single partition has more."""
    return max(1, plan.part_events // _EVENTS_PER_BUCKETED)


def slices_of(files: Iterable[str], window: Window, events_max: int) -> tuple[Slice, ...]:
    """Cut files of events into slices of at most so many rows; small files share one.

    Files without events of the window are left out. Raises DamagedFileError for a file whose footer cannot be read.
    """
    return tuple(Slice(index, *each) for index, each in enumerate(_ranges(_within(files, window), events_max)))


def _within(files: Iterable[str], window: Window) -> Iterator[_File]:
    for path in files:
        footer = read_footer(path)
        if footer.num_rows and _may_hold(footer, window):
            yield _File(path, footer.num_rows)


def _may_hold(footer: pq.FileMetaData, window: Window) -> bool:
    """Whether some event may lie in the window, by the statistics of the file."""
    if window.since is None and window.until is None:
        return True
    column = footer.schema.to_arrow_schema().get_field_index("ts")
    return any(_overlaps(footer.row_group(group).column(column).statistics, window) for group in range(footer.num_row_groups))


def _overlaps(statistics: Any, window: Window) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    low, high = _moment(statistics.min), _moment(statistics.max)
    return (window.since is None or high >= window.since) and (window.until is None or low < window.until)


def _moment(value: Any) -> datetime:
    """A timestamp of the statistics: of a column that holds microseconds in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=EPOCH.tzinfo)
    return EPOCH + timedelta(microseconds=int(value))


def _ranges(files: Iterable[_File], events_max: int) -> Iterator[tuple[tuple[str, ...], tuple[int, int] | None]]:
    pending: list[_File] = []
    for file in files:
        if pending and sum(each.rows for each in pending) + file.rows > events_max:
            yield tuple(each.path for each in pending), None
            pending = []
        if file.rows <= events_max // _SHARED:
            pending.append(file)
            continue
        if file.rows <= events_max:
            yield (file.path,), None
            continue
        for first in range(0, file.rows, events_max):
            yield (file.path,), (first, min(first + events_max, file.rows))
    if pending:
        yield tuple(each.path for each in pending), None


def buckets_of(requests: Sequence[int], requests_max: int) -> Iterator[Bucket]:
    """Buckets of at most so many requests, given how many there are in each partition; a partition is never divided."""
    first = held = 0
    for partition, found in enumerate(requests):
        if held and held + found > requests_max:
            yield Bucket(first, partition)
            first, held = partition, 0
        held += found
    if held:
        yield Bucket(first, len(requests))
