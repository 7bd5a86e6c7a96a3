"""The readiness of one (policy, binding): the figures, and the verdict that the rules make of them.

A unit is a root owner: the top of the chain of controllers of the object in the request (Pod -> ReplicaSet -> Deployment), or the
object itself. Rates are computed on units and users, because requests of one unit are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from .change import Change
from .exempting.measures import Exemption, LaterTrial, RolloutStep

COUNTEREXAMPLES_MAX = 5  # of each policy, unless more are asked for


class Status(StrEnum):
    READY = "READY"
    READY_WITH_EXEMPTIONS = "READY WITH EXEMPTIONS"
    NOT_READY = "NOT READY"
    INSUFFICIENT_EVIDENCE = "INSUFFICIENT EVIDENCE"
    # Of a change, against the version before. Neither says that the policy may go to Deny.
    NO_NEW_DENIALS = "NO NEW DENIALS"
    NEW_DENIALS = "NEW DENIALS"


# The order in which readers should see verdicts: the most urgent first.
_URGENCY = (
    Status.NOT_READY,
    Status.NEW_DENIALS,
    Status.INSUFFICIENT_EVIDENCE,
    Status.READY_WITH_EXEMPTIONS,
    Status.NO_NEW_DENIALS,
    Status.READY,
)


class Identity(StrEnum):
    """What kind of client acted."""

    USER = "user"
    SERVICE_ACCOUNT = "service account"
    GITOPS = "GitOps tool"
    CONTROL_PLANE = "control plane"
    NODE = "node"


class CriticalKind(StrEnum):
    """The subjects whom a denial hurts most; a request counts under the first kind that fits, in this order."""

    SINK = "our own sink"
    BREAK_GLASS = "break-glass user"
    NODE = "node"
    CONTROLLER = "system controller"
    SYSTEM_NAMESPACE = "system namespace"
    NAMESPACE = "namespace traffic"
    FINALIZER = "finalizer traffic"


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
    users_judged: int = 0
    weekdays: int = 0  # distinct UTC weekdays with a judged request, at most 7
    # A release of a unit is a distinct set of container images in its judged requests. For an object without containers, it is a
    # distinct content other than metadata and status. A release cycle is a step from one release of a unit to its next.
    releases: int = 0
    release_cycles: int = 0
    resources: tuple[str, ...] = ()  # `deployments.apps`, `pods/exec`: the resources of the matched requests
    requests_excused: int = 0  # judged, and let pass by `failurePolicy: Ignore` because evaluation failed
    requests_over_cost: int = 0  # whose evaluation a CEL cost limit of the API server ended, under any failurePolicy

    @property
    def unknown_share(self) -> float:
        """Share of the matched requests that have no verdict."""
        return self.requests_unknown / self.requests_matched if self.requests_matched else 0.0

    @property
    def judged_share(self) -> float:
        """Share of the matched requests that have a verdict."""
        return self.requests_judged / self.requests_matched if self.requests_matched else 0.0


@dataclass(frozen=True, slots=True)
class Trend:
    """Denied units in the two halves of the matched time, and whether they differ by more than chance.

    `direction` is `rising` or `falling` where Fisher's exact test (two-sided) gives `p_value` below the rules' `trend_p_max`, else
    `steady`; `none` without a would-be denial.
    """

    direction: str = "none"
    earlier_judged: int = 0
    earlier_denied: int = 0
    later_judged: int = 0
    later_denied: int = 0
    p_value: float = 1.0


@dataclass(frozen=True, slots=True)
class FailedExpression:
    """An expression whose errors deny requests under failurePolicy Fail, with the error; None: a match condition or the like.

    Or a validation whose messageExpression has no result to use, with the reason.
    """

    expression_index: int | None
    message: str
    requests: int


@dataclass(frozen=True, slots=True)
class Denials:
    """The would-be denials. `days_clean` runs from the last would-be denial to the last matched request.

    `requests_failed` of them are made by errors of expressions alone: none was false.
    `unit_rate_upper` and `user_rate_upper` are one-sided upper bounds, at the rules' confidence, on the share of units and of users
    that would meet a denial.
    """

    requests: int = 0
    units: int = 0
    users: int = 0
    namespaces: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    days_clean: float = 0.0
    unit_rate_upper: float = 1.0
    user_rate_upper: float = 1.0
    requests_clean: int = 0  # judged since the last would-be denial
    units_clean: int = 0
    trend: Trend = Trend()
    requests_failed: int = 0


@dataclass(frozen=True, slots=True)
class ResourceAgreement:
    """Recorded outcomes of one policy on one resource, and how many of them the replay of the bound policies reproduces."""

    policy: str
    resource: str
    compared: int
    agreed: int
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How often the replay of the policies bound at the time agrees with the log's record, on this policy's resources.

    `compared` and `agreed` count the recorded outcomes of every policy that was bound to a resource of this one; `own_compared` and
    `own_agreed` those of the policy of this name alone.
    """

    compared: int = 0
    agreed: int = 0
    own_compared: int = 0
    own_agreed: int = 0
    unknown: int = 0  # recorded outcomes whose replay is unknown
    by_resource: tuple[ResourceAgreement, ...] = ()
    is_compared: bool = True  # False where the comparison with the record was skipped

    @property
    def agreement(self) -> float | None:
        """The share agreed; None if no outcome was compared: fidelity is then unknown, not perfect."""
        return self.agreed / self.compared if self.compared else None

    @property
    def own_agreement(self) -> float | None:
        """The share agreed for the policy of this name alone; None if the log recorded nothing of it."""
        return self.own_agreed / self.own_compared if self.own_compared else None


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
    chain: tuple[str, ...] = ()  # `Pod/web-x`, `ReplicaSet/web-5d`, `Deployment/web`: from the object of the example to its root
    team: str = ""  # value of the first team label that the object, its root or its namespace carries
    team_source: str = ""  # where the label was found, as `Deployment/web: team`
    identity: Identity = Identity.USER
    tool: str = ""  # the GitOps tool's name, and
    tool_source: str = ""  # the evidence for it: user, userAgent, managedFields or label
    user_agent: str = ""
    difference: str = ""  # the smallest change that makes the example pass; empty where it was not computed
    expression_index: int | None = None  # the policy's validation that denied the example; None: no single one


@dataclass(frozen=True, slots=True)
class CriticalSubject:
    """Matched requests of one subject whose denial does more harm than others."""

    kind: CriticalKind
    subject: str  # a user name, or a namespace
    requests: int
    denied: int
    unknown: int
    first_ts: datetime
    last_ts: datetime
    message: str = ""
    audit_id: str = ""


@dataclass(frozen=True, slots=True)
class LatentViolation:
    """An object that exists, was not written in the window, and would be denied, or cannot be judged, if it were written again."""

    namespace: str
    resource: str
    name: str
    unit: str
    assumed: str  # the request that was assumed, in words
    outcome: str  # `deny` or `unknown`
    message: str  # of the denial, or the missing evidence
    source: str  # where the version that was judged was recorded
    version_ts: datetime
    evidence: str
    notes: tuple[str, ...] = ()  # how the real request may differ from the assumed one
    fate: str = ""  # against a version before: see change.Fate


@dataclass(frozen=True, slots=True)
class TemplateProjection:
    """A pod template that exists and whose next Pod would be denied, or cannot be judged. The owner itself may pass today."""

    namespace: str
    owner: str  # `Deployment/web`
    resource: str
    user: str  # of the controller that would create the Pod
    outcome: str
    message: str
    source: str
    version_ts: datetime
    owner_passes: bool | None  # whether writing the owner itself passes; None: the policy does not match it, or it is unknown
    evidence: str = "inferred"
    notes: tuple[str, ...] = ()  # additions that controllers, defaulting and mutating admission may make
    fate: str = ""  # against a version before: see change.Fate


@dataclass(frozen=True, slots=True)
class Latent:
    """Existing objects that were not written in the window. The lists hold as many as a report shows; the counts are whole."""

    objects: int = 0
    objects_denied: int = 0
    objects_unknown: int = 0
    templates: int = 0
    templates_denied: int = 0
    templates_unknown: int = 0
    violations: tuple[LatentViolation, ...] = ()
    projections: tuple[TemplateProjection, ...] = ()
    not_looked_at: int = 0  # objects beyond the number that is judged
    is_assessed: bool = False  # False: objects were not judged, so zeros mean nothing
    fates: Mapping[str, int] = field(default_factory=dict)  # against a version before: would-be denials by change.Fate


@dataclass(frozen=True, slots=True)
class HiddenDenial:
    """Requests that this policy would have denied, but another policy or webhook denied first, so that the record lacks it."""

    denier: str  # as in the view `denials`: vap, webhook, quota ...
    name: str  # of that policy or webhook
    requests: int
    units: int
    first_ts: datetime
    last_ts: datetime
    message: str
    audit_id: str


@dataclass(frozen=True, slots=True)
class Counterexample:
    """One recorded request that would be denied: `object` is the part that the denial depends on, without credentials."""

    ts: datetime
    cluster: str
    audit_id: str
    user: str
    verb: str
    namespace: str
    resource: str
    name: str
    message: str
    object: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayCount:
    """Matched and would-be denied requests of one UTC day."""

    day: date
    matched: int
    denied: int
    unknown: int


@dataclass(frozen=True, slots=True)
class NamespaceCount:
    """Matched and would-be denied requests in one namespace; empty for cluster-scoped objects."""

    namespace: str
    matched: int
    denied: int
    unknown: int
    denied_units: int = 0


@dataclass(frozen=True, slots=True)
class PolicyReadiness:
    """All figures needed to check the verdict on one (policy, binding); binding is None for a policy tried without one.

    In another `stage` than validating, `policy` is what that stage judges by: see pipeline/runs/verdict.py.
    """

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
    critical: tuple[CriticalSubject, ...] = ()
    latent: Latent = Latent()
    hidden: tuple[HiddenDenial, ...] = ()
    namespaces: tuple[NamespaceCount, ...] = ()
    owners_total: int = 0  # `owners` lists no more than a report shows
    exemptions: tuple[Exemption, ...] = ()
    rollout: tuple[RolloutStep, ...] = ()
    counterexamples: tuple[Counterexample, ...] = ()
    later: LaterTrial | None = None  # of the exemptions; None if the report did not look for them
    change: Change | None = None  # against a version before; then `status` is the verdict on the change
    stage: str = "validating"
    failed: tuple[FailedExpression, ...] = ()  # the errors of expressions that deny, the most frequent ones
    silent: tuple[FailedExpression, ...] = ()  # why messageExpressions of denials have no result to use, the most frequent reasons
    objections: tuple[str, ...] = ()  # what makes it NOT READY apart from denials, as its stage says it; `reasons` has them, too


def urgency(entry: PolicyReadiness) -> tuple[int, int, str, str]:
    """The order of policies wherever they are listed: the worst verdict first, then most denials, then by name."""
    return _URGENCY.index(entry.status), -entry.denials.requests, entry.policy, entry.binding or ""
