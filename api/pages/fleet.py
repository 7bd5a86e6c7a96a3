"""The pages of a fleet: the list of kept reports, and one report with its matrix of clusters and manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ingest.counted import counted
from pipeline.fleet.model import FleetCell, FleetCluster, FleetDifference, FleetPolicy, FleetReport, FleetVersion
from pipeline.readiness.model import Status
from pipeline.readiness.words import percent
from pipeline.report.fleet import first_reason, fleet_answer, matrix, ready_in

from ..ask.fleet_reads import Fleet
from .overview import policy_address
from .tables import Asked, Column, Table, table

_SHOWN = 20
# The sign of each verdict in the matrix, with the class of its colour. Each sign differs, because a colour alone says nothing.
SIGNS: Mapping[Status, tuple[str, str]] = {
    Status.READY: ("✓", "good"),
    Status.READY_WITH_EXEMPTIONS: ("e", "good"),
    Status.NOT_READY: ("✕", "bad"),
    Status.INSUFFICIENT_EVIDENCE: ("?", "unsure"),
}


@dataclass(frozen=True, slots=True)
class Square:
    """One place of the matrix. `href` leads to the manifest in that cluster; empty if its replay was removed."""

    sign: str
    tone: str
    status: str
    words: str
    href: str


class MatrixRow(NamedTuple):
    """A judged cluster with a square for each manifest; None where the cluster has no verdict on it."""

    cluster: FleetCluster
    squares: list[Square | None]


class Figure(NamedTuple):
    """The figures of one manifest in one cluster."""

    cluster: str
    cell: FleetCell


class Apart(NamedTuple):
    """A cluster that cannot be judged, and why."""

    cluster: str
    why: str
    kubernetes_version: str
    events: int
    last_ts: datetime | None


class Version(NamedTuple):
    """One version of a recorded object, and the clusters that have it."""

    of: FleetDifference
    version: FleetVersion


_FLEETS: tuple[Column[Fleet], ...] = (
    Column("asked_ts", "Asked", lambda row: row.asked_ts, "time"),
    Column("manifests", "Manifests", lambda row: row.manifests, "text"),
    Column("ready", "Ready clusters", lambda row: row.ready, "n"),
    Column("clusters", "Clusters", lambda row: row.clusters, "n"),
    Column("apart", "Not judged", lambda row: row.apart, "n"),
    Column("begin_with", "Begin with", lambda row: row.begin_with),
    Column("fleet_id", "", lambda row: row.fleet_id),
)
_POLICIES: tuple[Column[FleetPolicy], ...] = (
    Column("policy", "Manifest", lambda row: row.policy, "name"),
    Column("ready", "Ready in", lambda row: row.ready, "n"),
    Column("ready_with_exemptions", "With exemptions", lambda row: row.ready_with_exemptions, "n"),
    Column("not_ready", "Not ready in, the worst first", lambda row: row.not_ready, "text"),
    Column("unjudged", "Not judged", lambda row: len(row.unjudged), "n"),
    Column("begin_with", "Begin with", lambda row: row.start.cluster or row.start.reason, "text"),
    Column("why", "", lambda row: row.start.reason),
    Column("binding", "", lambda row: row.binding),
    Column("stage", "", lambda row: row.stage),
)
_APART: tuple[Column[Apart], ...] = (
    Column("cluster", "Cluster", lambda row: row.cluster, "name"),
    Column("why", "Why it cannot be judged", lambda row: row.why, "wide"),
    Column("events", "Events", lambda row: row.events, "n"),
    Column("last_ts", "Last event", lambda row: row.last_ts, "time"),
)
_CLUSTERS: tuple[Column[FleetCluster], ...] = (
    Column("cluster", "Cluster", lambda row: row.cluster, "name"),
    Column("kubernetes_version", "Judged as", lambda row: row.kubernetes_version),
    Column("minors", "API servers", lambda row: row.minors),
    Column("events", "Events", lambda row: row.events, "n"),
    Column("first_ts", "First event", lambda row: row.first_ts, "time"),
    Column("last_ts", "Last event", lambda row: row.last_ts, "time"),
    Column("uid", "", lambda row: row.uid),
)
_FIGURES: tuple[Column[Figure], ...] = (
    Column("cluster", "Cluster", lambda row: row.cluster, "name"),
    Column("policy", "Manifest", lambda row: row.cell.policy, "name"),
    Column("status", "Verdict", lambda row: row.cell.status),
    Column("requests_judged", "Judged", lambda row: row.cell.requests_judged, "n"),
    Column("requests_denied", "Would deny", lambda row: row.cell.requests_denied, "n"),
    Column("requests_unknown", "Unknown", lambda row: row.cell.requests_unknown, "n"),
    Column("units_judged", "Workloads", lambda row: row.cell.units_judged, "n"),
    Column("units_denied", "Denied workloads", lambda row: row.cell.units_denied, "n"),
    Column("unit_rate_upper", "At most denied", lambda row: row.cell.unit_rate_upper, "n"),
    Column("days_span", "Days", lambda row: row.cell.days_span, "n"),
    Column("agreement", "Agreement", lambda row: row.cell.agreement, "n"),
    Column("run_id", "", lambda row: row.cell.run_id),
)
_DIFFERENCES: tuple[Column[Version], ...] = (
    Column("kind", "Kind", lambda row: row.of.kind),
    Column("name", "Object", lambda row: row.of.name, "name"),
    Column("version", "Version", lambda row: row.version.digest),
    Column("clusters", "Clusters", lambda row: row.version.clusters, "wide"),
)


def fleets_table(found: list[Fleet], asked: Asked) -> Table[Fleet]:
    """The kept reports, the newest first."""
    return table(asked, "fleets", "Reports on the fleet, the newest first", _FLEETS, found)


def fleet_view(report: FleetReport, runs: frozenset[str], asked: Asked) -> dict[str, Any]:
    """Everything that the page of one report shows. `runs` are the replays that are still in the lake."""
    rows = [
        MatrixRow(cluster, [_square(cell, runs) for cell in cells])
        for cluster, cells in matrix(report)
        if cluster not in report.apart
    ]
    caption = "Verdicts by cluster and manifest, the worst cluster first"
    figures = [Figure(each.cluster, cell) for each in (*report.clusters, *report.apart) for cell in each.cells]
    versions = [Version(each, version) for each in report.differences for version in each.versions]
    policies = "Each manifest over all clusters, the worst first"
    return {
        "report": report,
        "answer": fleet_answer(report),
        "signs": [(sign, tone, str(status)) for status, (sign, tone) in SIGNS.items()],
        "runs": runs,
        "ready_in": ready_in,
        "percent": percent,
        "policy_address": policy_address,
        "tables": {
            "matrix": table(asked, "matrix", caption, tuple(_matrix_columns(report)), rows),
            "policies": table(asked, "policies", policies, _POLICIES, report.policies),
            "apart": table(asked, "apart", "Clusters that cannot be judged", _APART, [_apart(each) for each in report.apart]),
            "differences": table(asked, "differences", "Recorded objects in different versions", _DIFFERENCES, versions, _SHOWN),
            "figures": table(asked, "figures", "Figures of each cluster alone", _FIGURES, figures, _SHOWN),
            "clusters": table(asked, "clusters", "Judged clusters, the worst first", _CLUSTERS, report.clusters, _SHOWN),
        },
    }


def _matrix_columns(report: FleetReport) -> Iterator[Column[MatrixRow]]:
    yield Column("cluster", "Cluster", lambda row: row.cluster.cluster, "subject")
    for number, each in enumerate(report.policies):
        yield Column(f"manifest-{number + 1}", each.policy, _status_at(number), "turned")


def _status_at(number: int) -> Any:
    def status(row: MatrixRow) -> str | None:
        square = row.squares[number]
        return square.status if square is not None else None

    return status


def _square(cell: FleetCell | None, runs: frozenset[str]) -> Square | None:
    if cell is None:
        return None
    sign, tone = SIGNS[cell.status]
    words = (
        f"{counted(cell.requests_judged, 'request')} judged, {cell.requests_denied:,} would be denied, "
        f"{cell.requests_unknown:,} unknown; "
        f"{cell.units_denied:,} of {counted(cell.units_judged, 'workload')} denied, at most {percent(cell.unit_rate_upper)} of all"
    )
    href = policy_address(cell.run_id, cell.policy, cell.binding) if cell.run_id in runs else ""
    return Square(sign, tone, str(cell.status), words, href)


def _apart(each: FleetCluster) -> Apart:
    return Apart(each.cluster, each.apart or first_reason(each.cells), each.kubernetes_version, each.events, each.last_ts)
