"""Removes runs. A replay can be repeated, so a run is only a result that takes room and a line in lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipeline.fleet.store import FleetStore
from pipeline.runs import RunStore

from ..errors import InUseError
from ..stored_runs import Run, run, runs


@dataclass(frozen=True, slots=True)
class Removed:
    """A removed run, and the bytes of its files."""

    run_id: str
    kind: str
    policies: tuple[str, ...]
    bytes: int


def remove_runs(lake: Path, run_ids: Sequence[str]) -> tuple[list[Removed], list[str]]:
    """Remove runs, and the reports on a fleet whose last run is gone.

        Returns the removed runs, and the runs that stay because a replay or a report uses them.
    Raises NotFoundError before anything is removed.
    """
    found = [run(lake, run_id) for run_id in dict.fromkeys(run_ids)]
    done = [(each.run_id, _remove(lake, each)) for each in found]
    FleetStore(lake).forget_without_runs()
    return [removed for _, removed in done if removed], [run_id for run_id, removed in done if removed is None]


def in_use_error(run_ids: Sequence[str]) -> InUseError:
    """The error that names the runs that stay."""
    return InUseError(f"in use: {', '.join(run_ids)}", "wait for the replay or the report that uses it, or cancel it")


def older_than(lake: Path, moment: datetime) -> list[str]:
    """The runs that were last requested before some moment, and that no person wants kept."""
    return [each.run_id for each in runs(lake) if each.asked_ts < moment and not each.is_kept]


def _remove(lake: Path, found: Run) -> Removed | None:
    size = RunStore(lake).run(found.run_id).remove()
    return None if size is None else Removed(found.run_id, found.kind, found.policies, size)
