"""Recorded requests, each met once with the earlier versions of its object: the walk of all stages that judge by records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from queries import LakeReader

from ..cel.stack import on_fresh_stack
from ..history.event import Event
from ..history.fitness import UNFIT, unfit_body
from ..history.outcome import Admission
from ..history.reconstruct import NotReplayed, attempted_requests
from ..history.versions import LogVersions
from ..history.world import LogHistory
from ..request import AdmissionRequest
from ..runs.window import Window
from .classes import Requests
from .earlier import EarlierVersions, PlannedRequests, asked_of, asked_table
from .past import BATCH_ROWS, rows_of
from .sql import statement
from .waiting import groups_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Met:
    """A recorded request. `row` has the columns of its event and `number`; `unfit` says why a body of it is not an object."""

    row: Mapping[str, Any]
    event: Event
    versions: LogVersions
    history: LogHistory
    unfit: str = ""

    def requests(self) -> Sequence[AdmissionRequest] | NotReplayed:
        """Its passes through admission, or why they are not known."""
        if self.unfit:
            return NotReplayed(self.unfit, Admission.UNKNOWN)
        return attempted_requests(self.event, self.versions, self.history)


def met(
    requests: Requests,
    reader: LakeReader,
    history: LogHistory,
    judge: Callable[[Met], T],
    unread: T,
    *,
    share: Window | None = None,
    is_chosen: bool = False,
    earlier: Callable[[PlannedRequests, LakeReader, LogHistory], EarlierVersions] = EarlierVersions,
) -> Iterator[tuple[Met, T]]:
    """Each request of a share with what a judge says of it, in the order of arrival; `unread` of one that is nested too deep.

    Where a judge fails at a body that is not an object, it is asked again, with the reason in `unfit`. With `is_chosen`, the
    requests are those that `choose` and `plain` left.
    """
    if not is_chosen:
        choose(requests, reader, share)
    with reader.session() as past:
        versions_of = earlier(requests, past, history)
        for held in groups_of(reader.sql(statement("met")).to_arrow_reader(BATCH_ROWS)):
            versions = _versions_for(held, past, versions_of)
            for row in (row for batch in held for row in rows_of(batch)):
                found = Met(row, Event.from_row(row), versions, history)
                yield found, on_fresh_stack(partial(_judged, judge, found), unread)


def choose(requests: Requests, reader: LakeReader, share: Window | None = None) -> None:
    """Leave the requests of a share in a table `met` of the reader's connection."""
    chosen = f"SELECT cluster, audit_id, ts, stage_ts, number FROM ({requests.relation(reader, 'met_classes')})"
    reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE met AS {chosen}", (share or requests.window).parameters)


def _versions_for(held: Sequence[pa.RecordBatch], past: LakeReader, earlier: EarlierVersions) -> LogVersions:
    past.connection.register("asked", asked_table(row for batch in held for row in asked_of(batch)))
    try:
        writes = past.sql(statement("past_writes"), {"until": earlier.until}).to_arrow_reader(BATCH_ROWS)
        return earlier.of(held, writes)
    finally:
        past.connection.unregister("asked")


def _judged(judge: Callable[[Met], T], found: Met) -> T:
    try:
        return judge(found)
    except UNFIT:
        if not (problem := unfit_body(found.event)):
            raise
    return judge(Met(found.row, found.event, found.versions, found.history, problem))
