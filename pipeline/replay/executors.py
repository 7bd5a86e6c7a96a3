"""The seam between a run and those who do its work. The run lists units of work, and an executor has workers do them.

Units of one stage need no data of each other: see tasks.py. Each makes one part, and a part that is made twice has equal content.
So an executor may repeat a unit, and units may finish in any order: the merge reads the parts in their own order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from queries import LakeReader
from queries.catalog import LakeFiles

from .plan import ReplayPlan
from .tasks import Task
from .worker import Replayer

Make: TypeAlias = Callable[[ReplayPlan, LakeReader], Replayer]


@dataclass(frozen=True, slots=True)
class Job:
    """One run, for its executor. `make` makes a Replayer in any process, and `own` is the one of this process.

    `reader` reads the files that every worker of this run reads. The parts go into the folder `parts`. `crew` is a folder that the
    workers of this owner of the run have for themselves: see parts.new_crew.
    """

    plan: ReplayPlan
    reader: LakeReader
    lake: Path
    parts: Path
    crew: Path
    make: Make
    own: Callable[[], Replayer]


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
