"""The plan of a replay: its requests and policies, counted before the evaluation.

A plan writes nothing and reads no clock. It can be printed, and its digest names the run: the same policies over the same lake
give the same run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from queries.catalog import LakeFiles

from ..admission.policies.model import PolicySet
from ..admission.policies.verdict import STAGE
from ..authorization import OtherAuthorizers
from ..history.in_force import CHANGE_DELAY
from ..matching import Target
from ..request import GroupVersionResource
from ..runs.verdict import VERDICTS
from ..runs.window import Window

# Raised when the same plan would give other verdicts or another layout, so that older runs do not count as this one.
FORMAT = 10
# Events per part: as many as a row group of a file has. An interrupted run loses no more than these.
PART_EVENTS = 50_000
AS_RECORDED = "as recorded"  # in place of policies in a plan that takes them from the log


@dataclass(frozen=True, slots=True, order=True)
class RequestClass:
    """Requests that the rules of policies cannot tell apart.

    `refused` ones may have been another operation than they look like. `reads_old_object`: some policy for them looks at it.
    """

    cluster: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    verb: str
    operation: str
    is_namespaced: bool
    refused: bool
    reads_old_object: bool = False
    requests: int = 0

    def targets(self) -> Iterator[Target]:
        """The targets for the rules. A refused update or patch may have been an attempt to create the object."""
        resource = GroupVersionResource(self.api_group, self.api_version, self.resource)
        yield Target(self.operation, resource, self.subresource, self.is_namespaced)
        if self.refused and self.operation == "UPDATE":
            yield Target("CREATE", resource, self.subresource, self.is_namespaced)


@dataclass(frozen=True, slots=True)
class PlannedBinding:
    """One policy with one binding (None: without), and how many requests its rules may concern."""

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    requests: int


@dataclass(frozen=True)
class ReplayPlan:
    """The plan of one replay. `excluded` counts requests that will not be evaluated, by reason."""

    kubernetes_version: tuple[int, int]
    window: Window
    policies: PolicySet | None  # None: those that the log shows in force at the time of each request
    lake_digest: str
    classes: tuple[RequestClass, ...]
    excluded: tuple[tuple[str, int], ...]
    bindings: tuple[PlannedBinding, ...]
    requests: int  # that the run will evaluate, or find unfit for evaluation
    # Which authorizers each cluster has other than RBAC; empty where no policy asks an authorizer.
    other_authorizers: tuple[tuple[str, OtherAuthorizers], ...] = ()
    change_delay: timedelta = CHANGE_DELAY  # how long after its write a policy may not be in force yet
    # Recorded policies and bindings that cannot be read, with the reasons. The lake's content and the window determine these too.
    unreadable: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    # How many events a worker reads at a time. It changes no verdict, so the run's name does not depend on it.
    part_events: int = field(default=PART_EVENTS, compare=False, repr=False)
    # The lake's files at planning. The run's name does not depend on them: the same events may lie in other files.
    files: LakeFiles | None = field(default=None, compare=False, repr=False)

    @property
    def stage(self) -> str:
        """The stage that a replay of policies replays."""
        return STAGE

    @property
    def words_of_window(self) -> str:
        """Which requests were taken, for a person."""
        return self.window.words(self.files.newest_us if self.files else None)

    @property
    def run_id(self) -> str:
        """The name of the run: a digest of the plan, which holds one of the lake."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The plan as one JSON document, with the policies in full."""
        return json.dumps(self.document(), indent=1, sort_keys=True) + "\n"

    def document(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "format": FORMAT,
            "stage": STAGE,
            "columns": VERDICTS.names,
            "kubernetes_version": f"{self.kubernetes_version[0]}.{self.kubernetes_version[1]}",
            "window": {name: moment.isoformat() if moment else None for name, moment in self.window.parameters.items()},
            "lake": self.lake_digest,
            "change_delay_seconds": self.change_delay.total_seconds(),
            "other_authorizers": {cluster: str(others) for cluster, others in self.other_authorizers},
            "policies": _policy_document(self.policies) if self.policies else AS_RECORDED,
            "bindings": [dataclasses.asdict(item) for item in self.bindings],
            "requests": self.requests,
            "classes": [dataclasses.asdict(item) for item in self.classes],
            "excluded": [{"reason": reason, "requests": count} for reason, count in self.excluded],
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any], policies: PolicySet | None) -> ReplayPlan:
        """The plan that `document()` described. `policies` are its policies; None if they came from the log, or are not at hand."""
        window = {name: datetime.fromisoformat(text) if text else None for name, text in document["window"].items()}
        major, _, minor = document["kubernetes_version"].partition(".")
        return cls(
            kubernetes_version=(int(major), int(minor)),
            window=Window(**window),
            policies=policies,
            lake_digest=document["lake"],
            classes=msgspec.convert(document["classes"], tuple[RequestClass, ...]),
            excluded=tuple((entry["reason"], entry["requests"]) for entry in document["excluded"]),
            bindings=msgspec.convert(document["bindings"], tuple[PlannedBinding, ...]),
            requests=document["requests"],
            other_authorizers=tuple((cluster, OtherAuthorizers(kind)) for cluster, kind in document["other_authorizers"].items()),
            change_delay=timedelta(seconds=document["change_delay_seconds"]),
        )

    def by_resource(self) -> Counter[tuple[str, str]]:
        """Requests by operation and resource, as in `("UPDATE", "deployments.apps/scale")`."""
        found: Counter[tuple[str, str]] = Counter()
        for item in self.classes:
            path = f"{item.resource}.{item.api_group}".rstrip(".") + (f"/{item.subresource}" if item.subresource else "")
            found[item.operation, path] += item.requests
        return found

    def __str__(self) -> str:
        """For a person: counts first, then the requests left out, with reasons."""
        major, minor = self.kubernetes_version
        lines = [f"run {self.run_id}: {self.requests:,} requests, Kubernetes {major}.{minor}"]
        by_resource = self.by_resource()
        lines += [f"  {count:>9,}  {operation} {path}" for (operation, path), count in by_resource.most_common()]
        if others := self.requests - by_resource.total():
            lines.append(f"  {others:>9,}  others of these resources and verbs, which no policy meets: the run says why")
        lines.append(f"policies with bindings: {len(self.bindings)}")
        lines += [
            f"  {item.requests:>9,}  {item.policy} / {item.binding or 'no binding'} {list(item.actions)}" for item in self.bindings
        ]
        lines += [f"authorizers of {cluster} other than RBAC: {others}" for cluster, others in self.other_authorizers]
        lines.append("not evaluated:")
        lines += [f"  {count:>9,}  {reason}" for reason, count in self.excluded]
        return "\n".join(lines)


def _policy_document(policies: PolicySet) -> dict[str, Any]:
    return {
        "policies": [_plain(policy) for policy in policies.policies],
        "bindings": [_plain(binding) for binding in policies.bindings],
        "objects": [given.object for given in policies.objects],
    }


def _plain(value: Any) -> Any:
    """A policy as JSON values, without its places in files, which do not change its meaning."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value) if each.name != "source"}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [_plain(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
