"""The worker processes of replays. They start when they are first needed and are kept: a command may replay several plans.

A process keeps the data of one plan until it gets a part of another plan. It receives all its input, and never loads its parent's
modules, such as a command line or a notebook.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.published.target import store_settings
from queries import open_lake
from queries.catalog import LakeFiles

from ..cel.syntax.parse import prepare_parser
from .executors import PART_EVENTS, Job, Make, Task, Worker, work_through
from .lifetime import end_with_parent
from .parts import take
from .plan import RunPlan

# A replay keeps its objects until the part is done, or drops them at once. Python's default, which searches for cycles among the
# newest objects every 700 objects and sometimes among all, finds no cycles here and takes long.
COLLECTING = (500_000, 10, 100)
EVENTS_PER_WORKER = 20_000
_LOOK_SECONDS = 1.0  # how often to look whether the parent is still there

T = TypeVar("T")

_lock = threading.Lock()
# By the number of processes, and the settings for stores that they started with: one.
_pools: dict[tuple[int, frozenset[tuple[str, str]]], ProcessPoolExecutor] = {}
_held: dict[tuple[str, Path, LakeFiles], Worker] = {}  # of such a process: one


def share_out(processes: int, job: Job, tasks: Sequence[Task]) -> list[Future[None]]:
    """Let this many processes take tasks; each future is done when no task is left."""
    # The processes may have another working folder than this process has now.
    places = (job.lake.absolute(), job.reader.files.absolute(), job.parts.absolute(), job.crew.absolute())
    return submit(processes, work, [(job.make, job.plan, tasks, *places)] * processes)


def submit(processes: int, function: Callable[..., T], orders: Sequence[tuple[Any, ...]]) -> list[Future[T]]:
    """Have this many processes call a function of a module, once with each order."""
    with _lock, _apart():
        try:
            return [_pool_of(processes).submit(function, *order) for order in orders]
        except BrokenProcessPool:  # one was killed since the last replay
            _drop()
            return [_pool_of(processes).submit(function, *order) for order in orders]


def end() -> None:
    """End the processes once they have done what they began."""
    with _lock:
        _drop()


def default_workers(lake: Path) -> int:
    """One worker per core, but no more than the events of a lake are worth: a process takes a second to start."""
    try:
        worth = -(-_events_in(lake) // EVENTS_PER_WORKER)
    except LakeError:
        return 1  # the reader of the lake reports its damage
    return max(1, min(os.cpu_count() or 1, worth))


def start_processes(lake: Path, workers: int) -> None:
    """Begin to start the worker processes that a replay over a lake of this size may use, so that they start during planning.

    Raises LakeError when there is no lake.
    """
    processes = min(workers, -(-_events_in(lake) // PART_EVENTS)) - 1
    if processes > 0:
        with _lock, _apart(), suppress(BrokenProcessPool):  # a later replay makes a broken pool again
            for _ in range(processes):
                _pool_of(processes).submit(prepare_parser)


def _events_in(lake: Path) -> int:
    with closing(Lake.open(lake)) as opened:
        return sum(file.rows for file in opened.manifest.files("events"))


def _pool_of(processes: int) -> ProcessPoolExecutor:
    """A pool of at least so many processes, which start with the first submitted work.

    Processes keep the environment that they start with. A notebook may have changed how it reaches a store since.
    """
    settings = store_settings()
    for (size, its_settings), pool in _pools.items():
        if size >= processes and its_settings == settings:
            return pool
    _drop()
    # Forked processes would inherit threads of DuckDB and Arrow in the middle of something.
    context = multiprocessing.get_context("spawn")
    # A thread that ends before this process would also end the processes that it started.
    is_lasting = threading.current_thread() is threading.main_thread()
    pool = _pools[processes, settings] = ProcessPoolExecutor(processes, context, _prepare, (os.getpid(), is_lasting))
    return pool


def stop(tasks: Iterable[Task], crew: Path) -> None:
    """Start no more of these tasks, and wait for the started ones. For a replay that was interrupted, or lost a process."""
    for task in tasks:
        take(crew, task.name)
    end()


def _drop() -> None:
    with _undisturbed():
        for pool in _pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        _pools.clear()


@contextmanager
def _apart() -> Iterator[None]:
    """Processes that start here are independent of the main module and the terminal of this one.

    They do not load that module, as `spawn` otherwise does, because they do not need it. Ctrl-C reaches every process of a
    terminal, but only this one should handle it: a process inherits the blocked signals when it starts.
    """
    resource_tracker.ensure_running()  # it starts with the first process otherwise, and ends with unblocking
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _undisturbed():
            yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay interruptions until the context ends: Python would wait for ever for a pool that is half started or half ended."""
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        before.clear()
    for number in before:
        signal.signal(number, lambda *signaled: arrived.append(signaled))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for signaled, frame in arrived[:1]:
        before[signal.Signals(signaled)](signaled, frame)


def work(make: Make, plan: RunPlan, tasks: Sequence[Task], lake: Path, files: LakeFiles, folder: Path, crew: Path) -> None:
    """Do tasks in a worker process until all are taken.

    `files` are those that every process of this replay reads: other files may hold the same events, after a merge or a rebuild.
    """
    key = (plan.run_id, lake, files)

    def worker() -> Worker:
        if key not in _held:
            _let_go()
            _held[key] = make(plan, open_lake(lake, threads=1, files=files))
        return _held[key]

    for _ in work_through(worker, tasks, folder, crew):
        pass


def _let_go() -> None:
    for worker in _held.values():
        worker.close()
    _held.clear()


def _prepare(parent: int, is_lasting: bool) -> None:
    if is_lasting:
        end_with_parent(parent)
    gc.set_threshold(*COLLECTING)
    atexit.register(_let_go)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: it gets no message, and would wait for ever. Not every kernel ends it."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
