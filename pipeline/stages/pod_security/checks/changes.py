"""For each check: the field that it reads, and the change with which a Pod passes."""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """A field of a Pod's spec, and what to make of it; `[]` stands for each item of a list."""

    field: str
    change: str


_ANY_CONTAINER = "containers[].securityContext"
CHANGES = {
    "appArmorProfile": Change(
        "securityContext.appArmorProfile.type", "set RuntimeDefault or Localhost, and remove the annotations"
    ),
    "capabilities_baseline": Change(f"{_ANY_CONTAINER}.capabilities.add", "remove the named capabilities"),
    "hostNamespaces": Change("hostNetwork, hostPID, hostIPC", "remove them"),
    "hostPathVolumes": Change("volumes[].hostPath", "take a volume of another type"),
    "hostPorts": Change("containers[].ports[].hostPort", "remove it, and reach the Pod through a Service"),
    "hostProbesAndHostLifecycle": Change("containers[].livenessProbe.httpGet.host", "remove host from probes and hooks"),
    "privileged": Change(f"{_ANY_CONTAINER}.privileged", "remove it, or set false"),
    "procMount": Change(f"{_ANY_CONTAINER}.procMount", "remove it, or set Default"),
    "seLinuxOptions": Change("securityContext.seLinuxOptions", "remove user and role, and set a type of containers"),
    "seccompProfile_baseline": Change("securityContext.seccompProfile.type", "set RuntimeDefault or Localhost"),
    "sysctls": Change("securityContext.sysctls", "remove the named ones"),
    "windowsHostProcess": Change("securityContext.windowsOptions.hostProcess", "remove it, or set false"),
    "allowPrivilegeEscalation": Change(f"{_ANY_CONTAINER}.allowPrivilegeEscalation", "set false"),
    "capabilities_restricted": Change(f"{_ANY_CONTAINER}.capabilities", 'set drop: ["ALL"], and add NET_BIND_SERVICE at most'),
    "procMount_restricted": Change(f"{_ANY_CONTAINER}.procMount", "remove it, or set Default"),
    "restrictedVolumes": Change(
        "volumes[]", "take configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim or secret"
    ),
    "runAsNonRoot": Change("securityContext.runAsNonRoot", "set true, with an image that does not run as root"),
    "runAsUser": Change("securityContext.runAsUser", "set another user than 0"),
    "seccompProfile_restricted": Change("securityContext.seccompProfile.type", "set RuntimeDefault or Localhost"),
}
