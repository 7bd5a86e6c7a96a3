"""Webhooks that can stop their own server from starting, and webhooks that can stop the system namespace.

A webhook with failurePolicy Fail refuses each request that it matches while its server is down. If a server needs such a request to
start, the outage does not end by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import NamedTuple

from ...history.kinds import by_resource
from ...matching import Target
from ...policies.model import FailurePolicy
from ...request import AdmissionRequest, GroupVersionResource, Operation, Unknown, UserInfo
from ...world import World
from .calling import Called, match_webhook
from .model import Chain, CompiledWebhook

SYSTEM_NAMESPACE = "kube-system"
_LEASES = "kube-node-lease"
_ANY = Unknown("it depends on the request")
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # no part of a webhook reads the time


class Need(NamedTuple):
    """A request that a server behind a Service needs. `namespace` is empty for a cluster-scoped request, OWN for the server's."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    why: str

    @property
    def name(self) -> str:
        """As `CREATE pods/binding`."""
        path = f"{self.resource}{'.' + self.group if self.group else ''}{'/' + self.subresource if self.subresource else ''}"
        return f"{self.operation} {path}"


OWN = "."
NEEDS = (
    Need("CREATE", "", "v1", "pods", "", OWN, "its pods are created"),
    Need("CREATE", "", "v1", "pods", "binding", OWN, "the scheduler places its pods"),
    Need("UPDATE", "", "v1", "pods", "status", OWN, "kubelets report that its pods are ready"),
    Need("UPDATE", "apps", "v1", "deployments", "", OWN, "a mended image or replica count is rolled out"),
    Need("CREATE", "apps", "v1", "replicasets", "", OWN, "a rollout makes new replica sets"),
    Need("UPDATE", "apps", "v1", "deployments", "status", OWN, "the controller of deployments keeps its state"),
    Need("UPDATE", "apps", "v1", "replicasets", "status", OWN, "the controller of replica sets keeps its state"),
    Need("CREATE", "", "v1", "serviceaccounts", "token", OWN, "kubelets fetch tokens for its pods"),
    Need("UPDATE", "", "v1", "services", "", OWN, "its Service is mended"),
    Need("UPDATE", "", "v1", "endpoints", "", OWN, "its Service gets addresses"),
    Need("UPDATE", "discovery.k8s.io", "v1", "endpointslices", "", OWN, "its Service gets addresses"),
    Need("UPDATE", "", "v1", "nodes", "status", "", "kubelets keep nodes ready"),
    Need("UPDATE", "coordination.k8s.io", "v1", "leases", "", _LEASES, "kubelets renew the leases of nodes"),
    Need("UPDATE", "coordination.k8s.io", "v1", "leases", "", SYSTEM_NAMESPACE, "controllers and scheduler hold their leases"),
)


class Lock(NamedTuple):
    """A request that a webhook's own server needs, and that the webhook would refuse while its server is down.

    `is_sure` is False where labels or match conditions decide.
    """

    configuration: str
    webhook: str
    service: str
    need: str
    namespace: str
    why: str
    is_sure: bool


class SystemReach(NamedTuple):
    """A webhook that requests in kube-system can reach. `locks`: with failurePolicy Fail, so that an outage refuses them.

    `is_sure` is False where labels or match conditions decide about all of its resources.
    """

    configuration: str
    webhook: str
    phase: str
    locks: bool
    is_sure: bool
    resources: str


def self_locks(chain: Chain, world: World) -> Iterator[Lock]:
    """The requests that servers of webhooks with failurePolicy Fail need, and that these webhooks match.

    `world` has the labels of namespaces. A webhook at a URL may run anywhere, so nothing is said about it.
    """
    for hook in chain.webhooks:
        service = hook.webhook.service
        if service is None or hook.webhook.failure_policy is not FailurePolicy.FAIL:
            continue
        for need in NEEDS:
            namespace = service[0] if need.namespace == OWN else need.namespace
            matched = _matches(hook, need, namespace, chain, world)
            if matched is not False:
                yield Lock(
                    hook.configuration, hook.webhook.name, "/".join(service), need.name, namespace, need.why, matched is True
                )


def reaching_system(chain: Chain, world: World) -> Iterator[SystemReach]:
    """The webhooks that requests on namespaced objects of kube-system can reach."""
    for hook in chain.webhooks:
        found = {named: _matches(hook, need, SYSTEM_NAMESPACE, chain, world) for named, need in _of_rules(hook)}
        named = [name for name, matched in found.items() if matched is not False]
        if named:
            locks = hook.webhook.failure_policy is FailurePolicy.FAIL
            is_sure = any(matched is True for matched in found.values())
            yield SystemReach(hook.configuration, hook.webhook.name, str(hook.phase), locks, is_sure, ", ".join(named))


def _of_rules(hook: CompiledWebhook) -> Iterator[tuple[str, Need]]:
    """One request for each resource in the rules of a webhook, where the resource is or may be namespaced; pods stand for `*`."""
    for rule in hook.webhook.criteria.resource_rules:
        for entry, group in product(rule.resources, rule.api_groups):
            resource, _, subresource = entry.partition("/")
            own = "" if group == "*" and resource in ("*", "pods") else group
            known = by_resource(own, "pods" if resource == "*" else resource)
            if rule.scope == "Cluster" or (known and not known.namespaced):
                continue
            operation = "CREATE" if "*" in rule.operations else rule.operations[0]
            version = "v1" if "*" in rule.api_versions else rule.api_versions[0]
            plain = "pods" if resource == "*" else resource
            need = Need(operation, own, version, plain, "" if subresource == "*" else subresource, SYSTEM_NAMESPACE, "")
            yield (f"{entry}.{group}" if group not in ("", "*") else entry), need


def _matches(hook: CompiledWebhook, need: Need, namespace: str, chain: Chain, world: World) -> bool | None:
    """Whether a webhook is called for such a request; None where labels or match conditions decide."""
    resource = GroupVersionResource(need.group, need.version, need.resource)
    target = Target(need.operation, resource, need.subresource, bool(namespace))
    if hook not in chain.candidates(target):
        return False
    request = AdmissionRequest(
        cluster="",
        audit_id="",
        pass_index=0,
        ts=_ANY_TIME,
        operation=Operation(need.operation),
        kind=_ANY,
        resource=resource,
        subresource=need.subresource,
        namespace=namespace,
        name=_ANY,
        user=UserInfo(is_whole=False),
        dry_run=False,
        options=_ANY,
        object=_ANY,
        old_object=_ANY,
    )
    call = match_webhook(hook, request, target, chain.given.over(world), None)
    if call is None or call.decision is Called.NOMATCH:
        return False
    return True if call.decision is Called.CALLED else None
