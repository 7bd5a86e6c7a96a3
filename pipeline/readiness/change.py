"""The effect of a policy change: denials that are new, kept or gone, counted by the denials that each version enforces.

A version enforces a denial if its binding's actions hold Deny, or if a configuration error denies regardless of the actions.
A version that only warns or audits does not deny. So the step from Audit to Deny makes new denials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Fate(StrEnum):
    """How one would-be denial differs between the two versions."""

    NEW = "new"  # the new version denies it, the base did not
    UNSURE = "perhaps new"  # the new version denies it, and whether the base did is unknown
    KEPT = "kept"  # both deny it
    GONE = "gone"  # only the base denied it
    UNENFORCED = "not enforced"  # the new version would deny it, but its binding only warns or audits
    UNKNOWN = "unknown"  # the new version could not be judged, and the base is not known to have denied it


@dataclass(frozen=True, slots=True)
class FateCount:
    """Requests of one fate, and the distinct workloads among them. A workload may have requests of several fates."""

    requests: int = 0
    units: int = 0


@dataclass(frozen=True, slots=True)
class ChangedUnit:
    """Requests of one workload by one user that share a fate, with one example."""

    fate: Fate
    namespace: str
    resource: str
    unit: str
    user: str
    requests: int
    first_ts: datetime
    last_ts: datetime
    message: str
    audit_id: str
    expression_index: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One (policy, binding) against the version before of the same policy, all bindings of that version taken together.

    `base` is the name of that version's policy, or None if it has no such policy. `units` lists at most as many as a report shows;
    the counts are whole. `latent_*` count existing objects and pod templates that the window did not try and the new version would
    deny.
    """

    policy: str
    binding: str | None
    base: str | None = None
    base_actions: tuple[str, ...] = ()  # of all bindings of the base
    renamed_from: str = ""  # a policy of the base that has the same spec and is gone: perhaps this one under another name
    is_enforced: bool = True  # whether the new binding's actions hold Deny; a policy without a binding counts as denying
    is_same: bool = False  # policy, bindings and given params are the same in both versions
    new: FateCount = FateCount()
    unsure: FateCount = FateCount()
    kept: FateCount = FateCount()
    gone: FateCount = FateCount()
    unenforced: FateCount = FateCount()
    unknown: FateCount = FateCount()
    unit_rate_upper: float = 1.0  # one-sided upper bound on the share of workloads that would meet a new denial
    critical_new: Mapping[str, int] = field(default_factory=dict)  # new denials by critical subject, in words
    over_cost_new: int = 0  # requests that a CEL cost limit ends under the new version, and did not end under the base
    latent_new: int = 0
    latent_unsure: int = 0
    latent_kept: int = 0
    units: tuple[ChangedUnit, ...] = ()

    def count(self, fate: Fate) -> FateCount:
        """The count of one fate."""
        return {
            Fate.NEW: self.new,
            Fate.UNSURE: self.unsure,
            Fate.KEPT: self.kept,
            Fate.GONE: self.gone,
            Fate.UNENFORCED: self.unenforced,
            Fate.UNKNOWN: self.unknown,
        }[fate]

    def units_of(self, *fates: Fate) -> tuple[ChangedUnit, ...]:
        """The listed workloads of some fates."""
        return tuple(unit for unit in self.units if unit.fate in fates)
