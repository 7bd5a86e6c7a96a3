"""The tasks of a run's processes: each makes one part, in a folder of its own.

First the requests of every slice are judged, as far as their own records allow. Then the writes of objects whose history is needed
are found, slice by slice. Last, the requests that wait for this history are judged, bucket by bucket.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from queries import LakeReader

from ..runs.parts import Counts, counts_of, making, parts_of, write_settled
from ..runs.verdicts import VerdictBuilder
from ..runs.window import Window
from .collector import Collector
from .earlier import ASKED
from .keeping import TakenOver
from .kept.inputs import Piece
from .kept.records import NONE, Covered, Groups, Keeping
from .kept.touched import one_chunk
from .plan import RecordsPlan
from .shelf import ShelfWriter, copy_shelf, entries, read_shelf
from .slices import Bucket, Slice, bucket_requests, buckets_of, partitions_of, slices_of
from .worker import Replayer, Walk

# Names of parts, before their numbers.
_SLICE, _PAST, _BUCKET, _KEPT, _KEPT_INPUTS = "slice-", "past-", "bucket-", "kept-", "inputs-"
_LEFT = "left"
_WAITING, _WRITES, _ASKED = "waiting", "writes", "asked.arrow"
_NOTHING_KEPT = Keeping()
_TOUCHED = "touched.arrow"
_OBJECTS = pa.schema([pa.field("object", pa.uint64())])


@runtime_checkable
class JudgingTask(Protocol):
    """A task that judges requests."""

    @property
    def name(self) -> str:
        """See Task."""
        ...

    def walk(self, replayer: Replayer, collector: Collector, parts: Path, folder: Path) -> Walk:
        """Give the verdicts to the collector. What later tasks and runs need of the requests goes into a folder for the part."""
        ...


def _settle(task: JudgingTask, replayer: Replayer, parts: Path, crew: Path) -> None:
    """Make the part of a task: the verdicts that it finds."""
    builder = VerdictBuilder()
    with making(parts, task.name, crew) as folder:
        write_settled(task.walk(replayer, builder, parts, folder).settled(builder), folder)


@dataclass(frozen=True, slots=True)
class JudgeSlice:
    """Judges those requests of a slice that need only their own record."""

    slice: Slice
    keeping: Keeping = _NOTHING_KEPT

    @property
    def name(self) -> str:
        """See Task."""
        return f"{_SLICE}{self.slice.index:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        part = parts / self.name
        return counts_of(part) if _is_shelf(part, _WAITING) and (part / _ASKED).exists() else None

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        _settle(self, replayer, parts, crew)

    def walk(self, replayer: Replayer, collector: Collector, parts: Path, folder: Path) -> Walk:
        """See JudgingTask: it keeps the waiting requests in the folder."""
        keeper = replayer.use(self.keeping, read_touched(parts), self.slice.files)
        with ShelfWriter(folder, _WAITING) as shelf:
            walk, asked = replayer.walk_slice(self.slice, collector, shelf, keeper)
        _write_asked(folder, asked)
        keeper.write(folder)
        return walk


@dataclass(frozen=True, slots=True)
class LookBack:
    """Finds the writes in a slice of the objects whose earlier state is needed: see `look_back_tasks`."""

    slice: Slice

    @property
    def name(self) -> str:
        """See Task."""
        return f"{_PAST}{self.slice.index:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return Counts(0, 0, {}) if _is_shelf(parts / self.name, _WRITES) else None

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        with making(parts, self.name, crew) as folder, ShelfWriter(folder, _WRITES) as shelf:
            for batch in replayer.past_writes(self.slice, _read_asked(parts)):
                shelf.add(batch)


@dataclass(frozen=True, slots=True)
class JudgeBucket:
    """Judges the waiting requests of a bucket, with the writes that were found."""

    bucket: Bucket
    keeping: Keeping = _NOTHING_KEPT

    @property
    def name(self) -> str:
        """See Task."""
        return f"{_BUCKET}{self.bucket.first:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return counts_of(parts / self.name)

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        _settle(self, replayer, parts, crew)

    def walk(self, replayer: Replayer, collector: Collector, parts: Path, folder: Path) -> Walk:
        """See JudgingTask: it writes the requests that are kept into a folder."""
        keeper = replayer.use(self.keeping, read_touched(parts))
        waiting = self._read(parts, _SLICE, _WAITING)
        walk = replayer.walk_waiting(waiting, lambda: self._read(parts, _PAST, _WRITES), collector, keeper)
        keeper.write(folder)
        return walk

    def copy_inputs(self, parts: Path, target: Path) -> None:
        """Copy what this task reads of other parts into a folder with parts of the same names."""
        for kind, shelf in ((_SLICE, _WAITING), (_PAST, _WRITES)):
            for part in parts_of(parts, kind):
                (target / part.name).mkdir()
                copy_shelf(part, target / part.name, shelf, self.bucket.first, self.bucket.end)

    def _read(self, parts: Path, kind: str, shelf: str) -> Iterator[pa.RecordBatch]:
        for part in parts_of(parts, kind):
            yield from read_shelf(part, shelf, self.bucket.first, self.bucket.end)


@dataclass(frozen=True, slots=True)
class JudgeKept:
    """Judges requests that are kept with what history told of them."""

    index: int
    groups: Groups

    @property
    def name(self) -> str:
        """See Task."""
        return f"{_KEPT}{self.index:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return counts_of(parts / self.name)

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        _settle(self, replayer, parts, crew)

    def walk(self, replayer: Replayer, collector: Collector, parts: Path, folder: Path) -> Walk:
        """See JudgingTask."""
        return replayer.walk_kept(self.groups, read_touched(parts), collector)


@dataclass(frozen=True, slots=True)
class JudgeInputs:
    """Judges the kept inputs of a class of plain requests; `is_left` if events have to be read instead."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """See Task."""
        return f"{_KEPT_INPUTS}{self.number:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return counts_of(parts / self.name)

    def is_left(self, parts: Path) -> bool:
        """Whether the part, which is done, has left the requests to the events."""
        return (parts / self.name / _LEFT).exists()

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        _settle(self, replayer, parts, crew)

    def walk(self, replayer: Replayer, collector: Collector, parts: Path, folder: Path) -> Walk:
        """See JudgingTask: a part that leaves the requests to the events says so."""
        walk = replayer.walk_inputs(self.number, self.pieces, collector)
        if walk is None:
            (folder / _LEFT).touch()
        return walk or Walk(collector)


@dataclass(frozen=True, slots=True)
class CountObjects:
    """Counts the objects of the events, which the run needs to keep requests: see pipeline/requests/kept/touched.py."""

    @property
    def name(self) -> str:
        """See Task."""
        return "objects"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return Counts(0, 0, {}) if (parts / self.name).is_dir() else None

    def do(self, replayer: Replayer, parts: Path, crew: Path) -> None:
        """See Task."""
        with making(parts, self.name, crew):
            replayer.count_objects()


def kept_tasks(covered: Covered) -> list[JudgeKept]:
    """The tasks for the requests that are kept."""
    return [JudgeKept(index, groups) for index, groups in enumerate(covered.groups)]


def slice_tasks(taken: TakenOver, files: Iterable[str], plan: RecordsPlan, left: Collection[int] = ()) -> list[JudgeSlice]:
    """The tasks for the requests that have to be read from events. `left` are classes whose kept inputs turned out not to do."""
    alike: dict[Keeping, list[str]] = {}
    for file in files:
        keeping = taken.keeping(file, left)
        if keeping is not None:
            alike.setdefault(keeping, []).append(file)
    found: list[JudgeSlice] = []
    for keeping, chosen in alike.items():
        for each in slices_of(chosen, plan.window, plan.part_events):
            lacks = taken.lacks(each.files[0]) if len(each.files) == 1 else frozenset()
            found.append(JudgeSlice(replace(each, index=len(found)), replace(keeping, inputs=lacks)))
    return found


def look_back_tasks(parts: Path, every: Iterable[Slice]) -> list[LookBack]:
    """One task for each slice of the lake's past, if the judged slices need any object of it."""
    found = [ASKED.empty_table()]
    for part in parts_of(parts, _SLICE):
        found.append(_read_asked(part))
    asked = pa.concat_tables(found).group_by(ASKED.names).aggregate([])
    _write_asked(parts, asked)
    return [LookBack(each) for each in every] if asked.num_rows else []


def bucket_tasks(parts: Path, partitions: int, requests_max: int, keeping: Keeping = _NOTHING_KEPT) -> list[JudgeBucket]:
    """The tasks for the requests that wait in the judged slices."""
    waiting = [0] * partitions
    for part in parts_of(parts, _SLICE):
        for entry in entries(part, _WAITING):
            waiting[entry.partition] += entry.rows
    return [JudgeBucket(bucket, keeping) for bucket in buckets_of(waiting, requests_max)]


def walk_all(replayer: Replayer, plan: RecordsPlan, reader: LakeReader, collector: Collector) -> Iterator[Walk]:
    """Give a collector the verdicts on all requests of a plan, one task after the other; the parts are not kept."""
    with tempfile.TemporaryDirectory(prefix="hindcast-") as folder:
        parts, files = Path(folder), reader.files.events
        for part in slices_of(files, plan.window, plan.part_events):
            task = JudgeSlice(part)
            (parts / task.name).mkdir()
            yield task.walk(replayer, collector, parts, parts / task.name)
        for past in look_back_tasks(parts, slices_of(files, Window(), plan.part_events)):
            past.do(replayer, parts, parts)
        for bucket in bucket_tasks(parts, partitions_of(plan), bucket_requests(plan)):
            yield bucket.walk(replayer, collector, parts, parts)


def keeping_parts(parts: Path) -> list[Path]:
    """The parts that hold requests to be kept."""
    return [*parts_of(parts, _SLICE), *parts_of(parts, _BUCKET)]


def write_touched(parts: Path, objects: pa.Array[Any]) -> None:
    """Tell all tasks of a run for which objects kept requests do not count any more."""
    with pa.ipc.new_file(str(parts / _TOUCHED), _OBJECTS) as file:
        file.write_table(pa.table([objects], schema=_OBJECTS))


def read_touched(parts: Path) -> pa.Array[Any]:
    """The objects for which kept requests do not count any more."""
    try:
        with pa.ipc.open_file(str(parts / _TOUCHED)) as file:
            return one_chunk(file.read_all()["object"])
    except FileNotFoundError:
        return NONE


def _read_asked(folder: Path) -> pa.Table:
    with pa.ipc.open_file(str(folder / _ASKED)) as file:
        return file.read_all()


def _write_asked(folder: Path, asked: pa.Table) -> None:
    unfinished = folder / f"{_ASKED}.tmp"
    with pa.ipc.new_file(str(unfinished), ASKED) as file:
        file.write_table(asked)
    unfinished.replace(folder / _ASKED)


def _is_shelf(part: Path, name: str) -> bool:
    try:
        entries(part, name)
    except (OSError, ValueError):
        return False
    return True
