"""Replays of policies that nobody has: with exemptions applied, or without one of them. They answer one question and are gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..replay import ReplayPlan, run_replay, runs_folder
from ..replay.kinds import RunKind


@contextmanager
def trial_run(plan: ReplayPlan, lake: Path, workers: int = 1) -> Iterator[Path]:
    """The verdicts of a plan, while the context lasts.

    Among the runs of a lake it would be taken for what somebody wants to put into force. One that was there before stays there;
    one that was interrupted is gone on with.
    """
    folder = runs_folder(lake) / plan.run_id
    is_ours = not (folder / "summary.json").exists()
    try:
        run_replay(plan, lake, workers, kind=RunKind.TRIAL)
        yield folder / "verdicts.parquet"
    finally:
        if is_ours:
            shutil.rmtree(folder, ignore_errors=True)
