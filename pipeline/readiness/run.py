"""A finished run of a stage as a report sees it, and trials: runs that only try rules, and are removed after use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..runs import Defect, RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.stage import Asked, Stage
from .build import About

# How a caller walks the plan of a stage: with progress and with bounds.
StageWalk: TypeAlias = Callable[[Stage[Any, Any], RunPlan, RunKind], RunSummary]
# Is called with the rules that Hindcast failed to judge by.
Note: TypeAlias = Callable[[Sequence[Defect]], None]


def ignored(defects: Sequence[Defect]) -> None:
    """For callers who say nothing of defects: figures count them as unknown all the same."""


@dataclass(frozen=True)
class StageRun:
    """A finished run of a stage: its rules, the wishes for its plan, the plan, and the summary."""

    stage: Stage[Any, Any]
    rules: Any
    asked: Asked
    plan: RunPlan
    summary: RunSummary

    @property
    def about(self) -> About:
        """What its report is about."""
        return About(self.stage, self.plan.kubernetes_version, self.plan.window, self.summary, self.plan, self.rules)

    def verdicts(self, lake: Path) -> Path:
        """Its verdict table."""
        return RunStore(lake).run(self.summary.run_id).verdicts


def run_stage(
    lake: Path,
    stage: Stage[Any, Any],
    rules: Any,
    asked: Asked,
    walk: StageWalk,
    kind: RunKind,
    files: LakeFiles | None = None,
    reader: LakeReader | None = None,
) -> StageRun:
    """Plan and walk the run of some rules over a lake, or over these files of it, or those that a reader sees. Raises LakeError."""
    with nullcontext(reader) if reader is not None else closing(open_lake(lake, files=files)) as seen:
        plan: RunPlan = stage.plan(seen, rules, asked)
    return StageRun(stage, rules, asked, plan, walk(stage, plan, kind))


@contextmanager
def trial(lake: Path, stage: Stage[Any, Any], plan: RunPlan, walk: StageWalk, note: Note = ignored) -> Iterator[Path]:
    """The verdicts of a plan, while the context lasts.

    The run is removed afterwards, because a user could take it for a replay of what to put into force. A run that was complete
    before stays; an interrupted one is continued. `note` gets what Hindcast failed to judge.
    """

    def make() -> None:
        note(walk(stage, plan, RunKind.TRIAL).defects)

    with RunStore(lake).run(plan.run_id).tried(plan.to_json(), make) as verdicts:
        yield verdicts
