"""What readiness needs to know of Pod Security."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from queries import LakeReader

from ...cel.minors import DEFAULT as MINOR
from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...requests.lanes import Lane, LaneName
from ...runs.window import Window
from ..chain.interplay import interplay
from ..grouped import GroupedPlan
from ..readiness import Agreed, Objection, StageReadiness, StageWords
from ..waves import Rollout
from .agreement import recorded_agreement
from .explain import explain_levels
from .given import Given
from .lane import pod_lane
from .policy import DEFAULT, Mode, resolve
from .rollout import rollouts_of_levels
from .ruling import FROM_LOG, UNKNOWN_POLICY
from .walk import Walk


class PodSecurityReadiness(StageReadiness[Given, GroupedPlan[Given]]):
    """See StageReadiness."""

    words = StageWords(
        "labels",
        "Pod Security readiness",
        "Namespace, PodSecurityConfiguration",
        thing="label",
        part="mode",
        passes=("admits it", "admit it"),
    )
    # Only the mode enforce refuses requests. Namespaces whose labels come from the log are not asked about where others are given.
    counted = f"""
        FROM given
        WHERE binding = 'enforce' AND coalesce(json_extract_string(detail, '$.labels'), '') <> '{FROM_LOG}'
            AND (policy <> 'unknown' OR decision = 'unknown')
    """
    caveats = ("templates of controllers are never refused, and their Pods are: `hindcast pod-security` names the workloads",)

    in_log = True
    plans_waves = True

    def rollouts(
        self, reader: LakeReader, rules: Given, window: Window, version: tuple[int, int], spared: Collection[str]
    ) -> Sequence[Rollout]:
        """See StageReadiness: of each level that the labels enforce."""
        return list(rollouts_of_levels(reader, rules, window, version, spared))

    def uncompilable(self, rules: Given, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReadiness: a server refuses a Namespace with an invalid level or version."""
        return [
            (document.where(("metadata", "labels")), f"a server refuses Namespace {name!r}: {error}")
            for name, document in rules.written.items()
            for error in resolve(rules.labels.get(name, {}), DEFAULT).errors
        ]

    def objections(self, reader: LakeReader, verdicts: Path, rules: Given | None) -> Sequence[Objection]:
        """See StageReadiness: mutating policies given with them."""
        return interplay(reader, verdicts) if rules is not None and rules.mutating else ()

    def explain(self, reader: LakeReader, rules: Given | None, asked: Asked) -> Sequence[Told]:
        """See StageReadiness."""
        return explain_levels(reader, rules or Given({}), asked)

    def agreement(self, reader: LakeReader, plan: GroupedPlan[Given]) -> Sequence[Agreed] | None:
        """See StageReadiness: the recorded notes are about all levels alike, because the labels of that time chose theirs."""
        found = recorded_agreement(reader, plan.window, plan.kubernetes_version[1])
        if found is None:
            return None
        policies = sorted({each.policy for each in plan.bindings if self.asks_about(plan.rules, each.policy, each.binding)})
        rows = [(name, of["compared"], of["agreed"], of["unknown"]) for name, of in sorted(found.by_resource.items())]
        return [Agreed(policy, *row) for policy in policies for row in rows]

    def usual_lane(self, name: LaneName) -> Lane | None:
        """See StageReadiness."""
        return pod_lane(name, reads_user=True, with_owners=True, reads_world=True)

    def prepare(self, reader: LakeReader) -> None:
        """See StageReadiness: what requests of the stage were, and how far the labels of the time agree with the record."""
        Walk(reader, Given({}), Window(), MINOR[1]).keep()
        recorded_agreement(reader, Window(), MINOR[1])

    def asks_about(self, rules: Given, policy: str, binding: str | None) -> bool:
        """See StageReadiness: the levels that given labels enforce, or all where none are given."""
        if binding != Mode.ENFORCE or policy == UNKNOWN_POLICY:
            return False
        defaults = rules.configuration.defaults if rules.configuration else DEFAULT
        labels = [*rules.labels.values(), *([] if rules.everywhere is None else [rules.everywhere])]
        levels = {str(resolve(each, defaults).policy[Mode.ENFORCE].level) for each in labels}
        return not levels or policy.partition(":")[0] in levels
