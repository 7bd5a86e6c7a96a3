"""The kind of the object that a request carries, and which versions of a built-in group are served.

A version was served if the server answered the request. The kinds of resources are in queries/built_in_kinds.py.
Source: kubernetes/kubernetes pkg/registry/*/rest/storage_*.go and kubernetes/api, releases 1.30 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable

from queries.built_in_kinds import BUILT_IN, Resource

from ..request import GroupVersionKind, GroupVersionResource

# Subresources whose object is not the parent: (group, resource or "*", subresource) -> kind. Everything else has its parent's kind.
_SUBRESOURCES: dict[tuple[str, str, str], GroupVersionKind] = {
    ("*", "*", "scale"): GroupVersionKind("autoscaling", "v1", "Scale"),
    ("", "pods", "binding"): GroupVersionKind("", "v1", "Binding"),
    ("", "pods", "eviction"): GroupVersionKind("policy", "v1", "Eviction"),
    ("", "pods", "exec"): GroupVersionKind("", "v1", "PodExecOptions"),
    ("", "pods", "attach"): GroupVersionKind("", "v1", "PodAttachOptions"),
    ("", "pods", "portforward"): GroupVersionKind("", "v1", "PodPortForwardOptions"),
    ("", "pods", "proxy"): GroupVersionKind("", "v1", "PodProxyOptions"),
    ("", "services", "proxy"): GroupVersionKind("", "v1", "ServiceProxyOptions"),
    ("", "nodes", "proxy"): GroupVersionKind("", "v1", "NodeProxyOptions"),
    ("", "serviceaccounts", "token"): GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
}

# Every version of groups that have no alpha or beta left to switch on.
_VERSIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("", "apps", "batch", "policy", "events.k8s.io", "discovery.k8s.io", "node.k8s.io"), frozenset({"v1"})),
    **dict.fromkeys(("apiextensions.k8s.io", "apiregistration.k8s.io", "rbac.authorization.k8s.io"), frozenset({"v1"})),
    "autoscaling": frozenset({"v1", "v2"}),
    "extensions": frozenset(),
}


_BY_RESOURCE = {(row.group, row.resource): row for row in BUILT_IN}
_BY_KIND = {(row.group, row.kind): row for row in BUILT_IN}


def may_be_served(api_version: str) -> bool:
    """Whether kube-apiserver serves an API version of a built-in group, or may do so where an operator switched it on."""
    group, _, version = api_version.rpartition("/")
    return version in _VERSIONS[group] if group in _VERSIONS else True


def built_in_resources() -> Iterable[Resource]:
    """Every built-in resource."""
    return BUILT_IN


def by_resource(group: str, resource: str) -> Resource | None:
    """The row of a built-in resource, or None."""
    return _BY_RESOURCE.get((group, resource))


def by_kind(group: str, kind: str) -> Resource | None:
    """The row of a built-in kind, or None."""
    return _BY_KIND.get((group, kind))


def subresource_kind(group: str, resource: str, subresource: str) -> GroupVersionKind | None:
    """The kind of a subresource whose object is not its parent (Scale, Eviction, PodExecOptions); None if it is the parent."""
    return _SUBRESOURCES.get((group, resource, subresource)) or _SUBRESOURCES.get(("*", "*", subresource))


def kind_of(resource: GroupVersionResource, subresource: str) -> GroupVersionKind | None:
    """The kind of the object that a request to a built-in resource carries, or None if the table does not know the resource."""
    own = subresource_kind(resource.group, resource.resource, subresource) if subresource else None
    if own is not None:
        return own
    row = by_resource(resource.group, resource.resource)
    return GroupVersionKind(resource.group, resource.version, row.kind) if row else None
