"""One row of each view as a Python class. A test holds every field and type against DuckDB's DESCRIBE.

Null is None; times are aware and in UTC. Descriptions of the columns are in the views' own files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True, slots=True)
class Violation:
    """One policy failure of a request that the cluster recorded."""

    cluster: str
    audit_id: str
    ts: datetime
    policy: str
    binding: str
    message: str
    expression_index: int
    actions: list[str]
    enforced: bool
    admitted: bool | None
    verb: str
    api_group: str
    api_version: str
    resource: str
    subresource: str | None
    namespace: str | None
    name: str | None
    user_name: str
    impersonator: str | None
    user_agent: str | None
    code: int | None
    level: str
    stage: str
    flags: list[str]
    workload: str


@dataclass(frozen=True, slots=True)
class ViolationCount:
    """Recorded failures of one combination of the asked dimensions; the columns of the others are None."""

    policy: str | None
    binding: str | None
    message: str | None
    namespace: str | None
    user_name: str | None
    resource: str | None
    workload: str | None
    day: date | None
    cluster: str | None
    failures: int
    requests: int
    admitted: int
    users: int
    namespaces: int
    first_ts: datetime
    last_ts: datetime


@dataclass(frozen=True, slots=True)
class Denial:
    """One request that somebody refused on purpose."""

    cluster: str
    audit_id: str
    ts: datetime
    denier: str
    policy: str | None
    binding: str | None
    webhook: str | None
    message: str
    status_message: str | None
    status_reason: str | None
    code: int
    verb: str
    api_group: str | None
    api_version: str | None
    resource: str | None
    subresource: str | None
    namespace: str | None
    name: str | None
    user_name: str | None
    impersonator: str | None
    user_agent: str | None
    level: str
    stage: str
    recorded_failures: int


@dataclass(frozen=True, slots=True)
class AuditAnnotation:
    """One value that a policy's auditAnnotations left on a request."""

    cluster: str
    audit_id: str
    ts: datetime
    policy: str
    key: str
    value: str
    declared_by: str
    verb: str
    api_group: str
    api_version: str
    resource: str
    subresource: str | None
    namespace: str | None
    name: str | None
    user_name: str
    impersonator: str | None
    code: int | None
    outcome: str


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One whole object that a response carried."""

    cluster: str
    audit_id: str
    ts: datetime
    stage_ts: datetime
    position: int
    api_group: str
    api_version: str
    resource: str
    subresource: str | None
    kind: str
    namespace: str
    name: str | None
    uid: str | None
    resource_version: str | None
    verb: str
    writer: str
    user_agent: str | None
    dry_run: bool
    deleted: bool
    object: str
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """How many events of one kind there are, and which evidence they hold."""

    cluster: str
    api_group: str | None
    resource: str | None
    subresource: str | None
    verb: str
    level: str
    truncated: bool
    events: int
    with_request: int
    with_response: int
    with_object: int
    with_failures: int
    failures: int
    first_ts: datetime
    last_ts: datetime


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """One ValidatingAdmissionPolicy that the lake has seen by name."""

    cluster: str
    policy: str
    listed: bool
    written: bool
    failed: bool
    denied: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The events that one log file or the webhook brought, with their times."""

    cluster: str
    ingest_source: str
    source: str
    events: int
    stored: int
    first_ts: datetime
    last_ts: datetime
    last_ingest_ts: datetime


@dataclass(frozen=True, slots=True)
class Loss:
    """Missing or doubtful evidence of one kind, with its place; the kinds are in queries/ledger.py."""

    cluster: str
    kind: str
    count: int
    first_ts: datetime | None
    last_ts: datetime | None
    detail: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of the lake: `severity` is `fail` or `warn`; it holds when `rows` is 0. `columns` and `first` show some rows."""

    name: str
    severity: str
    meaning: str
    rows: int
    columns: tuple[str, ...]
    first: tuple[tuple[object, ...], ...]
