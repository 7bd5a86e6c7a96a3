"""The work on one part of a replay: rows of the lake become admission requests, and those become verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from queries import LakeReader
from queries.catalog import show_events

from ..authorization import RecordedRbac
from ..cel.stack import on_fresh_stack
from ..history.event import TOO_DEEP, BodyKind, Event, body_kind, head_of
from ..history.fitness import UNFIT, shows_objects, unfit_body
from ..history.outcome import Admission
from ..history.reconstruct import Attempt, NotReplayed, admission_requests, told_by_record
from ..history.versions import LogVersions
from ..request import AdmissionRequest
from ..runs.parts import Settled
from ..runs.verdict import Verdict
from ..runs.verdicts import IDENTITY, JUDGED, Judged, VerdictBuilder
from .collector import Collector
from .earlier import EarlierVersions, asked_of, asked_table
from .judge import AttemptJudge, RecordJudge
from .keeping import Keeper
from .kept.admissions import Outcome, outcome_of_row
from .kept.inputs import Piece, read_inputs
from .kept.records import NONE, Groups, Keeping, read_groups, untouched
from .kept.touched import objects_of
from .lanes import Lane, LaneName
from .past import BATCH_ROWS, rows_of
from .plan import RecordsPlan
from .planned import register_classes
from .remembered import Remembered
from .shelf import ShelfWriter
from .slices import Slice, partitions_of
from .sql import statement
from .waiting import groups_of
from .worlds import Worlds

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)
# The verdicts of each pass of a request.
JudgedPasses: TypeAlias = list[tuple[int, Sequence[Verdict]]] | NotReplayed

# Bodies are read as deep as the stack allows: a body that a sink could read may be too deep here.
_UNREAD: Any = NotReplayed(TOO_DEEP, Admission.UNKNOWN)
_IDENTITY_SCHEMA = pa.schema([JUDGED.field(name).with_nullable(True) for name in IDENTITY])


@dataclass
class Walk:
    """The state of the requests of one part, which are numbered as they are read."""

    builder: Collector
    not_evaluated: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    waiting: int = 0  # of them: those that wait for the history of their objects
    read: list[pa.RecordBatch] = field(default_factory=list)  # the identity columns of every request

    def add(self, batch: pa.RecordBatch) -> int:
        """One more batch; returns the number of its first request."""
        first = self.rows
        self.read.append(batch.select(IDENTITY))
        self.rows += batch.num_rows
        return first

    def count_reasons(self, reasons: pa.Array[Any]) -> None:
        """Count the reasons why requests are not evaluated; null where they are."""
        found: Any = pc.value_counts(reasons.drop_null())
        self.not_evaluated.update({each["values"].as_py(): each["counts"].as_py() for each in found})

    def settled(self, builder: VerdictBuilder) -> Settled:
        """The outcomes of the requests, with the tables of the builder."""
        requests = pa.Table.from_batches(self.read, _IDENTITY_SCHEMA)
        tables = Judged(builder.judged(requests), builder.sets(), builder.verdicts())
        return Settled(tables, self.rows - self.waiting, self.not_evaluated)


class Replayer:
    """The data of one worker while it walks a run: the lake, the policies and the history of the cluster."""

    def __init__(
        self,
        plan: RecordsPlan,
        reader: LakeReader,
        around: Callable[[Any], RecordJudge[Any]] = lambda judge: judge,
    ) -> None:
        """`around` may wrap the plan's judge, to compute more than verdicts, such as costs."""
        self._window = plan.window
        self._wanted = pa.array(plan.wanted, pa.string()) if plan.wanted else None
        self._partitions = partitions_of(plan)
        self._reader = reader
        self._history, judge = plan.judge(reader)
        self._judge = around(judge)
        self._worlds = Worlds(self._history, plan.delays)
        self._rbac = RecordedRbac(self._history, dict(plan.other_authorizers))
        self._sessions = ExitStack()
        # It sees the events of one slice; the other readers see those of all.
        self._narrow = self._sessions.enter_context(reader.session())
        self._classes, self._keeping = plan.classes, Keeping()
        self.names = register_classes(self._narrow, plan.classes, self._keeping)
        self._judges = plan.judges
        chosen = [self._judge.lane(name) for name in self.names]
        self._remembered = Remembered(chosen, self._judge, self._worlds, self._rbac, self._judges)
        self._earlier = EarlierVersions(plan, self._sessions.enter_context(reader.session()), self._history)

    @property
    def lanes(self) -> Sequence[Lane | None]:
        """The lane of each class, by its number."""
        return self._remembered.lanes

    @property
    def laneless(self) -> frozenset[LaneName]:
        """The classes without a lane: each of their requests needs history."""
        return frozenset(name for name, lane in zip(self.names, self._remembered.lanes, strict=True) if lane is None)

    def use(self, keeping: Keeping, touched: pa.Array[Any] = NONE, files: Sequence[str] = ()) -> Keeper:
        """Leave out the requests that are kept, but for those of touched objects. Returns the collector of those that a part keeps.

        `files` are the files of events of the part.
        """
        if keeping != self._keeping:
            register_classes(self._narrow, self._classes, keeping, touched)
            self._keeping = keeping
        columns = {number: lane.columns for number, lane in enumerate(self.lanes) if lane is not None}
        return Keeper(keeping, self.names, columns, files)

    def walk_slice(self, part: Slice, builder: Collector, waiting: ShelfWriter, keeper: Keeper) -> tuple[Walk, pa.Table]:
        """Give the builder the verdicts on the requests of a slice, and shelve the requests that need more than their own record.

        Also returns the objects whose earlier state these need. Bodies are read batch by batch.
        """
        walk = Walk(builder)
        asked: set[tuple[Any, ...]] = set()
        self._show(part)
        parameters = {**self._window.parameters, "partitions": self._partitions}
        for batch in self._narrow.sql(statement("planned"), parameters).to_arrow_reader(BATCH_ROWS):
            left = self._remembered.take(batch, walk.builder, walk.add(batch), keeper.inputs)
            refused = self._refusals(batch, left)
            walk.not_evaluated.update(found.reason for found in refused.values())
            wanted = keeper.wanted(batch)
            keeper.add(batch, {row: (found, "") for row, found in refused.items() if wanted[row]})
            left = [row for row in left if row not in refused]
            if left:
                put_aside = _asking(batch.take(pa.array(left, pa.int64())))
                waiting.add(put_aside)
                asked.update(asked_of(put_aside))
                walk.waiting += len(left)
        return walk, asked_table(asked)

    def past_writes(self, part: Slice, asked: pa.Table) -> Iterator[pa.RecordBatch]:
        """The writes in a slice of the objects in `asked`, which has the columns ASKED; with the partitions of these."""
        self._show(part)
        self._narrow.connection.register("asked", asked)
        try:
            yield from self._narrow.sql(statement("past_writes"), {"until": self._earlier.until}).to_arrow_reader(BATCH_ROWS)
        finally:
            self._narrow.connection.unregister("asked")

    def walk_waiting(
        self,
        waiting: Iterable[pa.RecordBatch],
        writes: Callable[[], Iterable[pa.RecordBatch]],
        builder: Collector,
        keeper: Keeper,
    ) -> Walk:
        """Give the builder the verdicts on requests that wait for the history of their objects.

        It calls `writes` once for every WAITING_BYTES_MAX of requests.
        """
        walk = Walk(builder)
        for held in groups_of(waiting):
            self._judge_waiting(held, writes(), walk, keeper)
        return walk

    def walk_kept(self, kept: Groups, touched: pa.Array[Any], builder: Collector) -> Walk:
        """Give the builder the verdicts on kept requests for objects that were not touched since. Raises LakeError if their file is
        gone."""
        walk = Walk(builder)
        for each in read_groups(kept):
            batch = self._chosen(untouched(each, touched))
            first = walk.add(batch)
            places = self._evaluated(batch, walk)
            numbers: list[Any] = places.to_pylist()
            for index, row in zip(numbers, rows_of(batch.take(places)), strict=True):
                event, outcome = outcome_of_row(row)
                self._settle(walk, first + index, event, outcome, row["unfit"])
        return walk

    def walk_inputs(self, number: int, pieces: Sequence[Piece], builder: Collector) -> Walk | None:
        """Give the builder the verdicts on the kept inputs of a lane; None if the events of its requests must be read."""
        try:
            inputs = read_inputs(pieces, self._remembered.columns_of(number))
        except (OSError, pa.ArrowException):
            return None
        inputs = self._chosen(inputs).combine_chunks()
        if inputs.num_rows and not self._remembered.take_kept(number, inputs, builder):
            return None
        walk = Walk(builder)
        for batch in inputs.select(IDENTITY).to_batches():
            walk.add(batch)
        return walk

    def _chosen(self, rows: _Rows) -> _Rows:
        """Kept rows of the window, of the requests whose verdicts are wanted."""
        since = self._window.since
        if since is not None:
            rows = rows.filter(pc.greater_equal(rows.column("ts"), pa.scalar(since, rows.schema.field("ts").type)))
        return rows if self._wanted is None else rows.filter(pc.is_in(rows.column("audit_id"), value_set=self._wanted))

    def count_objects(self) -> None:
        """Count the objects of each file of events, if that was not done yet; the counts are kept with the lake."""
        objects_of(self._reader)

    def close(self) -> None:
        """Give back the lake; no part can be evaluated afterwards."""
        self.close_sessions()
        self._reader.close()

    def close_sessions(self) -> None:
        """As `close`, for a reader that somebody else still uses."""
        self._sessions.close()

    def _show(self, part: Slice) -> None:
        show_events(self._narrow.connection, part.files, part.rows)

    def _evaluated(self, kept: pa.RecordBatch, walk: Walk) -> pa.Array[Any]:
        """The places of the kept requests that are evaluated; of the others it counts the reasons."""
        reasons = kept.column("reason")
        walk.count_reasons(reasons)
        return pc.indices_nonzero(pc.is_null(reasons))

    def _refusals(self, batch: pa.RecordBatch, rows: Sequence[int]) -> dict[int, NotReplayed]:
        """Why some rows of a batch are not evaluated, where the record of the request alone says so."""
        return _refusals(batch, rows)

    def _judge_waiting(
        self, waiting: Sequence[pa.RecordBatch], writes: Iterable[pa.RecordBatch], walk: Walk, keeper: Keeper
    ) -> None:
        versions = self._earlier.of(waiting, writes)
        for batch in waiting:
            first, wanted = walk.add(batch), keeper.wanted(batch)
            outcomes: dict[int, tuple[Outcome, str]] = {}
            for index, row in enumerate(rows_of(batch)):
                event = Event.from_row(row)
                reconstruct: Callable[[], Outcome] = partial(self._reconstruct, event, versions)
                outcome = on_fresh_stack(reconstruct, _UNREAD)
                self._settle(walk, first + index, event, outcome)
                if wanted[index]:
                    outcomes[index] = _to_keep(event, outcome)
            keeper.add(batch, outcomes)

    def _reconstruct(self, event: Event, versions: LogVersions) -> Outcome:
        """The admission requests of an event. A body that is not an object of Kubernetes does not affect other requests."""
        try:
            if shows_objects(event):
                return admission_requests(event, versions, self._history)
        except UNFIT:
            if not unfit_body(event):
                raise
        return NotReplayed(unfit_body(event), Admission.UNKNOWN)

    def _settle(self, walk: Walk, row: int, event: Event, outcome: Outcome, unfit: str | None = None) -> None:
        """Add the verdicts on a request, or the reason why there are none. `unfit` is that of its bodies; None: it is looked up."""
        found: JudgedPasses
        assert not isinstance(outcome, Attempt)
        if isinstance(outcome, NotReplayed):
            found = outcome
        elif not self._judges:
            return
        else:
            judge: Callable[[], JudgedPasses] = partial(self._judged, event, outcome, unfit)
            found = on_fresh_stack(judge, _UNREAD)
        if isinstance(found, NotReplayed):
            walk.not_evaluated[found.reason] += 1
            return
        for pass_index, verdicts in found:
            walk.builder.add(row, verdicts, pass_index)

    def _judged(self, event: Event, requests: Sequence[AdmissionRequest], unfit: str | None) -> JudgedPasses:
        """The verdicts on each pass of a request. The errors of a body that is not an object do not count as a policy's."""
        try:
            found = self._passes(event, requests)
            problem = (unfit_body(event) if unfit is None else unfit) if self._has_failures(found) else ""
        except UNFIT:
            if not (problem := unfit_body(event) if unfit is None else unfit):
                raise
        return NotReplayed(problem, Admission.UNKNOWN) if problem else found

    def _passes(self, event: Event, requests: Sequence[AdmissionRequest]) -> list[tuple[int, Sequence[Verdict]]]:
        passes: list[tuple[int, Sequence[Verdict]]] = []
        for request in requests:
            authorize = partial(self._rbac.authorize, request.cluster, request.ts)
            world = self._worlds.at(request.cluster, request.ts)
            passes.append((request.pass_index, self._judge.answer(request, world, authorize, event)))
        return passes

    def _has_failures(self, found: Sequence[tuple[int, Sequence[Verdict]]]) -> bool:
        return any(self._judge.has_failed(verdicts) for _, verdicts in found)


class AttemptReplayer(Replayer):
    """A worker of a stage that comes before validating admission: see AttemptJudge. Each request is settled by a verdict."""

    _judge: AttemptJudge[Any]

    def _evaluated(self, kept: pa.RecordBatch, walk: Walk) -> pa.Array[Any]:
        return pa.array(range(kept.num_rows), pa.int64())

    def _refusals(self, batch: pa.RecordBatch, rows: Sequence[int]) -> dict[int, NotReplayed]:
        return {}

    def _reconstruct(self, event: Event, versions: LogVersions) -> Outcome:
        try:
            return self._judge.attempt(event, versions)
        except UNFIT:
            if not (problem := unfit_body(event)):
                raise
        return _unfit(problem)

    def _settle(self, walk: Walk, row: int, event: Event, outcome: Outcome, unfit: str | None = None) -> None:
        if not self._judges:
            return
        verdicts: Sequence[Verdict] | None = None
        if isinstance(outcome, Attempt):
            answer: Callable[[], Sequence[Verdict] | None] = partial(self._answered, event, outcome, unfit)
            verdicts = on_fresh_stack(answer, None)
        walk.builder.add(row, self._judge.unread(event) if verdicts is None else verdicts)

    def _answered(self, event: Event, attempt: Attempt, unfit: str | None) -> Sequence[Verdict]:
        try:
            return self._judge.answer_attempt(attempt, event)
        except UNFIT:
            if not (problem := unfit_body(event) if unfit is None else unfit):
                raise
        return self._judge.answer_attempt(_unfit(problem), event)


def _unfit(problem: str) -> Attempt:
    return Attempt(NotReplayed(problem, Admission.UNKNOWN), None)


def _asking(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Requests that are put aside; those whose answer turned out to show no object ask for the state before."""
    columns = [batch.column(name).to_pylist() for name in ("asks", "is_plain", "verb")]
    asks = [
        asks or (bool(is_plain) and verb in ("update", "patch") and not _shows_object(batch, row))
        for row, (asks, is_plain, verb) in enumerate(zip(*columns, strict=True))
    ]
    return batch.set_column(batch.schema.get_field_index("asks"), "asks", pa.array(asks, pa.bool_()))


def _shows_object(batch: pa.RecordBatch, row: int) -> bool:
    answer = batch.column("response_object")[row].as_py()
    return body_kind(head_of(answer), answer) is BodyKind.OBJECT


def _refusals(batch: pa.RecordBatch, rows: Sequence[int]) -> dict[int, NotReplayed]:
    """Why policies were not asked about some rows of a batch, where the record of the request alone says so."""
    codes, verbs = (batch.column(name).to_pylist() for name in ("code", "verb"))
    refused = [row for row in rows if (codes[row] or 0) >= 400 and verbs[row] != "deletecollection"]
    found = {}
    for row, values in zip(refused, rows_of(batch.take(pa.array(refused, pa.int64()))), strict=True):
        event = Event.from_row(values)
        outcome = told_by_record(event) if shows_objects(event) else None
        if outcome is not None:
            found[row] = outcome
    return found


def _to_keep(event: Event, outcome: Outcome) -> tuple[Outcome, str]:
    """An outcome with the reason why a body is not an object of Kubernetes. A body that nests too deep is not kept."""
    if isinstance(outcome, NotReplayed):
        return outcome, ""
    unfit: str | None = on_fresh_stack(partial(unfit_body, event), None)
    return (_UNREAD, "") if unfit is None else (outcome, unfit)
