"""Measures against would-be denials: exemptions, and the steps to Deny."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any


class ExemptionKind(StrEnum):
    NAMESPACE_EXCLUSION = "namespace-exclusion"
    SELECTOR = "selector"
    MATCH_CONDITION = "match-condition"
    SUBJECT = "subject"


@dataclass(frozen=True, slots=True)
class Exemption:
    """One change of a policy or binding that takes requests out of it.

    `patch` is the fragment to merge into the object that `target` names, in its own field names; it holds all exemptions on that
    object and stands with the first of them. The counts cover every matched request that the exemption takes out, denied or not;
    `denied_*` counts those that would have been denied. `who` says who can use the exemption. `review_by` is a note: no cluster
    enforces it.
    """

    kind: ExemptionKind
    subject: str  # whom it exempts, in words: `namespace legacy`, `workload Deployment/web in prod`
    target: str  # `ValidatingAdmissionPolicyBinding/NAME` or `ValidatingAdmissionPolicy/NAME`
    patch: Mapping[str, Any] = field(default_factory=dict)
    hides_requests: int = 0
    hides_units: int = 0
    denied_requests: int = 0
    denied_units: int = 0
    review_by: date | None = None
    reason: str = ""
    who: str = ""

    @property
    def expires(self) -> date | None:
        """The former name of `review_by`."""
        return self.review_by


@dataclass(frozen=True, slots=True)
class LaterTrial:
    """Exemptions that were found in the earlier half of the time, tried on the later half.

    `workloads` are the root owners judged in the later half, `new_workloads` those of them that the policy did not match before.
    Denied workloads have a would-be denial that no exemption reaches. `new_rate_upper` is a one-sided upper bound at the rules'
    confidence. It bounds the chance that a new workload of the next period is denied in spite of the exemptions. It assumes
    that new workloads of the next period are like those of the later half.
    """

    exemptions: int = 0
    workloads: int = 0
    workloads_denied: int = 0
    new_workloads: int = 0
    new_workloads_denied: int = 0
    new_rate_upper: float = 1.0


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One step on the way to Deny: these actions, in these namespaces (empty: all that the binding selects).

    `manifest` is the ValidatingAdmissionPolicyBinding to apply for it.
    """

    actions: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    why: str = ""
    manifest: Mapping[str, Any] = field(default_factory=dict)
