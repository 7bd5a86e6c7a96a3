"""Would-be denials by workload. A controller and a person who act for one Deployment, on Pods or on ReplicaSets, are one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.readiness.model import Identity, Owner

from .words import workload

# Clients that act for others.
MACHINES = (Identity.CONTROL_PLANE, Identity.NODE)


@dataclass(frozen=True, slots=True)
class Denied:
    """The would-be denials of one workload.

    `example` is the part with the most requests, and has the message. `clients` are who sent requests, people before controllers,
    each with its own example. `resources` are what the requests were on.
    """

    example: Owner
    requests: int
    first_ts: datetime
    last_ts: datetime
    clients: tuple[Owner, ...]
    resources: tuple[str, ...]
    label: str  # `Deployment/cart`, or `Deployment/cart (pods)` where no request was on the owner itself

    @property
    def users(self) -> str:
        """Who sent requests, people before controllers."""
        return ", ".join(client.user for client in self.clients)

    @property
    def namespace(self) -> str:
        """Its namespace; empty for one of the cluster."""
        return self.example.namespace

    @property
    def unit(self) -> str:
        """Its root owner, such as `Deployment/cart`."""
        return self.example.unit


def denied_workloads(owners: Iterable[Owner]) -> list[Denied]:
    """One row for each workload, most requests first."""
    by_unit: dict[tuple[str, str], list[Owner]] = {}
    for owner in owners:
        by_unit.setdefault((owner.namespace, owner.unit), []).append(owner)
    return sorted(map(_joined, by_unit.values()), key=lambda row: (-row.requests, row.namespace, row.unit))


def _joined(parts: Sequence[Owner]) -> Denied:
    most = sorted(parts, key=lambda owner: -owner.requests)
    clients: dict[str, Owner] = {}
    for owner in sorted(most, key=lambda owner: owner.identity in MACHINES):
        clients.setdefault(owner.user, owner)
    resources = tuple(dict.fromkeys(owner.resource for owner in most))
    is_itself = any(workload(owner) == owner.unit for owner in most)
    return Denied(
        most[0],
        sum(owner.requests for owner in parts),
        min(owner.first_ts for owner in parts),
        max(owner.last_ts for owner in parts),
        tuple(clients.values()),
        resources,
        most[0].unit if is_itself else f"{most[0].unit} ({', '.join(resources)})",
    )
