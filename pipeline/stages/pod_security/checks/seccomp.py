"""check_seccompProfile_baseline.go and check_seccompProfile_restricted.go."""

from __future__ import annotations

from ....cel.library.gotext import quote
from .pod import Failure, Part, Pod, containers, listed, ordered, plural

_POD = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_REASON = "seccompProfile"
_FIELD = "securityContext.seccompProfile.type"


def seccomp_annotations(pod: Pod) -> Failure | None:
    """v1.0: the annotations that came before the fields."""
    names = (_POD, *(_CONTAINER + each.name for each in pod.containers))
    found = ordered(f"{name}={quote(pod.annotations[name])}" for name in names if _is_forbidden(pod.annotations.get(name)))
    word = plural("annotation", "annotations", len(found))
    return Failure(_REASON, f"forbidden {word} {', '.join(found)}") if found else None


def _is_forbidden(value: str | None) -> bool:
    return value is not None and value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")


def seccomp_baseline(pod: Pod) -> Failure | None:
    """v1.19: a profile that is set must be one that confines."""
    setters = pod.setters(_is_bad)
    values = ordered(each.field("seccompProfile", "type") or "" for each in (pod.itself, *pod.containers) if _is_bad(each))
    return Failure(_REASON, f"{' and '.join(setters)} must not set {_FIELD} to {listed(values)}") if setters else None


def seccomp_restricted(pod: Pod) -> Failure | None:
    """v1.19: a profile must be set; what is set to a wrong one hides what is not set at all."""
    if (bad := seccomp_baseline(pod)) is not None or pod.itself.field("seccompProfile") is not None:
        return bad
    missing = pod.where(lambda each: each.field("seccompProfile") is None)
    detail = f'pod or {containers(missing)} must set {_FIELD} to "RuntimeDefault" or "Localhost"'
    return Failure(_REASON, detail) if missing else None


def _is_bad(part: Part) -> bool:
    profile = part.field("seccompProfile")
    return profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost")
