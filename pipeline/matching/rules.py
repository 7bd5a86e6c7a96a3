"""Resource rules. Follows kubernetes/apiserver pkg/admission/plugin/webhook/predicates/rules/rules.go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from queries.reach import is_exempt
from queries.reach_rules import EXEMPT_REVIEWS

from ..request import AdmissionRequest, Evidence, GroupVersionResource, Known, Unknown

NAMESPACES = GroupVersionResource("", "v1", "namespaces")


def is_excluded(resource: GroupVersionResource) -> bool:
    """Whether the server exempts a resource from all validating admission policies."""
    return is_exempt(resource.group, resource.resource)


def is_review(group: str, resource: str) -> bool:
    """Whether a resource is a review, such as a SubjectAccessReview: an answer that is never stored."""
    return (group, resource) in EXEMPT_REVIEWS


class Target(NamedTuple):
    """The part of a request that the rules read, apart from the name. Equal targets match equally, so it is a cache key."""

    operation: str
    resource: GroupVersionResource
    subresource: str
    has_namespace: bool

    @classmethod
    def of(cls, request: AdmissionRequest) -> Target:
        """The target of a request as the server received it."""
        return cls(request.operation.value, request.resource, request.subresource, bool(request.namespace))

    def __str__(self) -> str:
        group, version, resource = self.resource.group, self.resource.version, self.resource.resource
        path = f"{resource}/{self.subresource}" if self.subresource else resource
        return f"{self.operation} {group + '/' if group else ''}{version} {path}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A NamedRuleWithOperations. All parts must match; `*` is a wildcard in each except `resource_names`, where empty means all."""

    operations: tuple[str, ...]
    api_groups: tuple[str, ...]
    api_versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"
    resource_names: tuple[str, ...] = ()

    def mismatch(self, target: Target) -> str | None:
        """The first part that does not match, as `part: found is not in [...]`; None if all but the name match."""
        resource = target.resource
        if not self._scope_matches(target):
            return f"scope: {'cluster' if self.scope == 'Namespaced' else 'namespaced'} request, rule is for {self.scope}"
        for part, found, wanted in (
            ("operations", target.operation, self.operations),
            ("apiGroups", resource.group, self.api_groups),
            ("apiVersions", resource.version, self.api_versions),
        ):
            if "*" not in wanted and found not in wanted:
                return f"{part}: {found!r} is not in [{', '.join(map(repr, wanted))}]"
        if not any(_resource_matches(entry, resource.resource, target.subresource) for entry in self.resources):
            path = resource.resource + (f"/{target.subresource}" if target.subresource else "")
            return f"resources: {path!r} is not in [{', '.join(map(repr, self.resources))}]"
        return None

    def name_matches(self, name: Evidence[str]) -> bool | Unknown:
        """Whether the name is one of `resource_names`. An empty name (deletecollection) is never in the list."""
        if not self.resource_names:
            return True
        return name.value in self.resource_names if isinstance(name, Known) else name

    def _scope_matches(self, target: Target) -> bool:
        # A request for a Namespace object carries its own name as namespace, but Namespaces are cluster-scoped.
        is_namespaced = target.has_namespace and target.resource != NAMESPACES
        return self.scope == "*" or is_namespaced == (self.scope == "Namespaced")


def _resource_matches(entry: str, resource: str, subresource: str) -> bool:
    # `pods/*` accepts the parent too: its subresource `*` also accepts the empty subresource.
    wanted, _, wanted_subresource = entry.partition("/")
    return wanted in ("*", resource) and wanted_subresource in ("*", subresource)
