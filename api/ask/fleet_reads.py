"""The questions of the read API and the pages to reports on fleets, as `hindcast fleet readiness` kept them in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ingest.errors import HindcastError
from pipeline.fleet import FleetReport
from pipeline.fleet.fleet import clusters_of
from pipeline.fleet.store import FleetStore
from pipeline.report.fleet import fleet_answer
from pipeline.runs import RunStore

from ..errors import NotFoundError
from .asking import Asker


@dataclass(frozen=True, slots=True)
class Fleet:
    """One kept report in a line. `ready` of `clusters` clusters are ready for every manifest; `apart` of them cannot be judged.

    `begin_with` is the cluster to enforce in first; empty if none fits.
    """

    fleet_id: str
    asked_ts: datetime | None
    answer: str
    manifests: Sequence[str]
    clusters: int
    ready: int
    apart: int
    begin_with: str


def fleets(lake: Path) -> list[Fleet]:
    """The last report of every question to the fleet, the newest first."""
    return [_line(report) for report in FleetStore(lake).reports()]


def fleet(lake: Path, fleet_id: str) -> FleetReport:
    """One kept report. Raises NotFoundError."""
    found = FleetStore(lake).report(fleet_id)
    if found is None:
        raise NotFoundError(f"there is no report on a fleet {fleet_id!r}", "/fleets lists the reports of this lake")
    return found


def kept_runs(lake: Path, report: FleetReport) -> frozenset[str]:
    """The replays of a report that are still in the lake."""
    names = {cell.run_id for each in (*report.clusters, *report.apart) for cell in each.cells}
    return frozenset(name for name in names if RunStore(lake).run(name).verdicts.exists())


def has_fleets(asker: Asker) -> bool:
    """Whether the lake has a report on a fleet, or more than one cluster. A lake that cannot be read has neither."""
    with suppress(HindcastError, OSError):
        return FleetStore(asker.lake).has_reports or len(lake_clusters(asker)) > 1
    return False


def lake_clusters(asker: Asker) -> tuple[str, ...]:
    """The clusters of the lake by name. Raises LakeError."""
    return _clusters(asker.lake, asker.files)


@lru_cache(maxsize=2)
def _clusters(lake: Path, files: object) -> tuple[str, ...]:  # the answer holds for one state of the files
    return tuple(clusters_of(lake))


def _line(report: FleetReport) -> Fleet:
    return Fleet(
        fleet_id=report.fleet_id,
        asked_ts=report.asked_ts,
        answer=fleet_answer(report),
        manifests=tuple(each.policy for each in report.policies),
        clusters=report.clusters_total,
        ready=report.clusters_ready,
        apart=len(report.apart),
        begin_with=report.start.cluster,
    )
