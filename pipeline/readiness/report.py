"""The report: everything that a renderer prints, computed before it is called. A renderer chooses layout, never numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .change import Change
from .model import PolicyReadiness, Status, urgency
from .rules import ReadinessRules

MODEL_VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """The outcomes that the cluster itself recorded of one (policy, binding) in the window."""

    policy: str
    binding: str
    failures: int
    denied_requests: int
    namespaces: int
    users: int
    first_ts: datetime
    last_ts: datetime


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """How many admission-relevant requests of one resource came with the bodies that a replay needs."""

    resource: str
    requests: int
    with_bodies: int
    truncated: int


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The file and line where a policy was written, and the lines of its validations' expressions, in their order."""

    policy: str
    file: str
    line: int
    validation_lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """The query that recomputes one figure or list of a report: DuckDB's SQL over the lake's views and the table `outcomes`.

    `of` is the path in the report's data; `file` names the query in `pipeline/readiness/sql/` if it has a file there.
    """

    label: str
    of: str
    sql: str
    file: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One readiness report over one lake and one replay run. Its policies stand in the order of `urgency`, the worst first."""

    title: str
    clusters: tuple[str, ...]
    first_ts: datetime | None
    last_ts: datetime | None
    events: int
    requests: int
    run_id: str
    kubernetes_version: str
    rules: ReadinessRules
    policies: tuple[PolicyReadiness, ...]
    recorded: tuple[RecordedPolicy, ...]
    evidence: tuple[EvidenceRow, ...]
    caveats: tuple[str, ...]
    queries: tuple[Query, ...]
    sources: tuple[PolicySource, ...] = ()
    removed: tuple[Change, ...] = ()  # against a version before: its (policy, binding) pairs that the new version does not have

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", tuple(sorted(self.policies, key=urgency)))

    @property
    def all_ready(self) -> bool:
        """Whether every policy of the report may go to Deny."""
        return bool(self.policies) and all(policy.status is Status.READY for policy in self.policies)
