"""The way into force over many clusters: each cluster alone, those with the fewest workloads to change first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.errors import EvidenceError, LakeError
from ingest.lake import Lake
from queries import open_lake
from queries.lake import files_of

from ..readiness.rolling import Proved, plan_rollouts
from ..readiness.run import Note, StageWalk, ignored
from ..stages.stage import Asked, Stage
from .member import described, version_of
from .question import Question


@dataclass(frozen=True, slots=True)
class ClusterRollout:
    """The rollouts in one cluster, or why it cannot be judged (`apart`). `last_ts` is its newest event."""

    cluster: str
    apart: str
    found: tuple[Proved, ...] = ()
    last_ts: datetime | None = None

    @property
    def to_change(self) -> int:
        """How many workloads have to change before everything can be in force."""
        return len({(need.namespace, need.unit) for each in self.found for wave in each.rollout.waves for need in wave.needed})


def rollout_fleet(
    lake: Path,
    question: Question,
    judged: Sequence[tuple[Stage[Any, Any], Any]],
    clusters: Iterable[str],
    walk_in: Callable[[str], StageWalk],
    note: Note = ignored,
) -> list[ClusterRollout]:
    """The rollouts in each of some clusters: those that can begin with the fewest changes first, those apart last.

    `walk_in` gives the walk for a cluster, and `note` gets what Hindcast failed to judge. Raises LakeError.
    """
    found = []
    with closing(open_lake(lake)) as whole, closing(Lake.open(lake)) as opened:
        for name in clusters:
            files = files_of(opened, name)
            with closing(whole.narrowed(files)) as reader:
                about = described(reader, name, question)
            if about.apart:
                found.append(ClusterRollout(name, about.apart))
                continue
            asked = Asked(question.window, version_of(about), question.other_authorizers)
            try:
                planned = plan_rollouts(lake, judged, asked, question.rules, walk_in(name), note, files)
            except (EvidenceError, LakeError) as error:
                found.append(ClusterRollout(name, str(error)))
                continue
            found.append(ClusterRollout(name, "", tuple(planned), about.last_ts))
    return sorted(found, key=lambda each: (bool(each.apart), each.to_change, each.cluster))
