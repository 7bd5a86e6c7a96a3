"""What a report on a fleet says: the verdict on each manifest in each cluster, the clusters apart, and what differs between them.

Bounds, rates and agreement are those of one cluster: requests of one cluster are not a sample of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.readiness.model import Status
from pipeline.readiness.rules import ReadinessRules

MODEL_VERSION = 1


@dataclass(frozen=True, slots=True)
class FleetCell:
    """The verdict on one manifest (with its binding) in one cluster, with the figures of that cluster alone.

    `agreement` is None if nothing was compared with the record. `run_id` names the replay.
    """

    policy: str
    binding: str | None
    stage: str
    status: Status
    reasons: tuple[str, ...]
    run_id: str
    requests_matched: int = 0
    requests_judged: int = 0
    requests_denied: int = 0
    requests_unknown: int = 0
    units_judged: int = 0
    units_denied: int = 0
    days_span: float = 0.0
    unit_rate_upper: float = 1.0
    agreement: float | None = None
    exemptions: int = 0


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """One cluster. `apart` says why it is not judged at all; it is empty if it is judged.

    `uid` is that of its namespace kube-system, its identity; empty if the lake does not show it. `minors` are the Kubernetes
    minors that its API servers said they are, and `kubernetes_version` is that by which it was judged. `mix` has the share of each
    resource and operation among its matched writes.
    """

    cluster: str
    apart: str = ""
    uid: str = ""
    kubernetes_version: str = ""
    minors: tuple[str, ...] = ()
    events: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    cells: tuple[FleetCell, ...] = ()
    caveats: tuple[str, ...] = ()
    recorded: Mapping[str, str] = field(default_factory=dict)  # of recorded policies, bindings and params: digests by name
    mix: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetStart:
    """The cluster in which to enforce first, with the reason; `cluster` is empty if none fits. `others` are the next ones."""

    cluster: str
    reason: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """One manifest (with its binding) over all clusters: in how many it has which verdict, the worst cluster first.

    `clusters` counts all clusters of the fleet, also those that cannot be judged, which `unjudged` names.
    """

    policy: str
    binding: str | None
    stage: str
    clusters: int
    ready: int
    ready_with_exemptions: int
    not_ready: tuple[str, ...]
    unjudged: tuple[str, ...]
    start: FleetStart


@dataclass(frozen=True, slots=True)
class FleetVersion:
    """One version of a recorded object, and the clusters that have it; `digest` is `absent` for those without the object."""

    digest: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetDifference:
    """A policy, binding or param that clusters have recorded in different versions, or that only some have. The largest group
    comes first."""

    kind: str
    name: str
    versions: tuple[FleetVersion, ...]


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The report on a fleet. `clusters` are the judged ones, the worst first; `apart` are those that cannot be judged.

    A cluster is apart if it is not judged at all, or if no manifest could be judged in it.
    """

    title: str
    fleet_id: str
    asked_ts: datetime | None
    rules: ReadinessRules
    policies: tuple[FleetPolicy, ...]
    clusters: tuple[FleetCluster, ...]
    apart: tuple[FleetCluster, ...]
    start: FleetStart
    differences: tuple[FleetDifference, ...]
    caveats: tuple[str, ...]

    @property
    def clusters_total(self) -> int:
        """The clusters of the fleet, judged or not."""
        return len(self.clusters) + len(self.apart)

    @property
    def clusters_ready(self) -> int:
        """The clusters in which every manifest is ready, without exemptions."""
        return sum(all(cell.status is Status.READY for cell in each.cells) for each in self.clusters if each.cells)
