"""matchPolicy Equivalent: the other resources that a request stands for, and the conversion of its object to them.

Follows apimachinery pkg/runtime/mapper.go (EquivalentResourceRegistry), kubernetes
pkg/kubeapiserver/default_storage_factory_builder.go and apiextensions-apiserver pkg/apiserver/customresource_handler.go. Only
versions that a cluster serves are equivalent. So built-in versions that are off by default are unknown, and custom resources are
looked up in the CustomResourceDefinition of that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..request import Evidence, GroupVersionKind, GroupVersionResource, Known, Unknown
from ..world import World


class Conversion(StrEnum):
    """The conversion of `object` and `oldObject` before a policy sees them."""

    NONE = "none"  # the request's own kind
    RENAMED = "renamed"  # only apiVersion changes
    OPAQUE = "opaque"  # fields move: kind and metadata are known, the rest is not


@dataclass(frozen=True, slots=True)
class Equivalent:
    """Another resource under which a rule may find the request."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    conversion: Conversion


@dataclass(frozen=True, slots=True)
class _Family:
    """Built-in resources that share one storage. `members` are (group, version, resource) in order of registration."""

    kind: str
    members: tuple[tuple[str, str, str], ...]
    subresources: tuple[str, ...] = ()
    conversion: Conversion = Conversion.OPAQUE


# The resources that kube-apiserver 1.30 to 1.37 serves by default in several versions. `extensions` was removed long before
# policies came.
_FAMILIES = (
    _Family(
        "HorizontalPodAutoscaler",
        (("autoscaling", "v2", "horizontalpodautoscalers"), ("autoscaling", "v1", "horizontalpodautoscalers")),
        ("status",),
    ),
    _Family("Event", (("", "v1", "events"), ("events.k8s.io", "v1", "events"))),
)
_FAMILY_OF = {GroupVersionResource(*member): family for family in _FAMILIES for member in family.members}

# Built-in resources with further versions that an operator may have enabled, or that some releases still served.
_OPTIONAL_VERSIONS = {
    "resource.k8s.io": None,
    "flowcontrol.apiserver.k8s.io": None,
    "networking.k8s.io": frozenset(["ipaddresses", "servicecidrs"]),
    "storage.k8s.io": frozenset(["volumeattributesclasses"]),
    "certificates.k8s.io": frozenset(["clustertrustbundles", "podcertificaterequests"]),
    "coordination.k8s.io": frozenset(["leasecandidates"]),
    "storagemigration.k8s.io": None,
}
_K8S_IO_GROUPS = """
    admissionregistration apiextensions apiregistration authentication authorization certificates coordination discovery events
    flowcontrol.apiserver internal.apiserver networking node rbac.authorization resource scheduling storage storagemigration
"""
BUILT_IN_GROUPS = frozenset(
    ["", "apps", "autoscaling", "batch", "extensions", "policy", *(f"{name}.k8s.io" for name in _K8S_IO_GROUPS.split())]
)


def equivalents(resource: GroupVersionResource, subresource: str, world: World) -> Evidence[tuple[Equivalent, ...]]:
    """The other resources that stand for the same stored object and serve the same subresource, in order of registration."""
    if resource.group not in BUILT_IN_GROUPS:
        return _of_custom_resource(resource, subresource, world)
    family = _FAMILY_OF.get(resource)
    if family is not None:
        return Known(_of_family(family, resource, subresource), "built-in table")
    optional = _OPTIONAL_VERSIONS.get(resource.group, frozenset())
    if optional is None or resource.resource in optional:
        return Unknown(f"which versions of {resource.resource}.{resource.group} the cluster served")
    return Known((), "built-in table")


def built_in_family(resource: GroupVersionResource) -> tuple[GroupVersionResource, ...]:
    """The built-in resources with the same storage as this one, itself included; empty if the table has no others."""
    family = _FAMILY_OF.get(resource)
    return tuple(GroupVersionResource(*member) for member in family.members) if family else ()


def _of_family(family: _Family, resource: GroupVersionResource, subresource: str) -> tuple[Equivalent, ...]:
    if subresource and subresource not in family.subresources:
        return ()
    return tuple(
        Equivalent(other, GroupVersionKind(other.group, other.version, family.kind), family.conversion)
        for other in built_in_family(resource)
        if other != resource
    )


def _of_custom_resource(resource: GroupVersionResource, subresource: str, world: World) -> Evidence[tuple[Equivalent, ...]]:
    name = f"{resource.resource}.{resource.group}"
    evidence = world.param("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
    if isinstance(evidence, Unknown):
        return Unknown(f"which versions of {name} are equivalent: {evidence.reason}")
    spec = (evidence.value or {}).get("spec") or {}
    found = tuple(
        equivalent
        for version in spec.get("versions") or ()
        if version.get("served") and version.get("name") != resource.version
        for equivalent in _of_version(resource, subresource, spec, version)
    )
    return Known(found, evidence.source, evidence.grade)


def _of_version(
    resource: GroupVersionResource, subresource: str, spec: Mapping[str, Any], version: Mapping[str, Any]
) -> tuple[Equivalent, ...]:
    if subresource and subresource not in (version.get("subresources") or {}):
        return ()
    other = GroupVersionResource(resource.group, version["name"], resource.resource)
    if subresource == "scale":
        return (Equivalent(other, GroupVersionKind("autoscaling", "v1", "Scale"), Conversion.NONE),)
    # A conversion webhook may move any field; without one (strategy None) only apiVersion changes.
    by_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    kind = GroupVersionKind(resource.group, version["name"], (spec.get("names") or {}).get("kind", ""))
    return (Equivalent(other, kind, Conversion.OPAQUE if by_webhook else Conversion.RENAMED),)
