"""check_sysctls.go."""

from __future__ import annotations

from collections.abc import Collection

from .pod import Failure, Pod, Rule

V1_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
V1_27 = V1_0 | {"net.ipv4.ip_local_reserved_ports"}
V1_29 = V1_27 | {f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")}
V1_32 = V1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
V1_37 = V1_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}


def sysctls(allowed: Collection[str]) -> Rule:
    """Names other than these are forbidden; the text keeps their order, and repeats."""

    def rule(pod: Pod) -> Failure | None:
        found = [each["name"] for each in pod.itself.field("sysctls") or () if each["name"] not in allowed]
        return Failure("forbidden sysctls", ", ".join(found)) if found else None

    return rule
