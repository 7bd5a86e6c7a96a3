"""Values as the server's own code has them, for the messages that print them, and their differences.

Types follow kubernetes pkg/apis/core/types.go: fields in their order, by their Go names. Without a value they print as null, or as
the zero of their type. Differences follow apimachinery pkg/util/diff/diff.go: JSON with an indent of one space, line by line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ....request import Object

# The fields of a type: Go names with what they hold. A name alone holds a pointer, a list or a map of plain values. `=` gives a
# value's zero, `:` a struct, `?` a pointer to one, and `*` a list of them.
Fields: TypeAlias = tuple[str, ...]
_CONTAINER: Final = (
    "Name=", "Image=", "Command", "Args", "WorkingDir=", "Ports*Port", "EnvFrom!", "Env*Env", "Resources:Resources",
    "ResizePolicy!", "RestartPolicy", "RestartPolicyRules!", "VolumeMounts*Mount", "VolumeDevices!", "LivenessProbe?Probe",
    "ReadinessProbe?Probe", "StartupProbe?Probe", "Lifecycle!", "TerminationMessagePath=", "TerminationMessagePolicy=",
    "ImagePullPolicy=", "SecurityContext?SecurityContext", "Stdin=b", "StdinOnce=b", "TTY=b",
)  # fmt: skip
_HANDLERS: Final = ("Exec?Exec", "HTTPGet?HTTPGet", "TCPSocket?TCPSocket")
_TYPES: Final[Mapping[str, Fields]] = {
    "PodSpec": (
        "Volumes*Volume", "InitContainers*Container", "Containers*Container", "EphemeralContainers*Ephemeral", "RestartPolicy=",
        "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "DNSPolicy=", "NodeSelector", "ServiceAccountName=",
        "AutomountServiceAccountToken", "NodeName=", "SecurityContext:PodSecurityContext", "ImagePullSecrets*Name", "Hostname=",
        "Subdomain=", "SetHostnameAsFQDN", "Affinity!", "SchedulerName=", "Tolerations*Toleration", "HostAliases!",
        "PriorityClassName=", "Priority", "PreemptionPolicy", "DNSConfig!", "ReadinessGates!", "RuntimeClassName", "Overhead",
        "EnableServiceLinks", "TopologySpreadConstraints!", "OS!", "SchedulingGates*Name", "ResourceClaims!", "Resources!",
        "HostnameOverride", "SchedulingGroup!",
    ),
    "PodSecurityContext": (
        "HostNetwork=b", "HostPID=b", "HostIPC=b", "ShareProcessNamespace", "HostUsers", "SELinuxOptions?SELinux",
        "WindowsOptions!", "RunAsUser", "RunAsGroup", "RunAsNonRoot", "SupplementalGroups", "SupplementalGroupsPolicy", "FSGroup",
        "FSGroupChangePolicy", "Sysctls!", "SeccompProfile?Profile", "AppArmorProfile?Profile", "SELinuxChangePolicy",
    ),
    "Container": _CONTAINER,
    "Ephemeral": (*_CONTAINER, "TargetContainerName="),
    "SecurityContext": (
        "Capabilities?Capabilities", "Privileged", "SELinuxOptions?SELinux", "WindowsOptions!", "RunAsUser", "RunAsGroup",
        "RunAsNonRoot", "ReadOnlyRootFilesystem", "AllowPrivilegeEscalation", "ProcMount", "SeccompProfile?Profile",
        "AppArmorProfile?Profile",
    ),
    "Capabilities": ("Add", "Drop"),
    "Profile": ("Type=", "LocalhostProfile"),
    "SELinux": ("User=", "Role=", "Type=", "Level="),
    "Port": ("Name=", "HostPort=i", "ContainerPort=i", "Protocol=", "HostIP="),
    "Env": ("Name=", "Value=", "ValueFrom?EnvSource"),
    "EnvSource": ("FieldRef?Field", "ResourceFieldRef!", "ConfigMapKeyRef?Key", "SecretKeyRef?Key", "FileKeyRef!"),
    "Field": ("APIVersion=", "FieldPath="),
    "Key": ("Name=", "Key=", "Optional"),
    "Resources": ("Limits", "Requests", "Claims!"),
    "Mount": ("Name=", "ReadOnly=b", "RecursiveReadOnly", "MountPath=", "SubPath=", "MountPropagation", "SubPathExpr="),
    "Probe": (
        *_HANDLERS, "GRPC!", "InitialDelaySeconds=i", "TimeoutSeconds=i", "PeriodSeconds=i", "SuccessThreshold=i",
        "FailureThreshold=i", "TerminationGracePeriodSeconds",
    ),
    "Exec": ("Command",),
    "HTTPGet": ("Path=", "Port", "Host=", "Scheme=", "HTTPHeaders!"),
    "TCPSocket": ("Port", "Host="),
    "Name": ("Name=",),
    "Toleration": ("Key=", "Operator=", "Value=", "Effect=", "TolerationSeconds"),
    "Volume": (
        "Name=", "HostPath?HostPath", "EmptyDir?EmptyDir", "GCEPersistentDisk!", "AWSElasticBlockStore!", "GitRepo!",
        "Secret?Secret", "NFS!", "ISCSI!", "Glusterfs!", "PersistentVolumeClaim?Claim", "RBD!", "Quobyte!", "FlexVolume!",
        "Cinder!", "CephFS!", "Flocker!", "DownwardAPI!", "FC!", "AzureFile!", "ConfigMap?ConfigMap", "VsphereVolume!",
        "AzureDisk!", "PhotonPersistentDisk!", "Projected?Projected", "PortworxVolume!", "ScaleIO!", "StorageOS!", "CSI!",
        "Ephemeral!", "Image!",
    ),
    "HostPath": ("Path=", "Type"),
    "EmptyDir": ("Medium=", "SizeLimit"),
    "Secret": ("SecretName=", "Items*Item", "DefaultMode", "Optional"),
    "ConfigMap": ("Name=", "Items*Item", "DefaultMode", "Optional"),
    "Claim": ("ClaimName=", "ReadOnly=b"),
    "Item": ("Key=", "Path=", "Mode"),
    "Projected": ("Sources*Source", "DefaultMode"),
    "Source": (
        "Secret?Projection", "DownwardAPI?DownwardAPI", "ConfigMap?Projection", "ServiceAccountToken?Token", "ClusterTrustBundle!",
        "PodCertificate!",
    ),
    "Projection": ("Name=", "Items*Item", "Optional"),
    "DownwardAPI": ("Items*File",),
    "File": ("Path=", "FieldRef?Field", "ResourceFieldRef!", "Mode"),
    "Token": ("Audience=", "ExpirationSeconds=i", "Path="),
    "ClaimSpec": (
        "AccessModes", "Selector", "Resources:ClaimResources", "VolumeName=", "StorageClassName", "VolumeMode", "DataSource!",
        "DataSourceRef!", "VolumeAttributesClassName",
    ),
    "ClaimResources": ("Limits", "Requests"),
}  # fmt: skip
# Go names whose JSON name does not only begin in another case.
_JSON: Final = {
    "DNSPolicy": "dnsPolicy", "DNSConfig": "dnsConfig", "OS": "os", "TTY": "tty", "HTTPGet": "httpGet", "TCPSocket": "tcpSocket",
    "GRPC": "grpc", "SELinuxOptions": "seLinuxOptions", "SELinuxChangePolicy": "seLinuxChangePolicy", "FSGroup": "fsGroup",
    "FSGroupChangePolicy": "fsGroupChangePolicy", "CSI": "csi", "NFS": "nfs", "RBD": "rbd", "FC": "fc", "ISCSI": "iscsi",
    "GCEPersistentDisk": "gcePersistentDisk", "AWSElasticBlockStore": "awsElasticBlockStore", "StorageOS": "storageos",
    "CephFS": "cephfs", "APIVersion": "apiVersion", "HTTPHeaders": "httpHeaders",
}  # fmt: skip
_ZEROS: Final = {"": "", "b": False, "i": 0}
_MARKS: Final = "=:?*!"
# Conversion moves these from the spec of a Pod into its security context, and drops the older name of the account.
_MOVED: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_DROPPED: Final = frozenset({"serviceAccount"})


class NotKnownError(Exception):
    """A part of a value whose type is not known here."""


def pod_spec(spec: Object) -> dict[str, Any]:
    """The spec of a Pod or a template. Raises NotKnownError."""
    moved = {name: spec[name] for name in _MOVED if name in spec}
    kept = {name: value for name, value in spec.items() if name not in moved and name not in _DROPPED}
    return _struct({**kept, "securityContext": {**(spec.get("securityContext") or {}), **moved}}, "PodSpec")


def claim_spec(spec: Object) -> dict[str, Any]:
    """The spec of a claim. Raises NotKnownError."""
    return _struct(spec, "ClaimSpec")


def security_context(value: Object) -> dict[str, Any]:
    """The security context of a container. Raises NotKnownError."""
    return _struct(value, "SecurityContext")


def template(value: Object) -> dict[str, Any]:
    """A template: its metadata as JSON, and its spec. Raises NotKnownError."""
    metadata = value.get("metadata") or {}
    if metadata.keys() - {"labels", "annotations", "creationTimestamp"}:
        raise NotKnownError
    shown = {name: dict(sorted(metadata[name].items())) for name in ("labels", "annotations") if metadata.get(name)}
    return {**shown, "Spec": pod_spec(value.get("spec") or {})}


def difference(old: Any, new: Any) -> str:
    """The difference of two values, as the server prints it."""
    before, after = (json.dumps(each, indent=1, ensure_ascii=False).split("\n") for each in (old, new))
    lines = list(difflib.unified_diff([f"{line}\n" for line in before], [f"{line}\n" for line in after]))
    return "".join(lines[2:])  # the server names no files


def _struct(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = set()
    for field in _TYPES[name]:
        mark = next((each for each in _MARKS if each in field), "")
        go, _, kind = field.partition(mark) if mark else (field, "", "")
        own = _JSON.get(go, f"{go[0].lower()}{go[1:]}")
        names.add(own)
        found[go] = _value(value.get(own), mark, kind)
    if value.keys() - names:
        raise NotKnownError
    return found


def _value(value: Any, mark: str, kind: str) -> Any:
    if mark == "=":
        return _ZEROS[kind] if value is None else value
    if mark == ":":
        return _struct(value or {}, kind)
    if value is None or (mark == "*" and value == []):
        return None
    if mark == "!":
        raise NotKnownError
    if mark == "*":
        return [_struct(each, kind) for each in value]
    if mark == "?":
        return _struct(value, kind)
    return dict(sorted(value.items())) if isinstance(value, dict) else value
