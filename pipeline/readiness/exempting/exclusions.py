"""One exclusion: the smallest change to a binding, or to its policy, after which some requests are no longer judged.

An exclusion is a key: it takes out the requests that have this key among theirs. So one join serves any number of candidates; see
search.py and sql/exclusion_keys.sql.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_SERVICE_ACCOUNT = "system:serviceaccount:"
_SERVICE_ACCOUNTS = "system:serviceaccounts:"
# Namespaces of the cluster itself, whose service accounts are its controllers.
_SYSTEM_NAMESPACES = frozenset(["kube-system", "kube-public", "kube-node-lease"])
_COMPONENTS = frozenset(["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"])
# Labels that controllers rewrite for every object or revision, so that an exemption by such a label soon matches nothing.
FLEETING_LABELS = frozenset(
    [
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "kubernetes.io/metadata.name",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    ]
)


class Kind(StrEnum):
    """The place of an exclusion and the field it selects on; of equally good exclusions the earlier kind is preferred.

    A whole resource is never excluded: that would switch the policy off for it. Writers choose names and labels, so these are
    excluded within one namespace only. Cluster-scoped objects are excluded by name alone, because their writers are administrators.
    A controller of the cluster acts for everyone. It is excluded only from a policy that asks who sends a request, where the object
    that it happened to write says nothing.
    """

    CONTROLLER = "controller"
    OBJECT = "object"
    WORKLOAD = "workload"
    NAMESPACE = "namespace"
    LABEL = "objectLabel"
    USER_IN_NAMESPACE = "userInNamespace"
    USER = "user"
    GROUP = "group"


# The cost of one more exclusion, in hundredths of a passing workload that it hides. A single object is cheapest. A label costs
# more, because any object of its namespace may carry it. A user or group costs still more: its members may then do anything.
COSTS: Mapping[Kind, int] = {
    Kind.CONTROLLER: 90,
    Kind.OBJECT: 100,
    Kind.WORKLOAD: 110,
    Kind.NAMESPACE: 120,
    Kind.LABEL: 150,
    Kind.USER_IN_NAMESPACE: 160,
    Kind.USER: 180,
    Kind.GROUP: 200,
}


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One exclusion of one policy. `binding` is None for a match condition, which belongs to the policy.

    `subject` is the namespace, user, group, label (`key=value`), or the name of an object or of the workload that it belongs to;
    `namespace` narrows the kinds that have one.
    """

    policy: str
    binding: str | None
    kind: Kind
    subject: str = ""
    resource: tuple[str, str] = ("", "")  # (API group, resource or resource/subresource)
    namespace: str = ""

    @property
    def order(self) -> tuple[Any, ...]:
        """A deterministic sort key; preferred exclusions come first."""
        return (list(Kind).index(self.kind), self.binding or "", self.namespace, self.resource, self.subject)

    @property
    def words(self) -> str:
        """The excluded requests in words: `namespace legacy`, `user dana in namespace shop`. Unique within the policy."""
        group, resource = self.resource
        place = f"{resource}.{group}" if group else resource
        where = f"in namespace {self.namespace}" if self.namespace else "outside namespaces"
        return {
            Kind.NAMESPACE: f"namespace {self.subject}",
            Kind.LABEL: f"objects with label {self.subject} {where}",
            Kind.OBJECT: f"{place} named {self.subject} {where}",
            Kind.WORKLOAD: f"workload {self.subject} {where}",
            Kind.USER_IN_NAMESPACE: f"user {self.subject} {where}",
            Kind.USER: f"user {self.subject}",
            Kind.CONTROLLER: f"the cluster's own {self.subject}",
            Kind.GROUP: f"group {self.subject}",
        }[self.kind]

    @property
    def expression(self) -> str:
        """The CEL of a match condition that is false for excluded requests. It tests first for fields that Go omits when empty."""
        match self.kind:
            case Kind.LABEL:
                key, _, value = self.subject.partition("=")
                labels = (
                    f"{_literal(key)} in object.metadata.labels && object.metadata.labels[{_literal(key)}] == {_literal(value)}"
                )
                is_there = "object != null && has(object.metadata) && has(object.metadata.labels)"
                return f"!({_in_namespace(self.namespace)} && {is_there} && {labels})"
            case Kind.USER | Kind.CONTROLLER:
                return f"request.userInfo.username != {_literal(self.subject)}"
            case Kind.USER_IN_NAMESPACE:
                return f"!({_in_namespace(self.namespace)} && request.userInfo.username == {_literal(self.subject)})"
            case Kind.GROUP:
                return f"!(has(request.userInfo.groups) && {_literal(self.subject)} in request.userInfo.groups)"
            case Kind.OBJECT:
                return f"!({self._of_resource()} && request.name == {_literal(self.subject)})"
            case Kind.WORKLOAD:
                names = f"request.name == {_literal(self.subject)} || request.name.startsWith({_literal(f'{self.subject}-')})"
                return f"!({_in_namespace(self.namespace)} && has(request.name) && ({names}))"
        raise ValueError(f"{self.kind} is not a match condition")

    def _of_resource(self) -> str:
        group, resource = self.resource
        return (
            f"{_in_namespace(self.namespace)} && request.resource.group == {_literal(group)} && "
            f"request.resource.resource == {_literal(resource)} && has(request.name)"
        )


def _in_namespace(namespace: str) -> str:
    if not namespace:
        return "!has(request.namespace)"
    return f"has(request.namespace) && request.namespace == {_literal(namespace)}"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def is_of_the_cluster(name: str) -> bool:
    """Whether a user or group belongs to the cluster: its components, controllers, nodes, or a group that holds every user."""
    if name.startswith(_SERVICE_ACCOUNT):
        return name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0] in _SYSTEM_NAMESPACES
    if name.startswith(_SERVICE_ACCOUNTS):
        return name.removeprefix(_SERVICE_ACCOUNTS) in _SYSTEM_NAMESPACES
    return name.startswith("system:")


def is_controller(name: str) -> bool:
    """Whether a user is a controller of the cluster. A node is no controller, nor is whoever did not log in."""
    return name in _COMPONENTS or (name.startswith(_SERVICE_ACCOUNT) and is_of_the_cluster(name))


def cost(exclusion: Exclusion, passing_workloads: int, unknown_workloads: int) -> int:
    """The cost of an exclusion: its own, plus the passing workloads that it hides. An unknown workload counts a tenth."""
    return COSTS[exclusion.kind] + 100 * passing_workloads + 10 * unknown_workloads
