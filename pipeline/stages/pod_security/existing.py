"""What the plugin says of the Pods in a namespace that is given a stricter level.

Follows k8s.io/pod-security-admission admission/admission.go (EvaluatePodsInNamespace). The server looks at 3,000 Pods and
for a second; here all are looked at, because the log does not show which these were.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ...request import Object
from .checks.pod import Pod, ordered
from .checks.table import failed_checks
from .policy import LevelVersion


def existing_pods(
    namespace: str, pods: Iterable[Object], policy: LevelVersion, minor: int, exempt_classes: Container[str]
) -> list[str]:
    """The warnings; empty if no Pod violates the policy."""
    by_reasons: dict[str, list[str]] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        if (spec.get("runtimeClassName") or "") in exempt_classes:
            continue
        found = failed_checks(Pod(pod["metadata"].get("annotations") or {}, spec), policy.level, policy.minor(minor))
        if found:
            reasons = ", ".join(each.failure.reason for each in found)
            by_reasons.setdefault(reasons, []).append(pod["metadata"]["name"])
    if not by_reasons:
        return []
    lines = ordered(f"{_named(names)}: {reasons}" for reasons, names in by_reasons.items())
    return [f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{policy}"', *lines]


def _named(names: list[str]) -> str:
    others = len(names) - 1
    more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
    return min(names) + more
