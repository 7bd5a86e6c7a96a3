"""check_privileged.go, check_allowPrivilegeEscalation.go, check_procMount.go and check_windowsHostProcess.go."""

from __future__ import annotations

from .pod import Failure, Part, Pod, containers, listed, ordered


def privileged(pod: Pod) -> Failure | None:
    """No container is privileged."""
    found = pod.where(lambda each: each.field("privileged") is True)
    return Failure("privileged", f"{containers(found)} must not set securityContext.privileged=true") if found else None


def allow_privilege_escalation(pod: Pod) -> Failure | None:
    """Each container says that it does not gain privileges."""
    found = pod.where(lambda each: each.field("allowPrivilegeEscalation") is not False)
    detail = "must set securityContext.allowPrivilegeEscalation=false"
    return Failure("allowPrivilegeEscalation != false", f"{containers(found)} {detail}") if found else None


def proc_mount(pod: Pod) -> Failure | None:
    """/proc is masked as usual."""
    found = pod.where(_unmasks)
    kinds = ordered(each.field("procMount") for each in pod.containers if _unmasks(each))
    return Failure("procMount", f"{containers(found)} must not set securityContext.procMount to {listed(kinds)}") if found else None


def _unmasks(part: Part) -> bool:
    return part.field("procMount") not in (None, "Default")


def windows_host_process(pod: Pod) -> Failure | None:
    """No container runs as a process of a Windows host."""
    found = pod.setters(lambda each: each.field("windowsOptions", "hostProcess") is True)
    return (
        Failure("hostProcess", f"{' and '.join(found)} must not set securityContext.windowsOptions.hostProcess=true")
        if found
        else None
    )
