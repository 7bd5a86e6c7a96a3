"""Replays that only try policies: with exemptions applied, or to see what each takes out. Their runs are removed after use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from ...runs import Defect, RunKind, RunStore
from ...stages.validating.execute import run_replay
from ...stages.validating.plan import ReplayPlan

# Is called with the policies that a trial failed to judge.
Note: TypeAlias = Callable[[Sequence[Defect]], None]


def ignored(defects: Sequence[Defect]) -> None:
    """For callers who say nothing of defects: the figures of a trial count them as unknown all the same."""


@contextmanager
def trial_run(plan: ReplayPlan, lake: Path, workers: int = 1, note: Note = ignored) -> Iterator[Path]:
    """The verdicts of a plan, while the context lasts.

    The run is removed afterwards, because a user could take it for a replay of policies to put into force. A run that was complete
    before stays; an interrupted one is continued.
    """

    def make() -> None:
        note(run_replay(plan, lake, workers, kind=RunKind.TRIAL).defects)

    with RunStore(lake).run(plan.run_id).tried(plan.to_json(), make) as verdicts:
        yield verdicts
