"""check_capabilities_baseline.go and check_capabilities_restricted.go. Names are compared exactly."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .pod import Failure, Part, Pod, containers, listed, ordered

_DEFAULT = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_RESTRICTED = frozenset({"NET_BIND_SERVICE"})


def capabilities_baseline(pod: Pod) -> Failure | None:
    """Containers may only add what container runtimes give by default."""
    added = _adding(pod, _DEFAULT)
    return Failure("non-default capabilities", added) if added else None


def capabilities_restricted(pod: Pod) -> Failure | None:
    """Containers must drop all, and may add one."""
    keeping = pod.where(lambda each: "ALL" not in _capabilities(each, "drop"))
    kept = f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]' if keeping else ""
    details = [each for each in (kept, _adding(pod, _RESTRICTED)) if each]
    return Failure("unrestricted capabilities", "; ".join(details)) if details else None


def _adding(pod: Pod, allowed: Collection[str]) -> str:
    found = pod.where(lambda each: any(name not in allowed for name in _capabilities(each, "add")))
    names = ordered(name for each in pod.containers for name in _capabilities(each, "add") if name not in allowed)
    return f"{containers(found)} must not include {listed(names)} in securityContext.capabilities.add" if found else ""


def _capabilities(part: Part, change: str) -> Sequence[str]:
    return part.field("capabilities", change) or ()
