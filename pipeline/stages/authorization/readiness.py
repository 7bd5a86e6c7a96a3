"""What readiness needs to know of roles: which denials are new, how far the log agrees, and the roles that would be missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from queries import LakeReader

from ...cel.minors import DEFAULT
from ...requests.authorizers import other_authorizers
from ...requests.past import load_history
from ...runs.window import Window
from ..grouped import GroupedPlan
from ..readiness import Agreed, Place, Remedy, RemedyPart, StageReadiness, StageWords
from .as_of import roles_as_of
from .calibration import Decided, recorded_agreement
from .lint import lint
from .missing import ExtraRole, missing_rights
from .overlay import Proposal

_SHOWN = 3


class RoleReadiness(StageReadiness[Proposal, GroupedPlan[Proposal]]):
    """See StageReadiness."""

    words = StageWords("roles", "Role readiness", "Role, ClusterRole, RoleBinding, ClusterRoleBinding", thing="role")

    def __init__(self, name: str) -> None:
        self._name = name

    def agreement(self, reader: LakeReader, plan: GroupedPlan[Proposal]) -> Sequence[Agreed]:
        """The recorded decisions and reasons against the roles of the time, by resource."""
        found = recorded_agreement(reader, plan.window, dict(plan.other_authorizers), plan.kubernetes_version)
        counts: dict[str, Counter[str]] = {}
        for each in found.compared:
            is_unknown = Decided.UNKNOWN in (each.recorded, each.replayed)
            result = "unknown" if is_unknown else "agreed" if each.agrees else "disagreed"
            counts.setdefault(each.resource, Counter())[result] += each.requests
        return [
            Agreed(self._name, resource, own["agreed"] + own["disagreed"], own["agreed"], own["unknown"])
            for resource, own in sorted(counts.items())
        ]

    def prepare(self, reader: LakeReader) -> None:
        """See StageReadiness: how far the roles of the time agree with the record."""
        recorded_agreement(reader, Window(), dict(other_authorizers(reader, Window(), None)), DEFAULT)

    def remedy(self, reader: LakeReader, plan: GroupedPlan[Proposal], verdicts: Path) -> Remedy[Proposal]:
        """The roles that give back what newly denied requests need."""
        history = load_history(reader, (), plan.window)
        found = missing_rights(reader, verdicts, history.versions, plan.kubernetes_version)
        extra = Proposal.from_objects((value, "extra") for each in found for value in (each.role, each.binding))
        return Remedy(tuple(_part(self._name, each) for each in found), plan.rules.joined(extra))

    def over(self, rules: Proposal, before: Proposal) -> Proposal:
        """A removed role has no rules, and a removed binding no subjects."""
        return rules.without(before)

    def as_of(self, reader: LakeReader, cluster: str, moment: datetime, rules: Proposal, replaces_all: bool) -> Proposal:
        """See StageReadiness."""
        return roles_as_of(reader, cluster, moment, rules, replaces_all)

    def mistakes(self, rules: Proposal, replaces_all: bool) -> Sequence[str]:
        """Rules that match nothing, and bindings without a subject."""
        return [str(finding) for finding in lint(replace(rules, is_only=replaces_all))]

    def places(self, rules: Proposal) -> Sequence[Place]:
        """All files are judged together; the first object stands for them."""
        return [Place(self._name, place) for place in list(rules.sources.values())[:1]]


def _part(policy: str, extra: ExtraRole) -> RemedyPart:
    shown = ", ".join(extra.rights[:_SHOWN])
    more = f" and {len(extra.rights) - _SHOWN:,} more" if len(extra.rights) > _SHOWN else ""
    place = f" in {extra.namespace}" if extra.namespace else ""
    subject = f"{extra.subject}: {shown}{more}{place}"
    return RemedyPart(policy, subject, (extra.role, extra.binding), extra.requests, "recorded requests need these rights")
