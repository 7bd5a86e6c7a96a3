"""The kind of each built-in resource, and whether it is namespaced.

An audit event names the resource (`deployments`) and a policy names the kind (`Deployment`). Only discovery joins the two, and
events do not record discovery, so this table holds the resources that kube-apiserver serves. A kind is the same in all versions
of its API, so rows carry no version.
Source: kubernetes/kubernetes pkg/registry/*/rest/storage_*.go and kubernetes/api, releases 1.30 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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


def _rows() -> Iterator[Resource]:
    for line in _TABLE.strip().splitlines():
        group, *pairs = line.split()
        for pair in pairs:
            resource, kind = pair.split("=")
            yield Resource("" if group == "core" else group, resource.lstrip("-"), kind, not resource.startswith("-"))


BUILT_IN = tuple(_rows())
_MACRO = """\
-- the kind of a built-in resource; null for any other
-- api_group: of objectRef
-- resource: of objectRef
CREATE MACRO built_in_kind(api_group, resource) AS CASE concat(resource, '.', api_group)
{cases}
END
"""


def macros() -> dict[str, str]:
    """The macro that names the kind of a resource, as the text of a file of queries/macros, by name."""
    cases = "\n".join(f"    WHEN '{row.resource}.{row.group}' THEN '{row.kind}'" for row in BUILT_IN)
    return {"built_in_kind": _MACRO.format(cases=cases)}
