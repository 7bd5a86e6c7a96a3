"""The executor of one machine: this process and further ones, which take tasks from one list."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from ingest.errors import LakeError
from queries.catalog import LakeFiles

from .executors import Job, Task, work_through
from .processes import share_out, stop

# How often to look whether other processes have finished parts, when there is nothing else to do.
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """See Executor. `workers` counts this process, too."""

    workers: int = 1

    def reaches_kept(self, files: LakeFiles) -> bool:
        """See Executor: a process of this machine reads the same files."""
        return True

    def work(self, job: Job, tasks: Sequence[Task]) -> Generator[Task, None, None]:
        """See Executor."""
        processes = min(self.workers, len(tasks)) - 1
        others = share_out(processes, job, tasks) if processes > 0 else []
        try:
            yield from _work_beside(others, job, tasks)
        except BrokenProcessPool as error:
            stop(tasks, job.crew)
            hint = (
                "it may have run out of memory: run it again with fewer workers or a larger memory limit; finished parts are kept"
            )
            raise LakeError(f"{job.lake}: a process of the replay ended before its part was done", hint) from error
        except BaseException:
            stop(tasks, job.crew)
            raise


def _work_beside(others: Sequence[Future[None]], job: Job, tasks: Sequence[Task]) -> Iterator[Task]:
    """Take tasks as the other processes do; yields every task when it is done, in any process."""
    waiting = {task.name: task for task in tasks}
    for _ in work_through(job.own, tasks, job.parts, job.crew):
        yield from _finished(waiting, job)
        _look_after(others)
    while waiting and not all(other.done() for other in others):
        wait(others, _LOOK_SECONDS)
        _look_after(others)
        yield from _finished(waiting, job)
    # A process that still looks for a free task could take one of the next replay, if that uses the same folder.
    wait([other for other in others if not other.cancel()])
    yield from _finished(waiting, job)
    if waiting:
        raise LakeError(f"{job.parts}: {len(waiting):,} parts of the replay are gone, e.g. {next(iter(waiting))}", "run it again")


def _finished(waiting: dict[str, Task], job: Job) -> Iterator[Task]:
    for name in [name for name in waiting if (job.parts / name).exists()]:
        yield waiting.pop(name)


def _look_after(others: Iterable[Future[None]]) -> None:
    """Raise the error that ended another process early: no other process takes the part that it had taken."""
    for other in others:
        if other.done():
            other.result()
