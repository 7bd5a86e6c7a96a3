"""One exclusion: the smallest change to a binding, or to its policy, after which some requests are no longer judged.

An exclusion is a key: it takes out the requests that have this key among theirs. So one pass over the requests of a log serves
any number of candidates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_SERVICE_ACCOUNT = "system:serviceaccount:"
_SERVICE_ACCOUNTS = "system:serviceaccounts:"
# Namespaces of the cluster itself, whose service accounts are its controllers.
_SYSTEM_NAMESPACES = frozenset(["kube-system", "kube-public", "kube-node-lease"])
# Labels that controllers rewrite for every object or revision, so that an exemption by such a label soon matches nothing.
_FLEETING_LABELS = frozenset(
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
    """

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
    Kind.OBJECT: 100,
    Kind.WORKLOAD: 110,
    Kind.NAMESPACE: 120,
    Kind.LABEL: 150,
    Kind.USER_IN_NAMESPACE: 160,
    Kind.USER: 180,
    Kind.GROUP: 200,
}
_ON_BINDING = (Kind.NAMESPACE,)


@dataclass(frozen=True, slots=True)
class Exposed:
    """Requests that one (policy, binding) matched and that no exclusion can distinguish.

    `chain` is their object and its controllers up to the root owner, as in `Pod/web-x`, `ReplicaSet/web-5d`, `Deployment/web`.
    `outcome` is `deny`, `unknown` or `admit`. `name` is None if the request has no name; `labels` is None if the event does not
    hold the object. `is_configuration`: an error denied before match conditions were evaluated. `generate_name` is the prefix from
    which the server made the name; empty if it made no name. `is_later`: from the later half of the time that the policy's requests
    span.
    """

    policy: str
    binding: str | None
    outcome: str
    namespace: str
    user: str
    groups: tuple[str, ...]
    api_group: str
    resource: str
    subresource: str
    name: str | None
    chain: tuple[str, ...]
    labels: Mapping[str, str] | None
    requests: int
    is_configuration: bool = False
    cluster: str = ""
    generate_name: str = ""
    is_later: bool = False

    @property
    def workload(self) -> tuple[str, str, str]:
        """The unit that counts as independent: the root owner, as in the figures of a verdict."""
        return self.cluster, self.namespace, self.chain[-1]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Exposed:
        """A row of sql/exposed.sql."""
        return cls(
            policy=row["policy"],
            binding=row["binding"],
            outcome=row["outcome"],
            namespace=row["namespace"],
            user=row["user_name"],
            groups=tuple(row["user_groups"]),
            api_group=row["api_group"],
            resource=row["resource"],
            subresource=row["subresource"],
            name=row["name"],
            chain=tuple(row["chain"]),
            labels=_labels(row["labels"]),
            requests=row["requests"],
            is_configuration=row["is_configuration"],
            cluster=row["cluster"],
            generate_name=row["generate_name"],
            is_later=row["is_later"],
        )


def _labels(text: str | None) -> dict[str, str] | None:
    """The labels of an object; None where they are not known, or are not valid labels of Kubernetes."""
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else None


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
            case Kind.USER:
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


def hiding(row: Exposed) -> Iterator[Exclusion]:
    """Every exclusion of the row's policy that would take it out."""
    if row.binding is not None:
        yield from _of_binding(row, row.binding)
    # Errors of the configuration come before match conditions, so these do not help against them.
    if not row.is_configuration:
        yield from _of_policy(row)


def _of_binding(row: Exposed, binding: str) -> Iterator[Exclusion]:
    # A missing namespace is an error before an exclusion by its name applies.
    if row.namespace and not row.is_configuration:
        yield Exclusion(row.policy, binding, Kind.NAMESPACE, row.namespace)


def _of_policy(row: Exposed) -> Iterator[Exclusion]:
    place = (row.api_group, row.resource)
    if row.user:
        yield Exclusion(row.policy, None, Kind.USER, row.user)
        yield Exclusion(row.policy, None, Kind.USER_IN_NAMESPACE, row.user, namespace=row.namespace)
    for group in row.groups:
        yield Exclusion(row.policy, None, Kind.GROUP, group)
    for key, value in (row.labels or {}).items():
        yield Exclusion(row.policy, None, Kind.LABEL, f"{key}={value}", namespace=row.namespace)
    if row.name is not None:
        yield Exclusion(row.policy, None, Kind.OBJECT, row.name, place, row.namespace)
        # Controllers give their objects their own name, a dash and a suffix.
        for end in (index for index, letter in enumerate(f"{row.name}-") if letter == "-" and index):
            yield Exclusion(row.policy, None, Kind.WORKLOAD, row.name[:end], namespace=row.namespace)


def worth_proposing(row: Exposed, exclusion: Exclusion) -> bool:
    """Whether an exclusion that hides a would-be denial would also hold for the next request of that workload."""
    makers = [step.partition("/")[2] for step in row.chain[1:]]
    is_generated = bool(row.generate_name) and row.name is not None and row.name.startswith(row.generate_name)
    match exclusion.kind:
        case Kind.OBJECT:
            # A name that a controller or the server generated does not occur again.
            return not makers and not is_generated
        case Kind.WORKLOAD if makers:
            return bool(exclusion.namespace) and exclusion.subject in makers
        case Kind.WORKLOAD:
            return bool(exclusion.namespace) and exclusion.subject == (
                row.generate_name.removesuffix("-") if is_generated else row.name
            )
        case Kind.USER | Kind.USER_IN_NAMESPACE:
            # A controller acts for every writer of its objects: an exemption of the controller exempts everyone.
            return not makers and not is_of_the_cluster(exclusion.subject)
        case Kind.GROUP:
            return not is_of_the_cluster(exclusion.subject)
        case Kind.LABEL:
            return bool(exclusion.namespace) and exclusion.subject.partition("=")[0] not in _FLEETING_LABELS
    return True


def is_of_the_cluster(name: str) -> bool:
    """Whether a user or group belongs to the cluster: its components, controllers, nodes, or a group that holds every user."""
    if name.startswith(_SERVICE_ACCOUNT):
        return name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0] in _SYSTEM_NAMESPACES
    if name.startswith(_SERVICE_ACCOUNTS):
        return name.removeprefix(_SERVICE_ACCOUNTS) in _SYSTEM_NAMESPACES
    return name.startswith("system:")


def cost(exclusion: Exclusion, passing_workloads: int, unknown_workloads: int) -> int:
    """The cost of an exclusion: its own, plus the passing workloads that it hides. An unknown workload counts a tenth."""
    return COSTS[exclusion.kind] + 100 * passing_workloads + 10 * unknown_workloads


def separates(exclusion: Exclusion, hidden: Sequence[Exposed]) -> bool:
    """Whether an exclusion is precise enough to propose. A label is, only if it hides nothing but would-be denials."""
    return exclusion.kind is not Kind.LABEL or all(row.outcome == "deny" for row in hidden)


def is_on_binding(kind: Kind) -> bool:
    """Whether exclusions of a kind belong to the binding, and not to the policy."""
    return kind in _ON_BINDING
