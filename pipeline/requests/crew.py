"""Leads a run whose requests are judged by their records: its tasks, one list after the other, and what it takes over and keeps.

See pipeline/runs/running.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from queries import LakeReader

from ..runs.executors import Executor, Make
from ..runs.kinds import in_use_if_there
from ..runs.running import Crew
from ..runs.window import Window
from .keeping import TakenOver, classes_of, forget_older, is_present, keep_run, store_of, units_of
from .kept.facts import LakeFacts, facts_of
from .kept.inputs import KeptInputs
from .kept.records import Covered, Keeping, KeptGoneError, Store
from .kept_inputs import TakenInputs, keep_inputs
from .plan import RecordsPlan
from .slices import bucket_requests, partitions_of, slices_of
from .tasks import CountObjects, JudgeInputs, bucket_tasks, keeping_parts, kept_tasks, look_back_tasks, slice_tasks, write_touched
from .worker import Replayer

# So often a run begins with the kept requests that are left, after others were removed while it read them.
TRIES = 5


def parts_made(
    plan: RecordsPlan, reader: LakeReader, lake: Path, parts: Path, executor: Executor, make: Make = Replayer
) -> Iterator[int]:
    """Make the missing parts of a run; yields how many requests each settled. `make` makes its workers.

    If kept requests are removed meanwhile, it begins again with those that are left.
    """
    for tries_left in reversed(range(TRIES)):
        done = 0
        try:
            with closing(RecordsCrew(plan, reader, lake, parts, executor, make)) as crew:
                for settled in crew.work():
                    done += settled
                    yield settled
                return
        except KeptGoneError:
            if not tries_left:
                raise
            yield -done


class RecordsCrew(Crew):
    """Leads a run by records: lists its tasks stage by stage, and keeps for later runs what no judge decides."""

    def __init__(
        self, plan: RecordsPlan, reader: LakeReader, lake: Path, parts: Path, executor: Executor, make: Make = Replayer
    ) -> None:
        """See Crew."""
        super().__init__(plan, reader, lake, parts, executor, make)
        self._records = plan

    def work(self) -> Iterator[int]:
        """Do all tasks that are not done, stage by stage; yields how many requests each settled, beginning with those before."""
        with self._taking_over() as taken:
            self._begin(taken)
            inputs = [JudgeInputs(number, tuple(pieces)) for number, pieces in sorted(taken.inputs.pieces.items())]
            yield from self.do(kept_tasks(taken.covered))
            yield from self.do(inputs)
            yield from self._read_events(taken, [task.number for task in inputs if task.is_left(self._parts)])
        _tidy(taken)

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
        covered = (sorted(taken.covered.units), taken.covered.groups, taken.covered.touched.to_pylist())
        kept = (covered, sorted(taken.keeps), sorted(taken.inputs.pieces.items()))
        self.begin((self._plan.run_id, self._reader.files.events, self._records.part_events, kept))
        write_touched(self._parts, taken.covered.touched)

    def _read_events(self, taken: TakenOver, left: Collection[int]) -> Iterator[int]:
        """Do the tasks for requests that are not kept, and keep them. `left` are classes whose kept inputs turned out not to do."""
        plan, files, partitions = self._records, self._reader.files.events, partitions_of(self._records)
        yield from self.do(slice_tasks(taken, files, plan, left))
        yield from self.do(look_back_tasks(self._parts, slices_of(files, Window(), plan.part_events)))
        keeping = Keeping(keeps=taken.keeps)
        # Before anything is kept, the process that leads the run would count objects while the others have nothing to do.
        counting = [CountObjects()] if taken.store and taken.keeps else []
        yield from self.do([*counting, *bucket_tasks(self._parts, partitions, bucket_requests(plan), keeping)])
        keep_run(self._reader, taken, keeping_parts(self._parts))
        if taken.keeps_inputs and is_present(self._reader):
            used = [piece.path for pieces in taken.inputs.pieces.values() for piece in pieces]
            keep_inputs(self._lake, self.own().lanes, keeping_parts(self._parts), used)

    @contextmanager
    def _taking_over(self) -> Iterator[TakenOver]:
        """What the run takes over, and the time in which it does: another one may not remove the kept requests meanwhile."""
        facts = facts_of(self._reader)
        store = store_of(self._reader, facts, self._records.keeps) if self._executor.reaches_kept(self._reader.files) else None
        with in_use_if_there(store.folder) if store else nullcontext():
            yield self._taken_over(facts, store)

    def _taken_over(self, facts: LakeFacts, store: Store | None) -> TakenOver:
        plan, replayer = self._records, self.own()
        classes = classes_of(facts)
        wanted, may_keep = units_of(plan, replayer.names, replayer.laneless)
        covered = store.covered(wanted) if store else Covered()
        takes_inputs = store is not None and not plan.needs_answers and plan.window.until is None
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


def _tidy(taken: TakenOver) -> None:
    if taken.store and taken.keeps:
        forget_older(taken.store)
