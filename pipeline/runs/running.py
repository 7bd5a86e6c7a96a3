"""Making a run: an executor has workers make parts, each finished part is kept, and the parts are merged in the order of arrival.

An interrupted run continues with the missing parts; a complete run is not run again. See store.py for its files. All stages make
their runs so: they differ in the tasks that they list.
"""

from __future__ import annotations

import gc
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from .executors import Executor, Job, Make, Task
from .kinds import RunKind
from .merge import Merged
from .parts import counts_of, forget_crews, free, new_crew, read_settled, settled_parts
from .plan import RunPlan
from .processes import COLLECTING
from .revision import Revision
from .store import RunStore, StoredRun
from .summarize import summarize
from .summary import RunSummary
from .verdicts import Pass, VerdictFile
from .window import lake_digest

Progress: TypeAlias = Callable[[int, int], None]  # is called with how many requests are done, and how many are planned
# Makes the missing parts of a run, in its folder of parts; yields how many requests each part settled, those before first.
MakeParts: TypeAlias = Callable[[LakeReader, Path], Iterator[int]]
# Passes whose verdicts something else decides. It is asked once the parts are made, and gets what they say.
Doubts: TypeAlias = Callable[[Merged], Mapping[Pass, Revision]]


def make_run(
    plan: RunPlan,
    lake: Path,
    kind: RunKind,
    make_parts: MakeParts,
    progress: Progress | None,
    threads: int | None = None,
    doubts: Doubts | None = None,
) -> RunSummary:
    """Make the run of a plan over the lake that it was made for, or return its summary if it is complete.

    It reads the files that the plan was made over: events that arrived since belong to a later run. Raises LakeError if those
    files are gone and the lake's content has changed. The passes of `doubts` get their verdicts, whatever the parts say.
    """
    run = RunStore(lake).run(plan.run_id)
    with run.owned():
        if (finished := run.finished(plan.to_json())) is not None:
            with suppress(OSError):  # a lake that may only be read
                run.mark(kind)
            return finished
        with ExitStack() as held, closing(_reader_of(plan, lake, threads)) as reader, collecting_seldom():
            run.parts.mkdir(parents=True, exist_ok=True)
            held.enter_context(run.in_use())
            run.mark(kind)
            run.begin(plan.to_json())
            done = 0
            for settled in make_parts(reader, run.parts):
                done += settled
                if progress is not None and settled > 0:
                    progress(done, plan.requests)
            summary = _merge(plan, run, reader, doubts)
            run.finish(summary)
        return summary


def _reader_of(plan: RunPlan, lake: Path, threads: int | None) -> LakeReader:
    """A reader of the files that the plan was made over, or of files with the same content if those were merged or moved."""
    if plan.files is not None and _are_of(plan.files, lake) and plan.files.are_there():
        return open_lake(lake, threads, files=plan.files.absolute())
    reader = open_lake(lake, threads, cluster=plan.files.cluster if plan.files else "")
    if lake_digest(reader, plan.window) == plan.lake_digest:
        return reader
    reader.close()
    raise LakeError(f"{lake} has changed since this replay was planned, and files of then are gone", "plan it again")


def _are_of(files: LakeFiles, lake: Path) -> bool:
    folder, found = lake.absolute(), files.absolute()
    if found.lake:
        return Path(found.lake) == folder
    return all(Path(path).is_relative_to(folder) for path in found.events)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """A time in which Python seldom looks for cycles of objects: a run makes many objects, and few cycles."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTING)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Crew:
    """Leads the work on a run: has an executor do its tasks, one list after the other."""

    def __init__(self, plan: RunPlan, reader: LakeReader, lake: Path, parts: Path, executor: Executor, make: Make) -> None:
        """`make` makes the workers."""
        self._make = make
        self._plan = plan
        self._reader = reader
        self._lake = lake
        self._parts = parts
        self._executor = executor
        self._worker: Any = None
        self._crew = parts  # until it begins

    def close(self) -> None:
        """Give back what this process holds for the run, but for the reader: sessions that stay keep its database from others."""
        if self._worker is not None:
            self._worker.close_sessions()

    def begin(self, cut: object) -> None:
        """Leave no work of an earlier owner of the run, but for parts that are finished and would be made again equally.

        `cut` is all that the division into parts depends on.
        """
        forget_crews(self._parts)
        _keep_those_of(self._parts, cut)
        self._crew = new_crew(self._parts)

    def do(self, tasks: Sequence[Task]) -> Iterator[int]:
        """Do the tasks that are not done; yields how many requests each settled, beginning with those before."""
        counts = {task.name: task.done(self._parts) for task in tasks}
        before = sum(each.requests for each in counts.values() if each)
        if before:
            yield before
        missing = [task for task in tasks if counts[task.name] is None]
        free(self._parts, self._crew, [task.name for task in missing])
        for task in self._run(missing):
            found = task.done(self._parts)
            if found is not None:
                yield found.requests

    def _run(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Have the executor do tasks; yields each when its part is in place."""
        if tasks:
            job = Job(self._plan, self._reader, self._lake, self._parts, self._crew, self._make, self.own)
            with closing(self._executor.work(job, tasks)) as finished:
                yield from finished

    def own(self) -> Any:
        """The worker of this process."""
        if self._worker is None:
            self._worker = self._make(self._plan, self._reader)
        return self._worker


def _keep_those_of(parts: Path, cut: object) -> None:
    """Remove parts that were made from other files of the lake, or with another division into parts."""
    file, digest = parts / "cut", hashlib.sha256(repr(cut).encode()).hexdigest()
    try:
        is_same = file.read_text(encoding="ascii") == digest
    except (OSError, ValueError):
        is_same = False
    if not is_same:
        shutil.rmtree(parts)
        parts.mkdir()
        file.write_text(digest, encoding="ascii")


def _merge(plan: RunPlan, run: StoredRun, reader: LakeReader, doubts: Doubts | None) -> RunSummary:
    """Put the parts together in the order in which the requests arrived."""
    evaluated, not_evaluated = 0, Counter[str]()
    settled = settled_parts(run.parts)
    for part in settled:
        counts = counts_of(part)
        if counts is None:
            raise LakeError(f"{part}: this part of a replay cannot be read", "run the replay again: it alone is made again")
        evaluated += counts.evaluated
        not_evaluated.update(counts.not_evaluated)
    merged = Merged([read_settled(part) for part in settled])
    merged.revise(doubts(merged) if doubts is not None else {})
    with VerdictFile(run.unfinished) as whole:
        for table in merged.tables(run.run_id):
            whole.write(table)
    run.unfinished.replace(run.verdicts)
    return summarize(plan, merged, evaluated, not_evaluated, reader.connection)
