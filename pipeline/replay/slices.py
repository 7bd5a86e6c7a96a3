"""How a run is cut up: every event of the lake is read once, slice by slice; what needs history is judged later, bucket by bucket.

A slice is a range of rows as they lie in the lake's files, and a partition is a set of objects. A request that needs an earlier
state of its object is put aside in the object's partition, and so are the recorded writes of that object. Neighboring partitions
make a bucket, which holds all that one process keeps in memory. So no file is read once per part of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ingest.maintain import read_footer

from .past import EPOCH
from .plan import ReplayPlan, Window

# More would be many small writes for each slice.
_PARTITIONS_MAX = 256
# A bucket holds fewer requests than a slice has events: each brings the versions of its object along.
_EVENTS_PER_BUCKETED = 10


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole files of events, or a range of the rows of one: `rows` are the first and the one after the last."""

    index: int
    files: tuple[str, ...]
    rows: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A range of partitions: from `first` up to `end`, which is not in it."""

    first: int
    end: int


class _File(NamedTuple):
    path: str
    rows: int


def partitions_of(plan: ReplayPlan) -> int:
    """Into how many partitions the requests of a plan are divided."""
    return 1 + min(_PARTITIONS_MAX - 1, plan.requests // bucket_requests(plan))


def bucket_requests(plan: ReplayPlan) -> int:
    """How many requests a bucket has, as long as one partition has no more."""
    return max(1, plan.part_events // _EVENTS_PER_BUCKETED)


def slices_of(files: Iterable[str], window: Window, events_max: int) -> tuple[Slice, ...]:
    """Cut files of events into slices of at most so many rows; small files share one.

    Files without events of the window are left out. Raises DamagedFileError for a file whose footer cannot be read.
    """
    return tuple(Slice(index, *each) for index, each in enumerate(_ranges(_within(files, window), events_max)))


def _within(files: Iterable[str], window: Window) -> Iterator[_File]:
    for path in files:
        footer = read_footer(Path(path))
        if footer.num_rows and _may_hold(footer, window):
            yield _File(path, footer.num_rows)


def _may_hold(footer: pq.FileMetaData, window: Window) -> bool:
    """Whether some event may lie in the window, as the statistics of the file tell."""
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
        if file.rows <= events_max:
            pending.append(file)
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
