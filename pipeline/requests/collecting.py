"""Verdicts that one process looks at as they are found, in place of a run: the same tasks, and the same things kept for later."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from queries import LakeReader

from ..runs.executors import Make, Task
from ..runs.local import LocalProcesses
from ..runs.parts import making
from ..runs.running import collecting_seldom
from .crew import TRIES, RecordsCrew
from .kept.records import KeptGoneError
from .past import rows_of
from .plan import RecordsPlan
from .tasks import JudgingTask
from .worker import AttemptReplayer, Walk


class Found:
    """The verdicts that one task found, with their requests: see Collector."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, Sequence[Any]]] = []
        self._alike: list[tuple[pa.Array[Any], Sequence[Sequence[Any]]]] = []
        self.walk: Walk | None = None

    def add(self, row: int, verdicts: Sequence[Any], pass_index: int = 0) -> None:
        """See Collector."""
        self._rows.append((row, verdicts))

    def add_alike(self, groups: pa.Array[Any], verdicts: Sequence[Sequence[Any]]) -> None:
        """See Collector."""
        self._alike.append((groups, verdicts))

    def counted(self) -> Iterator[tuple[Sequence[Any], int]]:
        """The distinct verdicts, and how many requests each has."""
        distinct = {id(verdicts): verdicts for _, verdicts in self._rows}
        for number, count in Counter(id(verdicts) for _, verdicts in self._rows).items():
            yield distinct[number], count
        for groups, found in self._alike:
            counts: Any = pc.value_counts(groups)
            for entry in counts.to_pylist():
                yield found[entry["values"]], entry["counts"]

    def places_of(self, verdicts: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """The requests that have these very verdicts: their cluster, audit ID and times."""
        assert self.walk is not None
        rows: list[Any] = [row for row, each in self._rows if each is verdicts]
        for groups, found in self._alike:
            numbers = [number for number, each in enumerate(found) if each is verdicts]
            if numbers:
                rows += pc.indices_nonzero(pc.is_in(groups, value_set=pa.array(numbers, groups.type))).to_pylist()
        if rows:
            yield from rows_of(pa.Table.from_batches(self.walk.read).take(pa.array(rows, pa.int64())))


class _Collecting(RecordsCrew):
    """A crew of this process alone that looks at verdicts in place of writing them."""

    def __init__(self, plan: RecordsPlan, reader: LakeReader, parts: Path, make: Make) -> None:
        super().__init__(plan, reader, Path(reader.files.lake), parts, LocalProcesses(), make)
        self.found: list[Found] = []

    def do(self, tasks: Sequence[Task]) -> Iterator[int]:
        """See Crew."""
        for task in tasks:
            if isinstance(task, JudgingTask):
                self._collect(task)
            else:
                task.do(self.own(), self._parts, self._crew)
            yield 0

    def _collect(self, task: JudgingTask) -> None:
        found = Found()
        with making(self._parts, task.name, self._crew) as folder:
            found.walk = task.walk(self.own(), found, self._parts, folder)
        self.found.append(found)


def collect(plan: RecordsPlan, reader: LakeReader, make: Make = AttemptReplayer) -> list[Found]:
    """The verdicts of a plan on all its requests, over what the reader reads."""
    for _ in range(TRIES - 1):
        with suppress(KeptGoneError):
            return _collected(plan, reader, make)
    return _collected(plan, reader, make)


def _collected(plan: RecordsPlan, reader: LakeReader, make: Make) -> list[Found]:
    with _crew(plan, reader, make) as crew:
        for _ in crew.work():
            pass
        return crew.found


def keep_records(plan: RecordsPlan, reader: LakeReader, make: Make = AttemptReplayer) -> None:
    """Keep for later runs what no judge decides about the requests of a plan. If others remove kept requests meanwhile, the next
    run keeps them."""
    with suppress(KeptGoneError), _crew(plan, reader, make) as crew:
        for _ in crew.keep():
            pass


@contextmanager
def _crew(plan: RecordsPlan, reader: LakeReader, make: Make) -> Iterator[_Collecting]:
    with (
        tempfile.TemporaryDirectory(prefix="hindcast-") as folder,
        collecting_seldom(),
        closing(_Collecting(plan, reader, Path(folder), make)) as crew,
    ):
        yield crew
