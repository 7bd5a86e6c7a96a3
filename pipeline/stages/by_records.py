"""Runs of stages whose judges take the road, with all that it keeps for later runs: see pipeline/requests/judge.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from queries import LakeReader

from ..requests.crew import parts_made
from ..requests.plan import RecordsPlan
from ..requests.worker import AttemptReplayer
from ..runs.executors import Executor
from .grouped import GroupedPlan, PlannedStage

RulesT = TypeVar("RulesT")


@dataclass(frozen=True, kw_only=True)
class AttemptsPlan(GroupedPlan[RulesT], RecordsPlan):
    """The plan of a stage that comes before validating admission, whose judge is an AttemptJudge."""


class AttemptsStage(PlannedStage[RulesT]):
    """Such a stage."""

    threads = 1

    def parts(self, plan: AttemptsPlan[RulesT], lake: Path, executor: Executor, reader: LakeReader, folder: Path) -> Iterator[int]:
        """See PlannedStage."""
        return parts_made(plan, reader, lake, folder, executor, AttemptReplayer)
