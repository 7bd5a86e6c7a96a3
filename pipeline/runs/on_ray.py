"""The executor of a Ray cluster: Ray hands out the units of a run, and repeats those whose worker died.

The caller connects to Ray. The driver, which is this process, alone reads and writes the folder of the run.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

from ingest.errors import HindcastError, LakeError, UnfinishedError
from queries.catalog import LakeFiles

from .apart import Files, code_name, inputs_of, inputs_of_all, is_published, make_part, order_of, put_part
from .executors import Job, Task

# A unit that kills its worker this often is given up.
TRIES = 3
_NAMED_MAX = 5


@dataclass(slots=True)
class Traffic:
    """What went through the driver: units that are done, and bytes of files to and from workers."""

    units: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OnRay:
    """See Executor. At most `workers` units are with Ray at a time, so a long list of units takes no memory there."""

    workers: int
    traffic: Traffic = field(default_factory=Traffic)
    _orders: dict[Path, Any] = field(default_factory=dict)  # by the folder of the parts: the order of its run, in Ray's store

    def reaches_kept(self, files: LakeFiles) -> bool:
        """See Executor: the kept tables of a published lake are on the driver's machine."""
        return not is_published(files)

    def work(self, job: Job, tasks: Sequence[Task]) -> Generator[Task, None, None]:
        """See Executor."""
        unit = ray.remote(num_cpus=1, max_retries=TRIES - 1)(make_part)
        order, shared = self._order_of(job), self._put(inputs_of_all(job.parts))
        left, waiting, dead = deque(tasks), dict[Any, Task](), list[Task]()
        try:
            while left or waiting:
                while left and len(waiting) < self.workers:
                    task = left.popleft()
                    inputs = self._put(inputs_of(task, job.parts))
                    named = unit.options(name=task.name)  # Ray's list of tasks and the list of processes show it
                    waiting[named.remote(code_name(), order, shared, inputs, pickle.dumps(task))] = task
                for done in ray.wait(list(waiting))[0]:
                    task = waiting.pop(done)
                    try:
                        self._take(job, task, ray.get(done))
                    except (WorkerCrashedError, OutOfMemoryError, NodeDiedError):
                        dead.append(task)
                    else:
                        yield task
        except RayError as error:
            raise _own_error(error) from error
        finally:
            _cancel(waiting)
        if dead:
            raise _died(dead)

    def _order_of(self, job: Job) -> Any:
        if job.parts not in self._orders:
            self._orders[job.parts] = ray.put(order_of(job))
        return self._orders[job.parts]

    def _put(self, files: Files) -> Any:
        self.traffic.sent_bytes += sum(map(len, files.values()))
        return ray.put(files)

    def _take(self, job: Job, task: Task, files: Files) -> None:
        put_part(job.parts, job.crew, task.name, files)
        self.traffic.units += 1
        self.traffic.received_bytes += sum(map(len, files.values()))


def _cancel(waiting: Mapping[Any, Task]) -> None:
    for each in waiting:
        ray.cancel(each, force=True)


def _own_error(error: RayError) -> BaseException:
    """What a task raised in its worker, or else what happened to Ray."""
    if isinstance(error, RayTaskError) and isinstance(cause := error.cause, Exception):
        if isinstance(cause, ModuleNotFoundError):
            return LakeError(f"a worker of Ray cannot load Hindcast: {cause}", "install the same Hindcast on every node")
        return cause
    return HindcastError(f"Ray: {str(error).strip().splitlines()[0]}", "see Ray's own logs; finished parts are kept")


def _died(tasks: Sequence[Task]) -> UnfinishedError:
    names = ", ".join(task.name for task in tasks[:_NAMED_MAX])
    more = f" and {len(tasks) - _NAMED_MAX:,} more" if len(tasks) > _NAMED_MAX else ""
    return UnfinishedError(
        f"{TRIES} workers died at the same unit, so its requests are not evaluated, and the run is incomplete: {names}{more}",
        "give each worker more memory and run it again, or run it without --on: other finished parts are kept",
    )
