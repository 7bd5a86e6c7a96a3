"""What readiness needs to know of Pod Security."""

from __future__ import annotations

from ..grouped import GroupedPlan
from ..readiness import StageReadiness, StageWords
from .given import Given
from .policy import DEFAULT, Mode, resolve
from .ruling import FROM_LOG, UNKNOWN_POLICY


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

    def asks_about(self, rules: Given, policy: str, binding: str | None) -> bool:
        """See StageReadiness: the levels that given labels enforce, or all where none are given."""
        if binding != Mode.ENFORCE or policy == UNKNOWN_POLICY:
            return False
        defaults = rules.configuration.defaults if rules.configuration else DEFAULT
        labels = [*rules.labels.values(), *([] if rules.everywhere is None else [rules.everywhere])]
        levels = {str(resolve(each, defaults).policy[Mode.ENFORCE].level) for each in labels}
        return not levels or policy.partition(":")[0] in levels
