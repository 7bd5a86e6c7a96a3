"""The kind of each built-in resource, and whether it is namespaced.

An audit event names the resource (`deployments`) and a policy names the kind (`Deployment`). Only discovery joins the two, and
events do not record discovery, so this table holds the resources that kube-apiserver serves. A kind is the same in all versions
of its API, so rows carry no version. A version was served if the server answered the request.
Source: kubernetes/kubernetes pkg/registry/*/rest/storage_*.go and kubernetes/api, releases 1.30 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..request import GroupVersionKind, GroupVersionResource


@dataclass(frozen=True, slots=True)
class Resource:
    """A built-in resource of the API server."""

    group: str
    resource: str
    kind: str
    namespaced: bool


# One line per API group: the group ("core" is the empty one), then resource=Kind. A leading "-" marks a cluster-scoped resource.
_TABLE = """
core bindings=Binding -componentstatuses=ComponentStatus configmaps=ConfigMap endpoints=Endpoints events=Event
core limitranges=LimitRange -namespaces=Namespace -nodes=Node persistentvolumeclaims=PersistentVolumeClaim
core -persistentvolumes=PersistentVolume pods=Pod
core podtemplates=PodTemplate replicationcontrollers=ReplicationController resourcequotas=ResourceQuota secrets=Secret
core serviceaccounts=ServiceAccount services=Service
admissionregistration.k8s.io -mutatingadmissionpolicies=MutatingAdmissionPolicy
admissionregistration.k8s.io -mutatingadmissionpolicybindings=MutatingAdmissionPolicyBinding
admissionregistration.k8s.io -mutatingwebhookconfigurations=MutatingWebhookConfiguration
admissionregistration.k8s.io -validatingadmissionpolicies=ValidatingAdmissionPolicy
admissionregistration.k8s.io -validatingadmissionpolicybindings=ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io -validatingwebhookconfigurations=ValidatingWebhookConfiguration
apiextensions.k8s.io -customresourcedefinitions=CustomResourceDefinition
apiregistration.k8s.io -apiservices=APIService
apps controllerrevisions=ControllerRevision daemonsets=DaemonSet deployments=Deployment replicasets=ReplicaSet
apps statefulsets=StatefulSet
authentication.k8s.io -selfsubjectreviews=SelfSubjectReview -tokenreviews=TokenReview
authorization.k8s.io localsubjectaccessreviews=LocalSubjectAccessReview -selfsubjectaccessreviews=SelfSubjectAccessReview
authorization.k8s.io -selfsubjectrulesreviews=SelfSubjectRulesReview -subjectaccessreviews=SubjectAccessReview
autoscaling horizontalpodautoscalers=HorizontalPodAutoscaler
batch cronjobs=CronJob jobs=Job
certificates.k8s.io -certificatesigningrequests=CertificateSigningRequest -clustertrustbundles=ClusterTrustBundle
certificates.k8s.io podcertificaterequests=PodCertificateRequest
coordination.k8s.io leases=Lease leasecandidates=LeaseCandidate
discovery.k8s.io endpointslices=EndpointSlice
events.k8s.io events=Event
extensions daemonsets=DaemonSet deployments=Deployment ingresses=Ingress networkpolicies=NetworkPolicy replicasets=ReplicaSet
flowcontrol.apiserver.k8s.io -flowschemas=FlowSchema -prioritylevelconfigurations=PriorityLevelConfiguration
internal.apiserver.k8s.io -storageversions=StorageVersion
networking.k8s.io ingresses=Ingress -ingressclasses=IngressClass -ipaddresses=IPAddress networkpolicies=NetworkPolicy
networking.k8s.io -servicecidrs=ServiceCIDR
node.k8s.io -runtimeclasses=RuntimeClass
policy poddisruptionbudgets=PodDisruptionBudget -podsecuritypolicies=PodSecurityPolicy
rbac.authorization.k8s.io -clusterrolebindings=ClusterRoleBinding -clusterroles=ClusterRole rolebindings=RoleBinding roles=Role
resource.k8s.io -deviceclasses=DeviceClass -devicetaintrules=DeviceTaintRule resourceclaims=ResourceClaim
resource.k8s.io resourceclaimtemplates=ResourceClaimTemplate -resourceslices=ResourceSlice
scheduling.k8s.io -priorityclasses=PriorityClass workloads=Workload podgroups=PodGroup
storage.k8s.io -csidrivers=CSIDriver -csinodes=CSINode csistoragecapacities=CSIStorageCapacity -storageclasses=StorageClass
storage.k8s.io -volumeattachments=VolumeAttachment -volumeattributesclasses=VolumeAttributesClass
storagemigration.k8s.io -storageversionmigrations=StorageVersionMigration
metrics.k8s.io -nodes=NodeMetrics pods=PodMetrics
"""

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


def _rows() -> Iterator[Resource]:
    for line in _TABLE.strip().splitlines():
        group, *pairs = line.split()
        for pair in pairs:
            resource, kind = pair.split("=")
            yield Resource("" if group == "core" else group, resource.lstrip("-"), kind, not resource.startswith("-"))


_BY_RESOURCE = {(row.group, row.resource): row for row in _rows()}
_BY_KIND = {(row.group, row.kind): row for row in _rows()}


def may_be_served(api_version: str) -> bool:
    """Whether kube-apiserver serves an API version of a built-in group, or may do so where an operator switched it on."""
    group, _, version = api_version.rpartition("/")
    return version in _VERSIONS[group] if group in _VERSIONS else True


def built_in_resources() -> Iterable[Resource]:
    """Every built-in resource."""
    return _BY_RESOURCE.values()


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
