"""Which empty fields the Go types of built-in kinds write: no OpenAPI document tells.

The Go types have the tag `omitempty` on most optional fields: an empty text, false, 0, an empty list or an empty map is left out
there, unless the field is a pointer. The facts are from the types of k8s.io/api core/v1, apps/v1 and autoscaling/v1, and of
k8s.io/apimachinery meta/v1 (types.go of each). `written.py` tells it of the types of other groups.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from .written import is_written_here, leaves_out_empty, lists_always_written


def _fields(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of type and field in lines of a type and its fields."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return frozenset((struct.strip(), field) for struct, fields in rows for field in fields.split())


# Optional texts and flags that are pointers: an empty one is written.
_POINTERS: Final = _fields(
    """
    AppArmorProfile: localhostProfile
    AzureDiskVolumeSource: cachingMode fsType kind readOnly
    AzureFilePersistentVolumeSource: secretNamespace
    CSIVolumeSource: fsType readOnly
    ClusterTrustBundleProjection: name optional signerName
    ConfigMap: immutable
    ConfigMapEnvSource: optional
    ConfigMapKeySelector: optional
    ConfigMapProjection: optional
    ConfigMapVolumeSource: optional
    Container: restartPolicy
    ContainerStatus: started stopSignal
    EndpointAddress: nodeName
    EndpointPort: appProtocol
    EphemeralContainer: restartPolicy
    FileKeySelector: optional
    GRPCAction: service
    GlusterfsPersistentVolumeSource: endpointsNamespace
    HostPathVolumeSource: type
    ISCSIPersistentVolumeSource: initiatorName
    ISCSIVolumeSource: initiatorName
    Lifecycle: stopSignal
    LoadBalancerIngress: ipMode
    LocalVolumeSource: fsType
    NodeFeatures: supplementalGroupsPolicy
    NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts userNamespaces
    OwnerReference: blockOwnerDeletion controller
    PersistentVolumeClaimSpec: storageClassName volumeAttributesClassName volumeMode
    PersistentVolumeClaimStatus: currentVolumeAttributesClassName
    PersistentVolumeSpec: volumeAttributesClassName volumeMode
    PodDNSConfigOption: value
    PodResourceClaim: resourceClaimName resourceClaimTemplateName
    PodResourceClaimStatus: resourceClaimName
    PodSchedulingGroup: podGroupName
    PodSecurityContext: fsGroupChangePolicy runAsNonRoot seLinuxChangePolicy supplementalGroupsPolicy
    PodSpec: automountServiceAccountToken enableServiceLinks hostUsers hostnameOverride preemptionPolicy runtimeClassName
    PodSpec: setHostnameAsFQDN shareProcessNamespace
    PortStatus: error
    ResourceHealth: message
    SeccompProfile: localhostProfile
    Secret: immutable
    SecretEnvSource: optional
    SecretKeySelector: optional
    SecretProjection: optional
    SecretVolumeSource: optional
    SecurityContext: allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsNonRoot
    ServiceAccount: automountServiceAccountToken
    ServicePort: appProtocol
    ServiceSpec: allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass trafficDistribution
    TopologySpreadConstraint: nodeAffinityPolicy nodeTaintsPolicy
    TypedLocalObjectReference: apiGroup
    TypedObjectReference: apiGroup namespace
    VolumeMount: mountPropagation recursiveReadOnly
    VolumeMountStatus: recursiveReadOnly
    WindowsSecurityContextOptions: gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName
    """
)

# Optional numbers that are no pointers: 0 is left out.
_PLAIN_NUMBERS: Final = _fields(
    """
    AWSElasticBlockStoreVolumeSource: partition
    ContainerImage: sizeBytes
    ContainerPort: hostPort
    ContainerStateTerminated: signal
    DaemonSetSpec: minReadySeconds
    DaemonSetStatus: numberAvailable numberUnavailable observedGeneration updatedNumberScheduled
    DeploymentSpec: minReadySeconds
    DeploymentStatus: availableReplicas observedGeneration readyReplicas replicas unavailableReplicas updatedReplicas
    Event: count
    EventSeries: count
    GCEPersistentDiskVolumeSource: partition
    PodCondition: observedGeneration
    PodStatus: observedGeneration
    Probe: failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds
    ReplicaSetSpec: minReadySeconds
    ReplicaSetStatus: availableReplicas fullyLabeledReplicas observedGeneration readyReplicas
    ReplicationControllerSpec: minReadySeconds
    ReplicationControllerStatus: availableReplicas fullyLabeledReplicas observedGeneration readyReplicas
    ScaleSpec: replicas
    ServicePort: nodePort
    ServiceSpec: healthCheckNodePort
    StatefulSetSpec: minReadySeconds
    StatefulSetStatus: currentReplicas observedGeneration readyReplicas updatedReplicas
    """
)

# Lists without omitempty: a nil one is null.
_LISTS_WRITTEN: Final = _fields(
    """
    CephFSPersistentVolumeSource: monitors
    CephFSVolumeSource: monitors
    ContainerImage: names
    LimitRangeSpec: limits
    NodeSelector: nodeSelectorTerms
    PodExtendedResourceClaimStatus: requestMappings
    PodSpec: containers
    ProjectedVolumeSource: sources
    RBDPersistentVolumeSource: monitors
    RBDVolumeSource: monitors
    TokenRequestSpec: audiences
    """
)

# Optional texts without omitempty.
_TEXTS_WRITTEN: Final = _fields(
    """
    Event: reportingComponent reportingInstance
    NodeRuntimeHandler: name
    StatefulSetSpec: serviceName
    TokenRequestStatus: token
    """
)

# Texts that are required, and have omitempty.
_REQUIRED_AND_OMITTED: Final = _fields(
    """
    ContainerRestartRule: action
    ContainerRestartRuleOnExitCodes: operator
    ImageVolumeStatus: imageRef
    PodCertificateProjection: keyType signerName
    """
)


def is_left_out(value: Any, schema: str, field: str, is_required: bool) -> bool:
    """Whether Go leaves out an empty value of a field: `schema` is the name of the schema of its type."""
    if is_written_here(schema):
        return not value and leaves_out_empty(schema, field)
    place = (schema.rpartition(".")[2], field)
    if value is False or value == "":
        return place in _REQUIRED_AND_OMITTED or not (is_required or place in _POINTERS or place in _TEXTS_WRITTEN)
    if value == [] or value == {}:
        return place not in _LISTS_WRITTEN
    return place in _PLAIN_NUMBERS and value == 0


@cache
def lists_written(schema: str) -> frozenset[str]:
    """The fields of a type that are lists without omitempty."""
    if is_written_here(schema):
        return lists_always_written(schema)
    struct = schema.rpartition(".")[2]
    return frozenset(field for name, field in _LISTS_WRITTEN if name == struct)
