"""Walking a plan: an executor has workers make parts, each finished part is kept, and the parts are merged in the order of arrival.

An interrupted run continues with the missing parts; a complete run is not run again. See pipeline/runs/store.py for its files.
"""

from __future__ import annotations

import gc
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..derived.facts import LakeFacts, facts_of
from ..derived.inputs import KeptInputs
from ..derived.kept import Covered, Keeping, KeptGoneError, Store
from ..runs import RunKind, RunStore, RunSummary, StoredRun
from ..runs.kinds import in_use_if_there
from ..runs.merge import Merged
from ..runs.summarize import summarize
from ..runs.verdicts import VerdictFile
from ..runs.window import Window, lake_digest
from .executors import Executor, Job, Make
from .keeping import TakenOver, classes_of, forget_older, is_present, keep_run, store_of, units_of
from .kept_inputs import TakenInputs, keep_inputs
from .local import LocalProcesses
from .parts import counts_of, forget_crews, free, new_crew, read_settled
from .plan import ReplayPlan
from .processes import COLLECTING
from .slices import bucket_requests, partitions_of, slices_of
from .tasks import (
    CountObjects,
    JudgeInputs,
    Task,
    bucket_tasks,
    keeping_parts,
    kept_tasks,
    look_back_tasks,
    settled_parts,
    slice_tasks,
    write_touched,
)
from .worker import Replayer

Progress = Callable[[int, int], None]
# So often a run begins with the kept requests that are left, after others were removed while it read them.
_TRIES = 5


def run_replay(
    plan: ReplayPlan,
    lake_path: str | Path,
    workers: int = 1,
    progress: Progress | None = None,
    kind: RunKind | None = None,
    executor: Executor | None = None,
) -> RunSummary:
    """Evaluate a plan over the lake it was made for. The same plan gives the same bytes for any executor and number of workers.

    `executor` does the work; by default so many `workers` of this machine.

    It reads the files that the plan was made over: events that arrived since belong to a later run. It calls
    `progress(done, planned)` with numbers of requests. Raises LakeError if those files are gone and the lake's content has changed.
    """
    lake = Path(lake_path)
    run = RunStore(lake).run(plan.run_id)
    kind = kind or (RunKind.CALIBRATION if plan.policies is None else RunKind.REPLAY)
    with run.owned():
        if (finished := run.finished(plan.to_json())) is not None:
            with suppress(OSError):  # a lake that may only be read
                run.mark(kind)
            return finished
        with ExitStack() as held, closing(_reader_of(plan, lake)) as reader, collecting_seldom():
            run.parts.mkdir(parents=True, exist_ok=True)
            held.enter_context(run.in_use())
            run.mark(kind)
            run.begin(plan.to_json())
            _make_parts(plan, reader, lake, run, executor or LocalProcesses(workers), progress)
            summary = _merge(plan, run, reader)
            run.finish(summary)
        return summary


def _make_parts(
    plan: ReplayPlan, reader: LakeReader, lake: Path, run: StoredRun, executor: Executor, progress: Progress | None
) -> None:
    """Make the missing parts of a run. If kept requests are removed meanwhile, it begins again with those that are left."""
    for tries_left in reversed(range(_TRIES)):
        done = 0
        try:
            with closing(Crew(plan, reader, lake, run.parts, executor)) as crew:
                for settled in crew.work():
                    done += settled
                    if progress is not None and settled:
                        progress(done, plan.requests)
                return
        except KeptGoneError:
            if not tries_left:
                raise


def _reader_of(plan: ReplayPlan, lake: Path) -> LakeReader:
    """A reader of the files that the plan was made over, or of files with the same content if those were merged or moved."""
    if plan.files is not None and _are_of(plan.files, lake) and plan.files.are_there():
        return open_lake(lake, threads=1, files=plan.files.absolute())
    reader = open_lake(lake, threads=1, cluster=plan.files.cluster if plan.files else "")
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
    """Leads a run: lists its tasks stage by stage, and has an executor do them."""

    def __init__(
        self,
        plan: ReplayPlan,
        reader: LakeReader,
        lake: Path,
        parts: Path,
        executor: Executor,
        make: Make = Replayer,
    ) -> None:
        """`make` makes the Replayers."""
        self._make = make
        self._plan = plan
        self._reader = reader
        self._lake = lake
        self._parts = parts
        self._executor = executor
        self._replayer: Replayer | None = None
        self._crew = parts  # until it begins

    def work(self) -> Iterator[int]:
        """Do all tasks that are not done, stage by stage; yields how many requests each settled, beginning with those before."""
        with self._taking_over() as taken:
            self._begin(taken)
            inputs = [JudgeInputs(number, tuple(pieces)) for number, pieces in sorted(taken.inputs.pieces.items())]
            yield from self._stage(kept_tasks(taken.covered))
            yield from self._stage(inputs)
            yield from self._read_events(taken, [task.number for task in inputs if task.is_left(self._parts)])
        _tidy(taken)

    def close(self) -> None:
        """Give back what this process holds for the run, but for the reader: sessions that stay keep its database from others."""
        if self._replayer is not None:
            self._replayer.close_sessions()

    def keep(self, wants_history: Callable[[Store], bool] = lambda store: True) -> Iterator[int]:
        """Do only the tasks whose result is kept for later runs; yields after each. `wants_history` may leave out the requests that
        need the history of their objects."""
        with self._taking_over() as taken:
            if taken.store is not None and not wants_history(taken.store):
                taken = taken.without_history()
            self._begin(taken)
            yield from self._read_events(taken, ())
        _tidy(taken)

    def _begin(self, taken: TakenOver) -> None:
        """Leave no work of an earlier owner of the run, but for parts that are finished and would be made again equally."""
        forget_crews(self._parts)
        covered = (sorted(taken.covered.units), taken.covered.groups, taken.covered.touched.to_pylist())
        kept = (covered, sorted(taken.keeps), sorted(taken.inputs.pieces.items()))
        _keep_those_of(self._parts, (self._plan.run_id, self._reader.files.events, self._plan.part_events, kept))
        self._crew = new_crew(self._parts)
        write_touched(self._parts, taken.covered.touched)

    def _read_events(self, taken: TakenOver, left: Collection[int]) -> Iterator[int]:
        """Do the tasks for requests that are not kept, and keep them. `left` are classes whose kept inputs turned out not to do."""
        plan, files, partitions = self._plan, self._reader.files.events, partitions_of(self._plan)
        yield from self._stage(slice_tasks(taken, files, plan, left))
        yield from self._stage(look_back_tasks(self._parts, slices_of(files, Window(), plan.part_events)))
        keeping = Keeping(keeps=taken.keeps)
        # Before anything is kept, the process that leads the run would count objects while the others have nothing to do.
        counting = [CountObjects()] if taken.store and taken.keeps else []
        yield from self._stage([*counting, *bucket_tasks(self._parts, partitions, bucket_requests(plan), keeping)])
        keep_run(self._reader, taken, keeping_parts(self._parts))
        if taken.keeps_inputs and is_present(self._reader):
            used = [piece.path for pieces in taken.inputs.pieces.values() for piece in pieces]
            keep_inputs(self._lake, self._own_replayer().lanes, keeping_parts(self._parts), used)

    @contextmanager
    def _taking_over(self) -> Iterator[TakenOver]:
        """What the run takes over, and the time in which it does: another one may not remove the kept requests meanwhile."""
        facts = facts_of(self._reader)
        store = store_of(self._reader, facts) if self._executor.reaches_kept(self._reader.files) else None
        with in_use_if_there(store.folder) if store else nullcontext():
            yield self._taken_over(facts, store)

    def _taken_over(self, facts: LakeFacts, store: Store | None) -> TakenOver:
        plan, replayer = self._plan, self._own_replayer()
        classes = classes_of(facts)
        wanted, may_keep = units_of(plan, replayer.names, replayer.laneless)
        covered = store.covered(wanted) if store else Covered()
        # The verdicts of recorded policies may need the answer of each request, which kept inputs lack.
        takes_inputs = store is not None and plan.policies is not None and plan.window.until is None
        inputs = KeptInputs(self._lake, self._reader.files.events) if takes_inputs else None
        return TakenOver(
            store,
            covered,
            TakenInputs(inputs, classes, replayer.lanes),
            classes,
            replayer.names,
            may_keep if store else frozenset(),
            takes_inputs and plan.window == Window(),
        )

    def _stage(self, tasks: Sequence[Task]) -> Iterator[int]:
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
            job = Job(self._plan, self._reader, self._lake, self._parts, self._crew, self._make, self._own_replayer)
            with closing(self._executor.work(job, tasks)) as finished:
                yield from finished

    def _own_replayer(self) -> Replayer:
        if self._replayer is None:
            self._replayer = self._make(self._plan, self._reader)
        return self._replayer


def _tidy(taken: TakenOver) -> None:
    if taken.store and taken.keeps:
        forget_older(taken.store)


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


def _merge(plan: ReplayPlan, run: StoredRun, reader: LakeReader) -> RunSummary:
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
    with VerdictFile(run.unfinished) as whole:
        for table in merged.tables(run.run_id):
            whole.write(table)
    run.unfinished.replace(run.verdicts)
    return summarize(plan, merged, evaluated, not_evaluated, reader.connection)
