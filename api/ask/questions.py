"""The questions to each view: typed filters, and the order of its rows. A caller names values, never columns or SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field, StringConstraints

from ..asked_values import parse_time
from .cursors import Key

LIMIT_MAX = 1_000
LIMIT_DEFAULT = 100
# Rows with bodies: one body may be a megabyte or more.
LARGE_LIMIT_MAX = 100
_VALUES_MAX = 50

Text = Annotated[str, StringConstraints(max_length=1_000)]
# Several values mean any of them; an empty value means rows without one, such as requests for cluster-scoped objects.
Names = Annotated[list[Text], Field(max_length=_VALUES_MAX)]
Code = Annotated[int, Field(ge=0, le=999)]
Moment = Annotated[str, StringConstraints(max_length=64)]


class Filters(BaseModel):
    """The filters on rows; a filter that is not given does not restrict."""

    # Field -> column, where they differ.
    columns: ClassVar[Mapping[str, str]] = {"user": "user_name"}

    def values(self) -> dict[str, list[object]]:
        """Column -> its allowed values; only for given filters."""
        found: dict[str, list[object]] = {}
        for name, value in self:
            if name in ("since", "until") or value is None or value == []:
                continue
            found[self.columns.get(name, name)] = list(value) if isinstance(value, list) else [value]
        return found

    def window(self) -> tuple[datetime | None, datetime | None]:
        """[since, until) in UTC. Raises InputError for an invalid time; spans such as `12h` count back from now."""
        now = datetime.now(UTC)
        return tuple(parse_time(name, getattr(self, name, None) or None, now) for name in ("since", "until"))  # type: ignore[return-value]


class ClusterFilters(Filters):
    """Rows of some clusters."""

    cluster: Names = Field(default_factory=list, description="the cluster's name, as its events were ingested")


class TimeFilters(ClusterFilters):
    """Rows of some time."""

    since: Moment | None = Field(default=None, description="received at or after: `30d`, `12h` (before now), or RFC 3339")
    until: Moment | None = Field(default=None, description="received before; same forms")


class RequestedObject(TimeFilters):
    """Rows about requests for some objects, by some users."""

    namespace: Names = Field(default_factory=list, description="empty: cluster-scoped objects")
    user: Names = Field(
        default_factory=list, description="the user, as recorded; effective one under impersonation except in events"
    )
    verb: Names = Field(default_factory=list, description="Kubernetes verb: create, update, patch, ...")
    api_group: Names = Field(default_factory=list, description="empty: the core group")
    resource: Names = Field(default_factory=list, description="plural, lower case: pods, deployments, ...")
    subresource: Names = Field(default_factory=list, description="status, scale, exec, ...; empty: the object itself")
    name: Names = Field(default_factory=list, description="the object's name")
    audit_id: Names = Field(default_factory=list, description="auditID of the request, as recorded")
    level: Names = Field(default_factory=list, description="Metadata, Request or RequestResponse")


class EventFilters(RequestedObject):
    """Audit events."""

    stage: Names = Field(default_factory=list, description="ResponseComplete, ResponseStarted, RequestReceived or Panic")
    code: list[Code] = Field(default_factory=list, max_length=_VALUES_MAX, description="HTTP status")


class RequestFilters(RequestedObject):
    """Audit requests."""

    outcome: Names = Field(default_factory=list, description="allowed, open, or what refused it: vap, webhook, quota, ...")
    impersonator: Names = Field(default_factory=list, description="the user who impersonated another one")
    code: list[Code] = Field(default_factory=list, max_length=_VALUES_MAX, description="HTTP status")


class ViolationFilters(RequestedObject):
    """Recorded policy failures."""

    policy: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicy")
    binding: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicyBinding")
    enforced: bool | None = Field(default=None, description="whether the binding would reject such a request")
    admitted: bool | None = Field(default=None, description="whether the request went through all the same")


class DenialFilters(RequestedObject):
    """Requests that were refused on purpose."""

    denier: Names = Field(default_factory=list, description="vap, map, webhook, authorization, quota, ...")
    policy: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicy")
    binding: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicyBinding")
    webhook: Names = Field(default_factory=list, description="name of the webhook that refused it")


class RollupFilters(TimeFilters):
    """Recorded policy failures, to be counted."""

    policy: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicy")
    binding: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicyBinding")
    namespace: Names = Field(default_factory=list, description="empty: cluster-scoped objects")
    user: Names = Field(default_factory=list, description="effective user of the request")
    resource: Names = Field(default_factory=list, description="plural, lower case: pods, deployments, ...")


class EvidenceFilters(ClusterFilters):
    """Which bodies were recorded, by kind of request."""

    api_group: Names = Field(default_factory=list, description="empty: the core group")
    resource: Names = Field(default_factory=list, description="plural, lower case: pods, deployments, ...")
    subresource: Names = Field(default_factory=list, description="status, scale, exec, ...; empty: the object itself")
    verb: Names = Field(default_factory=list, description="Kubernetes verb: create, update, patch, ...")
    level: Names = Field(default_factory=list, description="Metadata, Request or RequestResponse")


class LossFilters(ClusterFilters):
    """Evidence that is missing or doubtful."""

    kind: Names = Field(default_factory=list, description="a kind of loss; `hindcast doctor` explains each")


class VerdictFilters(TimeFilters):
    """Verdicts of one run."""

    policy: Names = Field(default_factory=list, description="name of the ValidatingAdmissionPolicy")
    binding: Names = Field(default_factory=list, description="empty: a policy tried without a binding")
    namespace: Names = Field(default_factory=list, description="of the request; empty: cluster-scoped objects")
    user: Names = Field(default_factory=list, description="effective user of the request")
    decision: list[Literal["admit", "deny", "error", "nomatch", "unknown"]] = Field(
        default_factory=list, max_length=_VALUES_MAX, description="what evaluation said"
    )
    effect: list[Literal["admit", "deny"]] = Field(
        default_factory=list, max_length=_VALUES_MAX, description="what failurePolicy makes of it"
    )
    evidence: list[Literal["exact", "inferred", "partial", "recorded", "insufficient"]] = Field(
        default_factory=list,
        max_length=_VALUES_MAX,
        description="how good the evidence is: recorded of this request (exact), following from others (inferred), ...",
    )
    audit_id: Names = Field(default_factory=list, description="auditID of the request, as recorded")


class VerdictGrain(StrEnum):
    """The filters on the rows of a run's verdicts."""

    REQUEST = "request"  # the verdict as a whole: one row for each (request, pass, policy, binding, param)
    EXPRESSION = "expression"  # one row for each expression of these verdicts


class Paging(BaseModel):
    """The page of rows. `after` is the `next` of the page before."""

    limit: int = Field(
        default=LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="rows of one page; a page of large rows may end earlier"
    )
    after: Annotated[str, StringConstraints(max_length=4_000)] | None = Field(
        default=None, description="`next` of the page before; leave it out for the first"
    )


class TimePaging(Paging):
    """Paging of rows that have a time."""

    order: Literal["newest", "oldest"] = Field(default="newest", description="which rows come first")


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column that orders rows, as an expression that is never null."""

    expression: str
    kind: type[Key] = str


TIME = SortKey("ts", datetime)


@dataclass(frozen=True, slots=True)
class View:
    """One view and its questions: the keys that order its rows, time first, and the columns that are large.

    Large columns are read for the rows of a page only, and only on request. `texts` are the columns that a text search covers.
    """

    name: str
    keys: tuple[SortKey, ...]
    large: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


_BODIES = ("request_object", "response_object")
_REQUEST = (TIME, SortKey("cluster"), SortKey("audit_id"))
_FAILURE = (SortKey("policy"), SortKey("binding"), SortKey("expression_index", int), SortKey("message"))
# The columns for a text search: those about the request and those about its refusal.
REQUEST_TEXTS = ("verb", "resource", "subresource", "namespace", "name", "user_name")
_REFUSAL_TEXTS = (*REQUEST_TEXTS, "policy", "binding", "message", "audit_id")
VIEWS: Mapping[str, View] = {
    view.name: view
    for view in (
        View("events", (*_REQUEST, SortKey("stage_ts", datetime), SortKey("stage")), (*_BODIES, "extra")),
        View("requests", _REQUEST, _BODIES),
        # The workload comes from bodies, so it counts as one.
        View("violations", (*_REQUEST, *_FAILURE), ("workload",), _REFUSAL_TEXTS),
        View("denials", _REQUEST, (), (*_REFUSAL_TEXTS, "webhook", "denier")),
    )
}
# Small views without an order in time.
TABLES: Mapping[str, str] = {name: name for name in ("evidence", "losses", "sources", "known_policies")}
