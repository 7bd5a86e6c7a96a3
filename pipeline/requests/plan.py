"""The plan of a run whose requests are judged by their records: which ones it reads, and who judges them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from queries import LakeReader

from ..history.in_force import CHANGE_DELAY
from ..history.world import LogHistory
from ..runs.executors import PART_EVENTS
from ..runs.plan import RunPlan
from .classes import RequestClass
from .judge import RecordJudge


@dataclass(frozen=True, kw_only=True)
class RecordsPlan(RunPlan):
    """The plan of such a run."""

    classes: tuple[RequestClass, ...]
    # The audit IDs of the requests whose verdicts are wanted; empty: of all. Verdicts on others may lack in the run.
    wanted: tuple[str, ...] = field(default=(), repr=False)
    # How many events a worker reads at a time. It changes no verdict, so the run's name does not depend on it.
    part_events: int = field(default=PART_EVENTS, compare=False, repr=False)

    def judge(self, reader: LakeReader) -> tuple[LogHistory, RecordJudge[Any]]:
        """What judges the requests, with the history of the cluster that it needs. A reader of the lake sees all of its events."""
        raise NotImplementedError

    @property
    def judges(self) -> bool:
        """Whether it judges at all. Otherwise requests are only read, to keep what they hold for the lanes of the judge."""
        return True

    @property
    def keeps(self) -> Sequence[str]:
        """What it keeps of requests that need the history of their objects: a name, and all else that the rows follow from.

        Admission requests follow from the lake and the code of the history alone, so that all plans of policies share them.
        """
        return ("admissions",)

    @property
    def needs_answers(self) -> bool:
        """Whether a verdict may need the answer of its own request, which kept inputs lack."""
        return False

    @property
    def delays(self) -> Collection[timedelta]:
        """The times after its write in which a recorded rule may not be in force yet."""
        return (CHANGE_DELAY,)
