"""Runs of stages whose judges take the road, with all that it keeps for later runs: see pipeline/requests/judge.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from queries import LakeReader

from ..replay.crew import parts_made
from ..replay.worker import AttemptReplayer
from ..requests.plan import RecordsPlan
from ..runs import RunKind, RunSummary
from ..runs.executors import Executor
from ..runs.local import LocalProcesses
from ..runs.running import Progress, make_run
from .grouped import GroupedPlan, PlannedStage

RulesT = TypeVar("RulesT")


@dataclass(frozen=True, kw_only=True)
class AttemptsPlan(GroupedPlan[RulesT], RecordsPlan):
    """The plan of a stage that comes before validating admission, whose judge is an AttemptJudge."""


class AttemptsStage(PlannedStage[RulesT]):
    """The parts of such a stage that differ from stage to stage; it implements `run` of stage.Stage."""

    def run(
        self,
        plan: AttemptsPlan[RulesT],
        lake: Path,
        workers: int = 1,
        progress: Progress | None = None,
        kind: RunKind = RunKind.REPLAY,
        executor: Executor | None = None,
    ) -> RunSummary:
        """See stage.Stage."""
        chosen = executor or LocalProcesses(workers)

        def parts(reader: LakeReader, folder: Path) -> Iterator[int]:
            return parts_made(plan, reader, lake, folder, chosen, AttemptReplayer)

        doubts = self.doubts(plan, lake, workers, executor)
        return make_run(plan, lake, kind, parts, progress, 1, doubts)
