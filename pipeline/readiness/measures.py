"""What can be done about would-be denials: exemptions, and the steps on the way to Deny."""

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
    object and stands with the first of them. What an exemption hides counts every matched request that it takes out, denied or not;
    `denied_*` those that would have been denied.
    """

    kind: ExemptionKind
    subject: str  # whom it exempts, in words: `namespace legacy`, `workload Deployment/web in prod`
    target: str  # `ValidatingAdmissionPolicyBinding/NAME` or `ValidatingAdmissionPolicy/NAME`
    patch: Mapping[str, Any] = field(default_factory=dict)
    hides_requests: int = 0
    hides_units: int = 0
    denied_requests: int = 0
    denied_units: int = 0
    expires: date | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One step on the way to Deny: these actions, in these namespaces (empty: all that the binding selects).

    `manifest` is the ValidatingAdmissionPolicyBinding to apply for it.
    """

    actions: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    why: str = ""
    manifest: Mapping[str, Any] = field(default_factory=dict)
