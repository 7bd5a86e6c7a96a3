"""The plan of a replay: its requests and policies, counted before the evaluation.

A plan writes nothing and reads no clock. It can be printed, and its digest names the run: the same policies over the same lake
give the same run.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ingest.counted import counted
from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...given import meaning_of
from ...history.in_force import CHANGE_DELAY
from ...history.world import LogHistory
from ...manifests.documents import Document
from ...policies.model import PolicySet
from ...policies.verdict import STAGE
from ...requests.classes import RequestClass
from ...requests.plan import RecordsPlan
from ...runs.plan import PlannedRule, plain
from ...runs.revision import JUDGED
from ...runs.window import Window
from .decode import is_mutating
from .policies import Policies, judged_by

AS_RECORDED = "as recorded"  # in place of policies in a plan that takes them from the log


def mutating_among(policies: PolicySet | None) -> tuple[Document, ...]:
    """The manifests that were given with some policies, if mutating policies are among them."""
    given = policies.objects if policies is not None else ()
    is_changed = any(is_mutating(each.object) for each in given)
    return tuple(Document(each.object, each.source) for each in given) if is_changed else ()


@dataclass(frozen=True, kw_only=True)
class ReplayPlan(RecordsPlan):
    """The plan of one replay of policies."""

    FORMAT = 11

    stage: str = STAGE
    policies: PolicySet | None  # None: those that the log shows in force at the time of each request
    change_delay: timedelta = CHANGE_DELAY  # how long after its write a policy may not be in force yet

    def judge(self, reader: LakeReader) -> tuple[LogHistory, Policies]:
        """See RecordsPlan."""
        return judged_by(reader, self.policies, self.kubernetes_version, self.window, self.change_delay)

    @property
    def needs_answers(self) -> bool:
        """See RecordsPlan: the verdicts of recorded policies may."""
        return self.policies is None

    @property
    def delays(self) -> Collection[timedelta]:
        """See RecordsPlan."""
        return {CHANGE_DELAY, self.change_delay}

    @property
    def mutating(self) -> tuple[Document, ...]:
        """The manifests that were given with the policies, if mutating policies are among them."""
        return mutating_among(self.policies)

    @property
    def words_of_window(self) -> str:
        """Which requests were taken, for a person."""
        return self.window.words(self.files.newest_us if self.files else None)

    def document(self) -> dict[str, Any]:
        """See RunPlan."""
        found = super().document() | {"wanted": sorted(self.wanted)} if self.wanted else super().document()
        return (
            found
            | ({"judged": JUDGED} if self.mutating else {})
            | {
                "change_delay_seconds": self.change_delay.total_seconds(),
                "policies": _policy_document(self.policies) if self.policies else AS_RECORDED,
                "classes": [dataclasses.asdict(item) for item in self.classes],
            }
        )

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
            bindings=msgspec.convert(document["bindings"], tuple[PlannedRule, ...]),
            requests=document["requests"],
            other_authorizers=tuple((cluster, OtherAuthorizers(kind)) for cluster, kind in document["other_authorizers"].items()),
            change_delay=timedelta(seconds=document["change_delay_seconds"]),
            wanted=tuple(document.get("wanted", ())),
        )

    @property
    def judged_by(self) -> PolicySet | None:
        """See RunPlan."""
        return self.policies

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
        lines = [f"run {self.run_id}: {counted(self.requests, 'request')}, Kubernetes {major}.{minor}"]
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
        "policies": [plain(policy) for policy in policies.policies],
        "bindings": [plain(binding) for binding in policies.bindings],
        "objects": [given.object for given in policies.objects],
    } | meaning_of(policies.objects)
