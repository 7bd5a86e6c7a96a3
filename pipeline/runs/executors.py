"""The seam between a run and those who do its work. The run lists units of work, and an executor has workers do them.

Units of one stage need no data of each other: see Task. Each makes one part, and a part that is made twice has equal content.
So an executor may repeat a unit, and units may finish in any order: the merge reads the parts in their own order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from queries import LakeReader
from queries.catalog import LakeFiles

from .parts import Counts, take
from .plan import RunPlan

# Events per part: as many as a row group of a file has. An interrupted run loses no more than these.
PART_EVENTS = 50_000


class Worker(Protocol):
    """The data of one process while it does tasks of a run."""

    def close(self) -> None:
        """Give back all, with the lake."""
        ...

    def close_sessions(self) -> None:
        """As `close`, for a reader that others still use."""
        ...


# Makes the worker of a process, which does the tasks of a plan: a function of a module, or a part of one.
Make: TypeAlias = Callable[[Any, LakeReader], Any]


class Task(Protocol):
    """One part to be made."""

    @property
    def name(self) -> str:
        """The name of the part's folder."""
        ...

    def done(self, parts: Path) -> Counts | None:
        """The counts of the part's requests; None if the part is not made yet."""
        ...

    def do(self, worker: Any, parts: Path, crew: Path) -> None:
        """Make the part, in the folder of its crew first: see parts.making. `worker` is what the run's `Make` made."""
        ...


@runtime_checkable
class TakesInputs(Protocol):
    """A task that reads files of other parts."""

    def copy_inputs(self, parts: Path, target: Path) -> None:
        """Copy what this task reads of other parts into a folder with parts of the same names."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One run, for its executor. `make` makes a worker in any process, and `own` is the one of this process.

    `reader` reads the files that every worker of this run reads. The parts go into the folder `parts`. `crew` is a folder that the
    workers of this owner of the run have for themselves: see parts.new_crew.
    """

    plan: RunPlan
    reader: LakeReader
    lake: Path
    parts: Path
    crew: Path
    make: Make
    own: Callable[[], Any]


class Executor(Protocol):
    """Has workers do units of work."""

    def reaches_kept(self, files: LakeFiles) -> bool:
        """Whether its workers can read the kept requests and inputs of these files of a lake."""
        ...

    def work(self, job: Job, tasks: Sequence[Task]) -> Generator[Task, None, None]:
        """Do tasks in any order; yields each when its part is in place. Closing the iterator ends the work.

        Raises what ended a task, and LakeError or UnfinishedError if workers died.
        """
        ...


def work_through(worker: Callable[[], Any], tasks: Iterable[Task], parts: Path, crew: Path) -> Iterator[Task]:
    """Do the tasks that no other process of the crew takes; yields each when its part is in place."""
    for task in tasks:
        if take(crew, task.name):
            task.do(worker(), parts, crew)
            yield task
