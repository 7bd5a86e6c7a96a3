"""The page of the way into force of a replay's manifests: the waves, what has to change first, and how to go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.manifests.writing import to_yaml
from pipeline.readiness.wave_files import check_command, way_back
from pipeline.stages.waves import Needed, Rollout, Wave

from ..stored_runs import Run
from .tables import Asked, Column, Table, table

# What the commands on the page call the folder of the files.
FOLDER = "waves"


@dataclass(frozen=True, slots=True)
class WaveView:
    """One wave: its manifests and its way back as texts, and the command that checks it against new traffic."""

    wave: Wave
    manifests: str
    back: str
    check: str
    places: str


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The waves of one judged thing. `first` can begin today; None where nothing can."""

    rollout: Rollout
    waves: tuple[WaveView, ...]

    @property
    def first(self) -> Wave | None:
        """See Rollout."""
        return self.rollout.first


@dataclass(frozen=True, slots=True)
class _Row:
    """A workload that has to change."""

    policy: str
    wave: int
    need: Needed


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("policy", "Of", lambda row: row.policy, "name"),
    Column("wave", "Wave", lambda row: row.wave, "n"),
    Column("namespace", "Namespace", lambda row: row.need.namespace, "name"),
    Column("workload", "Workload", lambda row: row.need.unit, "name"),
    Column("requests", "Requests", lambda row: row.need.requests, "n"),
    Column("user", "Last user", lambda row: row.need.user, "name"),
    Column("change", "Change", lambda row: row.need.change, "wide"),
    Column("example", "", lambda row: row.need.example),
)


def rollout_view(found: Iterable[Rollout], run: Run, newest: datetime | None, asked: Asked) -> Mapping[str, Any]:
    """What the page shows of the rollouts of a run. `newest` is the last event of the lake."""
    views = [RolloutView(each, tuple(_wave_view(each, wave, run, newest) for wave in each.waves)) for each in found]
    rows = [_Row(each.rollout.policy, wave.number, need) for each in views for wave in each.rollout.waves for need in wave.needed]
    needed: Table[_Row] = table(asked, "needed", "Workloads that have to change before their namespace can follow", _COLUMNS, rows)
    return {"run": run, "rollouts": views, "tables": {"needed": needed}}


def _wave_view(found: Rollout, wave: Wave, run: Run, newest: datetime | None) -> WaveView:
    return WaveView(
        wave,
        to_yaml([*wave.manifests]),
        way_back(wave),
        check_command(found, wave, FOLDER, run.until or newest),
        ", ".join(wave.namespaces) or "everything that it selects",
    )
