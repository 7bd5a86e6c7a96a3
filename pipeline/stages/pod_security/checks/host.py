"""What a Pod may not share with its host: namespaces, ports, paths, and probes of other hosts."""

from __future__ import annotations

from collections.abc import Iterator

from .pod import Failure, Part, Pod, containers, field_of, listed, named, ordered, plural

_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
HOOKS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


def host_namespaces(pod: Pod) -> Failure | None:
    """check_hostNamespaces.go."""
    found = [f"{name}=true" for name in _NAMESPACES if pod.spec.get(name)]
    return Failure("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(pod: Pod) -> Failure | None:
    """check_hostPathVolumes.go."""
    found = [each["name"] for each in pod.volumes if each.get("hostPath") is not None]
    return Failure("hostPath volumes", named("volume", found)) if found else None


def host_ports(pod: Pod) -> Failure | None:
    """check_hostPorts.go: ports are sorted as texts."""
    ports = ordered(port for each in pod.containers for port in _ports(each))
    if not ports:
        return None
    found = pod.where(lambda each: any(_ports(each)))
    uses, what = plural("uses", "use", len(found)), plural("hostPort", "hostPorts", len(ports))
    return Failure("hostPort", f"{containers(found)} {uses} {what} {', '.join(ports)}")


def _ports(part: Part) -> Iterator[str]:
    return (str(int(each["hostPort"])) for each in part.container.get("ports") or () if each.get("hostPort"))


def host_probes(pod: Pod) -> Failure | None:
    """check_hostProbesAndHostLifecycle.go: names are sorted, too."""
    hosts = ordered(host for each in pod.containers for host in _hosts(each))
    if not hosts:
        return None
    found = ordered(pod.where(lambda each: any(_hosts(each))))
    uses, what = plural("uses", "use", len(found)), plural("host", "hosts", len(hosts))
    return Failure("probe or lifecycle host", f"{containers(found)} {uses} probe or lifecycle {what} {listed(hosts)}")


def _hosts(part: Part) -> Iterator[str]:
    for hook in HOOKS:
        for action in ("httpGet", "tcpSocket"):
            if host := field_of(part.container, *hook, action, "host"):
                yield host
