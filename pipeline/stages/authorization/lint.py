"""Mistakes in roles and bindings that an API server accepts and that grant nothing, or something else than meant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from ...authorization.rbac import Binding, Rule
from ...history.kinds import built_in_resources
from ...request import Known
from .overlay import ClusterRbac, Proposal

# These verbs never come with a name in the URL, except for subresources.
_NAMELESS = frozenset({"create", "deletecollection"})
_SUBJECTS = frozenset({"User", "Group", "ServiceAccount"})


class Finding(NamedTuple):
    """One mistake: where it is, and what it means."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def lint(proposal: Proposal, ground: ClusterRbac | None = None) -> Iterator[Finding]:
    """The mistakes in roles and bindings of files. `ground` are the roles of the cluster, to which bindings may refer."""
    for (namespace, name), rules in sorted(proposal.roles.items()):
        place = proposal.place("Role", namespace, name)
        for rule in rules:
            yield from (Finding(place, message) for message in _of_rule(rule, is_namespaced=True))
    for name, role in sorted(proposal.cluster_roles.items()):
        place = proposal.place("ClusterRole", "", name)
        for rule in role.rules:
            yield from (Finding(place, message) for message in _of_rule(rule, is_namespaced=False))
    for namespace, bindings in sorted(proposal.bindings.items()):
        for binding in bindings:
            place = proposal.place("RoleBinding" if namespace else "ClusterRoleBinding", namespace, binding.name)
            yield from (Finding(place, message) for message in _of_binding(binding, proposal, ground))


def _of_rule(rule: Rule, is_namespaced: bool) -> Iterator[str]:
    yield from _rejected(rule)
    for group in rule.groups:
        if "/" in group:
            bare = group.partition("/")[0]
            yield f"apiGroups has {group!r}: a group has no version, so the rule matches nothing; it should be {bare!r}"
    for verb in rule.verbs:
        if verb != verb.lower():
            yield f"verbs has {verb!r}: verbs are in lower case, so it matches nothing"
    if rule.names and (nameless := sorted(_NAMELESS & {*rule.verbs})) and not all("/" in name for name in rule.resources):
        yield f"resourceNames with {' and '.join(nameless)}: such requests have no name in their URL, so they are not allowed"
    for resource in rule.resources:
        yield from _of_resource(resource)
    if rule.urls and is_namespaced:
        yield "nonResourceURLs in a Role: only a ClusterRole with a ClusterRoleBinding can allow a path"
    if rule.urls and (rule.resources or rule.groups or rule.names):
        yield "nonResourceURLs with resources: an API server rejects such a rule"


def _rejected(rule: Rule) -> Iterator[str]:
    """Missing parts. Follows kubernetes pkg/apis/rbac/validation/validation.go."""
    parts = {"verbs": rule.verbs}
    if not rule.urls:
        parts |= {"apiGroups": rule.groups, "resources": rule.resources}
    for name, values in parts.items():
        if not values:
            yield f"a rule without {name}: it matches nothing, and an API server rejects it"


def _of_resource(resource: str) -> Iterator[str]:
    name, _, subresource = resource.partition("/")
    if subresource == "*":
        yield f"resources has {resource!r}: a star for all subresources matches nothing; name each, or use '*'"
        return
    plural = _plurals().get(name.lower())
    if plural is not None and name != plural:
        yield f"resources has {resource!r}: resources are plural and in lower case; it should be {plural!r}"
    elif name != name.lower():
        yield f"resources has {resource!r}: resources are in lower case, so it matches nothing"


@cache
def _plurals() -> dict[str, str]:
    """The resources of built-in kinds, by the kind in lower case."""
    return {row.kind.lower(): row.resource for row in built_in_resources()}


def _of_binding(binding: Binding, proposal: Proposal, ground: ClusterRbac | None) -> Iterator[str]:
    if binding.role_kind not in ("Role", "ClusterRole"):
        yield f"roleRef has the kind {binding.role_kind!r}, wanted Role or ClusterRole"
    elif binding.role_kind == "Role" and not binding.namespace:
        yield "a ClusterRoleBinding refers to a Role: it can refer to a ClusterRole only"
    elif not binding.role_name:
        yield "roleRef has no name: the binding grants nothing, and an API server rejects it"
    elif _dangles(binding, proposal, ground):
        yield f"roleRef names the {binding.role_kind} {binding.role_name!r}, which does not exist: the binding grants nothing"
    for subject in binding.subjects:
        if not subject.name:
            yield "a subject has no name: it matches no user, and an API server rejects it"
        if subject.kind not in _SUBJECTS:
            yield f"a subject has the kind {subject.kind!r}, wanted User, Group or ServiceAccount: it matches no user"
        elif subject.kind == "ServiceAccount" and not (subject.namespace or binding.namespace):
            yield f"the ServiceAccount {subject.name!r} has no namespace, which a ClusterRoleBinding needs: it matches no user"
        elif subject.kind == "ServiceAccount" and ":" in subject.name:
            yield f"the ServiceAccount {subject.name!r} is named as a user: give its name and its namespace"


def _dangles(binding: Binding, proposal: Proposal, ground: ClusterRbac | None) -> bool:
    """Whether the role of a binding surely does not exist."""
    if binding.role_kind == "Role":
        if (binding.namespace, binding.role_name) in proposal.roles:
            return False
    elif binding.role_name in proposal.cluster_roles:
        return False
    if proposal.is_only:
        return True
    if ground is None:
        return False
    versions = ground.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
    return all(isinstance(version, Known) and version.value is None for version in versions)
