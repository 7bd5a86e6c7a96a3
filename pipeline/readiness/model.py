"""What readiness says of one (policy, binding): the figures, and the verdict that the rules make of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum


class Status(StrEnum):
    READY = "READY"
    NOT_READY = "NOT READY"
    INSUFFICIENT_EVIDENCE = "INSUFFICIENT EVIDENCE"


@dataclass(frozen=True, slots=True)
class Exposure:
    """The traffic that the policy was tried on. A unit is a root owner (a workload, or the object itself) in its namespace."""

    requests_matched: int = 0
    requests_judged: int = 0
    requests_unknown: int = 0
    units_judged: int = 0
    users: int = 0
    namespaces: int = 0
    days_span: float = 0.0
    days_active: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None

    @property
    def unknown_share(self) -> float:
        """Share of the matched requests that have no verdict."""
        return self.requests_unknown / self.requests_matched if self.requests_matched else 0.0


@dataclass(frozen=True, slots=True)
class Denials:
    """What would have been denied. `days_clean` runs from the last would-be denial to the last matched request."""

    requests: int = 0
    units: int = 0
    users: int = 0
    namespaces: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    days_clean: float = 0.0
    unit_rate_upper: float = 1.0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How often the replay of what was bound at the time agrees with what the log recorded of this policy."""

    compared: int = 0
    agreed: int = 0

    @property
    def agreement(self) -> float | None:
        """None where the log recorded nothing to compare with: then fidelity is not known, not perfect."""
        return self.agreed / self.compared if self.compared else None


@dataclass(frozen=True, slots=True)
class Owner:
    """Would-be denials of one unit by one acting identity, with one example."""

    namespace: str
    resource: str
    unit: str
    user: str
    requests: int
    first_ts: datetime
    last_ts: datetime
    message: str
    audit_id: str


@dataclass(frozen=True, slots=True)
class DayCount:
    """Matched and would-be denied requests of one UTC day."""

    day: date
    matched: int
    denied: int
    unknown: int


@dataclass(frozen=True, slots=True)
class PolicyReadiness:
    """Everything a reader needs to check the verdict on one (policy, binding); binding is None for a policy tried without one."""

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    status: Status
    reasons: tuple[str, ...]
    exposure: Exposure
    denials: Denials
    fidelity: Fidelity
    unknown_reasons: tuple[tuple[str, int], ...] = ()
    owners: tuple[Owner, ...] = ()
    days: tuple[DayCount, ...] = field(default_factory=tuple)
