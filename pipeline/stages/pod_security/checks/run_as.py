"""check_runAsNonRoot.go and check_runAsUser.go."""

from __future__ import annotations

from .pod import Failure, Pod, containers


def run_as_non_root(pod: Pod) -> Failure | None:
    """Each container must not run as root; what is set to false hides what is not set at all."""
    if setters := pod.setters(lambda each: each.field("runAsNonRoot") is False):
        return Failure("runAsNonRoot != true", f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    if pod.itself.field("runAsNonRoot"):
        return None
    missing = pod.where(lambda each: each.field("runAsNonRoot") is None)
    detail = f"pod or {containers(missing)} must set securityContext.runAsNonRoot=true"
    return Failure("runAsNonRoot != true", detail) if missing else None


def run_as_user(pod: Pod) -> Failure | None:
    """Nothing runs as user 0."""
    found = pod.setters(lambda each: each.field("runAsUser") == 0)
    return Failure("runAsUser=0", f"{' and '.join(found)} must not set runAsUser=0") if found else None
