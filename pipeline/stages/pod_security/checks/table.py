"""All checks: id, level, and the rule from each version on, in the order of every text. Which of them a level has at a version."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from . import se_linux, sysctls
from .app_armor import app_armor_profile
from .capabilities import capabilities_baseline, capabilities_restricted
from .host import host_namespaces, host_path_volumes, host_ports, host_probes
from .pod import Failure, Pod, Rule
from .privileges import allow_privilege_escalation, privileged, proc_mount, windows_host_process
from .run_as import run_as_non_root, run_as_user
from .seccomp import seccomp_annotations, seccomp_baseline, seccomp_restricted
from .volumes import restricted_volumes


class Level(StrEnum):
    """The levels of the Pod Security Standards, from the loosest to the strictest."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"

    @property
    def strictness(self) -> int:
        """How strict it is: 0 for the loosest."""
        return list(Level).index(self)


class Check(NamedTuple):
    """A check, with its rule from each minor version on.

    `replaces` is the baseline check that does not run at level restricted where this one exists.
    """

    id: str
    level: Level
    versions: Sequence[tuple[int, Rule]]
    replaces: str = ""

    def rule(self, minor: int) -> Rule | None:
        """The rule that holds at a version; None before its first."""
        return next((rule for since, rule in reversed(self.versions) if since <= minor), None)


class Failed(NamedTuple):
    """A check that a Pod fails."""

    check: str
    failure: Failure


def _on_linux(rule: Rule) -> Rule:
    """A rule that does not hold for Windows."""
    return lambda pod: None if pod.is_windows else rule(pod)


def _on_host_users(rule: Rule) -> Rule:
    """A rule that does not hold for Pods with a user namespace of their own."""
    return lambda pod: None if pod.has_user_namespace else rule(pod)


_SYSCTLS = ((0, sysctls.V1_0), (27, sysctls.V1_27), (29, sysctls.V1_29), (32, sysctls.V1_32), (37, sysctls.V1_37))
_BASELINE: dict[str, Sequence[tuple[int, Rule]]] = {
    "appArmorProfile": [(0, app_armor_profile)],
    "capabilities_baseline": [(0, capabilities_baseline)],
    "hostNamespaces": [(0, host_namespaces)],
    "hostPathVolumes": [(0, host_path_volumes)],
    "hostPorts": [(0, host_ports)],
    "hostProbesAndHostLifecycle": [(34, host_probes)],
    "privileged": [(0, privileged)],
    "procMount": [(0, proc_mount), (35, _on_host_users(proc_mount))],
    "seLinuxOptions": [(0, se_linux.se_linux_options(se_linux.V1_0)), (31, se_linux.se_linux_options(se_linux.V1_31))],
    "seccompProfile_baseline": [(0, seccomp_annotations), (19, seccomp_baseline)],
    "sysctls": [(since, sysctls.sysctls(allowed)) for since, allowed in _SYSCTLS],
    "windowsHostProcess": [(0, windows_host_process)],
}
_RESTRICTED: dict[str, Sequence[tuple[int, Rule]]] = {
    "allowPrivilegeEscalation": [(8, allow_privilege_escalation), (25, _on_linux(allow_privilege_escalation))],
    "capabilities_restricted": [(22, capabilities_restricted), (25, _on_linux(capabilities_restricted))],
    "procMount_restricted": [(35, proc_mount)],
    "restrictedVolumes": [(0, restricted_volumes)],
    "runAsNonRoot": [(0, run_as_non_root), (35, _on_host_users(run_as_non_root))],
    "runAsUser": [(23, run_as_user), (35, _on_host_users(run_as_user))],
    "seccompProfile_restricted": [(19, seccomp_restricted), (25, _on_linux(seccomp_restricted))],
}
_REPLACES = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
CHECKS = (
    *(Check(name, Level.BASELINE, versions) for name, versions in _BASELINE.items()),
    *(Check(name, Level.RESTRICTED, versions, _REPLACES.get(name, "")) for name, versions in _RESTRICTED.items()),
)


@lru_cache
def rules_of(level: Level, minor: int) -> Sequence[tuple[str, Rule]]:
    """The checks of a level at a version, with their rules, in the order of the texts."""
    found = [(check, rule) for check in CHECKS if check.level.strictness <= level.strictness and (rule := check.rule(minor))]
    replaced = {check.replaces for check, _ in found}
    return [(check.id, rule) for check, rule in found if check.id not in replaced]


def failed_checks(pod: Pod, level: Level, minor: int) -> list[Failed]:
    """The checks that a Pod fails, by the rules of one minor version of the Pod Security Standards."""
    if (level, minor) not in pod.known:
        rules = rules_of(level, minor)
        pod.known[level, minor] = [Failed(name, found) for name, rule in rules if (found := rule(pod)) is not None]
    failed: list[Failed] = pod.known[level, minor]
    return failed
