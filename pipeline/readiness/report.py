"""The report: everything that a renderer prints, computed before it is called. A renderer chooses layout, never numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..stages.over_time import OverTime
from .change import Change
from .model import PolicyReadiness, Status, urgency
from .rules import ReadinessRules

MODEL_VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """The outcomes that a cluster itself recorded of one (policy, binding) in the window; a cluster has its own."""

    policy: str
    binding: str
    failures: int
    denied_requests: int
    namespaces: int
    users: int
    first_ts: datetime
    last_ts: datetime
    cluster: str = ""


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
class RefusedFirst:
    """Requests that a policy of a stage would newly refuse, and no stage before it."""

    stage: str
    policy: str
    requests: int


@dataclass(frozen=True, slots=True)
class Together:
    """What the manifests of several stages do together; each request counts once.

    Of `requests` that some manifest is for, `refused` would newly be refused, by `first`. Of `unknown` others it is not known.
    """

    requests: int
    refused: int
    unknown: int
    first: tuple[RefusedFirst, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One readiness report over one lake. Its policies stand in the order of `urgency`, the worst first.

    It is about the run of one stage, `run_id`, or about one run of each stage that was asked (`runs`, by stage). `things` names
    the manifests, such as `policies` or `roles`. Each entry of `policies` is the decision about one of them. `over_time` has what
    other stages than validating count over the time of their run. `together` is there with runs of several stages.
    """

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
    things: str = "policies"
    runs: Mapping[str, str] = field(default_factory=dict)
    over_time: tuple[OverTime, ...] = ()
    together: Together | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", tuple(sorted(self.policies, key=urgency)))

    @property
    def all_ready(self) -> bool:
        """Whether every policy of the report may go to Deny."""
        return bool(self.policies) and all(policy.status is Status.READY for policy in self.policies)


def with_caveats(report: Report, sentences: Iterable[str]) -> Report:
    """A report that begins its caveats with these sentences."""
    return replace(report, caveats=tuple(dict.fromkeys((*sentences, *report.caveats))))


def joined(reports: Sequence[Report]) -> Report:
    """The reports on the runs of several stages over the same requests as one, in their order. Raises ValueError without any."""
    if not reports:
        raise ValueError("there is no report to join")
    first, *others = reports
    if not others:
        return first
    return replace(
        first,
        title="Readiness",
        things="manifests",
        policies=tuple(entry for report in reports for entry in report.policies),
        recorded=tuple(row for report in reports for row in report.recorded),
        caveats=tuple(dict.fromkeys(caveat for report in reports for caveat in report.caveats)),
        sources=tuple(source for report in reports for source in report.sources),
        removed=tuple(change for report in reports for change in report.removed),
        runs={stage: run_id for report in reports for stage, run_id in report.runs.items()},
        over_time=tuple(chart for report in reports for chart in report.over_time),
    )
