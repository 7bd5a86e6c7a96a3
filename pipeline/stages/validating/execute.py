"""The replay of policies as a run."""

from __future__ import annotations

from pathlib import Path

from ...requests.crew import parts_made
from ...runs import RunKind, RunSummary
from ...runs.executors import Executor
from ...runs.local import LocalProcesses
from ...runs.running import Doubts, Progress, make_run
from .plan import ReplayPlan


def run_replay(
    plan: ReplayPlan,
    lake_path: str | Path,
    workers: int = 1,
    progress: Progress | None = None,
    kind: RunKind | None = None,
    executor: Executor | None = None,
) -> RunSummary:
    """Evaluate a plan over the lake it was made for. The same plan gives the same bytes for any executor and number of workers.

    `executor` does the work; by default so many `workers` of this machine. See make_run.
    """
    lake, chosen = Path(lake_path), executor or LocalProcesses(workers)
    kind = kind or (RunKind.CALIBRATION if plan.policies is None else RunKind.REPLAY)
    doubts = _doubts(plan, lake, workers, executor)
    return make_run(plan, lake, kind, lambda reader, parts: parts_made(plan, reader, lake, parts, chosen), progress, 1, doubts)


def _doubts(plan: ReplayPlan, lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
    """The requests that mutating policies given with the policies change before these see them."""
    if not plan.mutating:
        return None
    # Imported late: mutation is heavy, and most folders have none.
    from ..first import doubts_of

    return doubts_of(plan.mutating, plan, lake, workers, executor, plan.policies)
