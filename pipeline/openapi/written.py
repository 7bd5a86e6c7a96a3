"""The fields of built-in kinds of batch, autoscaling/v2, networking, rbac, policy and discovery, as Hindcast knows them.

The facts are those of Kubernetes 1.36, from the types of k8s.io/api (types.go of each group): names of fields, their types, how
their lists merge, and what Go leaves out. Alpha fields of later minor versions are not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

_CORE: Final = "io.k8s.api.core.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
# The types of other packages that these groups name.
_ELSEWHERE: Final = {
    **{name: f"{_META}{name}" for name in ("Condition", "LabelSelector", "ObjectMeta", "Time")},
    **{name: f"{_CORE}{name}" for name in ("ObjectReference", "PodTemplateSpec", "TypedLocalObjectReference")},
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
}
_SCALARS: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
}

# A line of a group and its version; then its types, a line each: the name, and the fields with their types. `[T]` is an atomic
# list, `{T}` a set, `[T/key]` a list that merges by a key, `<T>` a map. `!` after a field: Go writes it even if it is empty,
# because its tag has no omitempty; `*`: it is a pointer. `=` after a type: it is replaced as a whole. A name in parentheses is
# the resource of a kind, in brackets that of a kind without namespaces.
_TYPES: Final = """
group batch/v1
  Job(jobs) metadata:ObjectMeta spec:JobSpec status:JobStatus
  JobSpec parallelism*:int32 completions*:int32 activeDeadlineSeconds*:int64 podFailurePolicy*:PodFailurePolicy
    successPolicy*:SuccessPolicy backoffLimit*:int32 backoffLimitPerIndex*:int32 maxFailedIndexes*:int32 selector*:LabelSelector
    manualSelector*:flag template!:PodTemplateSpec ttlSecondsAfterFinished*:int32 completionMode*:text suspend*:flag
    podReplacementPolicy*:text managedBy*:text
  PodFailurePolicy rules!:[PodFailurePolicyRule]
  PodFailurePolicyRule action!:text onExitCodes*:PodFailurePolicyOnExitCodesRequirement
    onPodConditions:[PodFailurePolicyOnPodConditionsPattern]
  PodFailurePolicyOnExitCodesRequirement containerName*:text operator!:text values!:{int32}
  PodFailurePolicyOnPodConditionsPattern type!:text status!:text
  SuccessPolicy rules!:[SuccessPolicyRule]
  SuccessPolicyRule succeededIndexes*:text succeededCount*:int32
  JobStatus conditions:[JobCondition] startTime*:Time completionTime*:Time active:int32 succeeded:int32 failed:int32
    terminating*:int32 completedIndexes:text failedIndexes*:text uncountedTerminatedPods*:UncountedTerminatedPods ready*:int32
  UncountedTerminatedPods succeeded:{text} failed:{text}
  JobCondition type!:text status!:text lastProbeTime:Time lastTransitionTime:Time reason:text message:text
  CronJob(cronjobs) metadata:ObjectMeta spec:CronJobSpec status:CronJobStatus
  CronJobSpec schedule!:text timeZone*:text startingDeadlineSeconds*:int64 concurrencyPolicy:text suspend*:flag
    jobTemplate!:JobTemplateSpec successfulJobsHistoryLimit*:int32 failedJobsHistoryLimit*:int32
  JobTemplateSpec metadata:ObjectMeta spec:JobSpec
  CronJobStatus active:[ObjectReference] lastScheduleTime*:Time lastSuccessfulTime*:Time

group autoscaling/v2
  HorizontalPodAutoscaler(horizontalpodautoscalers) metadata:ObjectMeta spec:HorizontalPodAutoscalerSpec
    status:HorizontalPodAutoscalerStatus
  HorizontalPodAutoscalerSpec scaleTargetRef!:CrossVersionObjectReference minReplicas*:int32 maxReplicas!:int32
    metrics:[MetricSpec] behavior*:HorizontalPodAutoscalerBehavior
  CrossVersionObjectReference kind!:text name!:text apiVersion:text
  MetricSpec type!:text object*:ObjectMetricSource pods*:PodsMetricSource resource*:ResourceMetricSource
    containerResource*:ContainerResourceMetricSource external*:ExternalMetricSource
  HorizontalPodAutoscalerBehavior scaleUp*:HPAScalingRules scaleDown*:HPAScalingRules
  HPAScalingRules stabilizationWindowSeconds*:int32 selectPolicy*:text policies:[HPAScalingPolicy] tolerance*:Quantity
  HPAScalingPolicy type!:text value!:int32 periodSeconds!:int32
  ObjectMetricSource describedObject!:CrossVersionObjectReference target!:MetricTarget metric!:MetricIdentifier
  PodsMetricSource metric!:MetricIdentifier target!:MetricTarget
  ResourceMetricSource name!:text target!:MetricTarget
  ContainerResourceMetricSource name!:text target!:MetricTarget container!:text
  ExternalMetricSource metric!:MetricIdentifier target!:MetricTarget
  MetricIdentifier name!:text selector*:LabelSelector
  MetricTarget type!:text value*:Quantity averageValue*:Quantity averageUtilization*:int32
  HorizontalPodAutoscalerStatus observedGeneration*:int64 lastScaleTime*:Time currentReplicas:int32 desiredReplicas!:int32
    currentMetrics!:[MetricStatus] conditions:[HorizontalPodAutoscalerCondition/type]
  HorizontalPodAutoscalerCondition type!:text status!:text lastTransitionTime:Time reason:text message:text
    observedGeneration*:int64
  MetricStatus type!:text object*:ObjectMetricStatus pods*:PodsMetricStatus resource*:ResourceMetricStatus
    containerResource*:ContainerResourceMetricStatus external*:ExternalMetricStatus
  ObjectMetricStatus metric!:MetricIdentifier current!:MetricValueStatus describedObject!:CrossVersionObjectReference
  PodsMetricStatus metric!:MetricIdentifier current!:MetricValueStatus
  ResourceMetricStatus name!:text current!:MetricValueStatus
  ContainerResourceMetricStatus name!:text current!:MetricValueStatus container!:text
  ExternalMetricStatus metric!:MetricIdentifier current!:MetricValueStatus
  MetricValueStatus value*:Quantity averageValue*:Quantity averageUtilization*:int32

group networking.k8s.io/v1
  NetworkPolicy(networkpolicies) metadata:ObjectMeta spec:NetworkPolicySpec
  NetworkPolicySpec podSelector!:LabelSelector ingress:[NetworkPolicyIngressRule] egress:[NetworkPolicyEgressRule]
    policyTypes:[text]
  NetworkPolicyIngressRule ports:[NetworkPolicyPort] from:[NetworkPolicyPeer]
  NetworkPolicyEgressRule ports:[NetworkPolicyPort] to:[NetworkPolicyPeer]
  NetworkPolicyPort protocol*:text port*:IntOrString endPort*:int32
  NetworkPolicyPeer podSelector*:LabelSelector namespaceSelector*:LabelSelector ipBlock*:IPBlock
  IPBlock cidr!:text except:[text]
  Ingress(ingresses) metadata:ObjectMeta spec:IngressSpec status:IngressStatus
  IngressSpec ingressClassName*:text defaultBackend*:IngressBackend tls:[IngressTLS] rules:[IngressRule]
  IngressTLS hosts:[text] secretName:text
  IngressRule host:text http*:HTTPIngressRuleValue
  HTTPIngressRuleValue paths!:[HTTPIngressPath]
  HTTPIngressPath path:text pathType!*:text backend!:IngressBackend
  IngressBackend service*:IngressServiceBackend resource*:TypedLocalObjectReference
  IngressServiceBackend name!:text port:ServiceBackendPort
  ServiceBackendPort= name:text number:int32
  IngressStatus loadBalancer:IngressLoadBalancerStatus
  IngressLoadBalancerStatus ingress:[IngressLoadBalancerIngress]
  IngressLoadBalancerIngress ip:text hostname:text ports:[IngressPortStatus]
  IngressPortStatus port!:int32 protocol!:text error*:text
  IngressClass[ingressclasses] metadata:ObjectMeta spec:IngressClassSpec
  IngressClassSpec controller:text parameters*:IngressClassParametersReference
  IngressClassParametersReference apiGroup*:text kind!:text name!:text scope!*:text namespace*:text
  IPAddress[ipaddresses] metadata:ObjectMeta spec:IPAddressSpec
  IPAddressSpec parentRef*:ParentReference
  ParentReference group:text resource:text namespace:text name:text
  ServiceCIDR[servicecidrs] metadata:ObjectMeta spec:ServiceCIDRSpec status:ServiceCIDRStatus
  ServiceCIDRSpec cidrs:[text]
  ServiceCIDRStatus conditions:[Condition/type]

group rbac.authorization.k8s.io/v1
  Role(roles) metadata:ObjectMeta rules!:[PolicyRule]
  ClusterRole[clusterroles] metadata:ObjectMeta rules!:[PolicyRule] aggregationRule*:AggregationRule
  PolicyRule verbs!:[text] apiGroups:[text] resources:[text] resourceNames:[text] nonResourceURLs:[text]
  AggregationRule clusterRoleSelectors:[LabelSelector]
  RoleBinding(rolebindings) metadata:ObjectMeta subjects:[Subject] roleRef!:RoleRef
  ClusterRoleBinding[clusterrolebindings] metadata:ObjectMeta subjects:[Subject] roleRef!:RoleRef
  Subject= kind!:text apiGroup:text name!:text namespace:text
  RoleRef= apiGroup!:text kind!:text name!:text

group policy/v1
  PodDisruptionBudget(poddisruptionbudgets) metadata:ObjectMeta spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
  PodDisruptionBudgetSpec minAvailable*:IntOrString selector*:LabelSelector maxUnavailable*:IntOrString
    unhealthyPodEvictionPolicy*:text
  PodDisruptionBudgetStatus observedGeneration:int64 disruptedPods:<Time> disruptionsAllowed!:int32 currentHealthy!:int32
    desiredHealthy!:int32 expectedPods!:int32 conditions:[Condition/type]

group discovery.k8s.io/v1
  EndpointSlice(endpointslices) metadata:ObjectMeta addressType!:text endpoints!:[Endpoint] ports!:[EndpointPort]
  Endpoint addresses!:{text} conditions:EndpointConditions hostname*:text targetRef*:ObjectReference deprecatedTopology:<text>
    nodeName*:text zone*:text hints*:EndpointHints
  EndpointConditions ready*:flag serving*:flag terminating*:flag
  EndpointHints forZones:[ForZone] forNodes:[ForNode]
  ForZone name!:text
  ForNode name!:text
  EndpointPort= name*:text protocol*:text port*:int32 appProtocol*:text
"""


class _Field(NamedTuple):
    """A field of a Go type. An empty one is written if it is a pointer, or if its tag lacks omitempty."""

    type: str
    is_always_written: bool
    is_pointer: bool

    @property
    def is_list(self) -> bool:
        return self.type[0] in "[{"


class _Type(NamedTuple):
    """A Go type. `resource` is that of a kind, else empty."""

    group: str
    version: str
    name: str
    resource: str
    is_namespaced: bool
    is_atomic: bool
    fields: dict[str, _Field]

    @property
    def full_name(self) -> str:
        """Its name in an OpenAPI document."""
        return f"io.k8s.api.{self.group.partition('.')[0]}.{self.version}.{self.name}"


def written_document() -> dict[str, Any]:
    """One OpenAPI v3 document with these kinds; its `paths` say only which kind each resource has."""
    types = _types().values()
    paths = dict(path for each in types if each.resource for path in _paths(each))
    return {"paths": paths, "components": {"schemas": {each.full_name: _schema(each) for each in types}}}


def is_written_here(name: str) -> bool:
    """Whether the type of a schema is one of these."""
    return name in _types()


def leaves_out_empty(name: str, field: str) -> bool:
    """Whether Go leaves out a field of one of these types where it is empty."""
    found = _types()[name].fields.get(field)
    return found is not None and not found.is_always_written and not found.is_pointer


@cache
def lists_always_written(name: str) -> frozenset[str]:
    """The fields of one of these types that are lists without omitempty."""
    return frozenset(field for field, each in _types()[name].fields.items() if each.is_list and each.is_always_written)


@cache
def _types() -> dict[str, _Type]:
    found: dict[str, _Type] = {}
    group = version = ""
    for words in _lines():
        if words[0] == "group":
            group, _, version = words[1].rpartition("/")
            continue
        head = words[0]
        is_atomic, head = head.endswith("="), head.removesuffix("=")
        is_namespaced = head.endswith(")")
        name, _, resource = head.rstrip(")]").replace("[", "(").partition("(")
        each = _Type(group, version, name, resource, is_namespaced, is_atomic, dict(map(_field, words[1:])))
        found[each.full_name] = each
    return found


def _lines() -> Iterator[list[str]]:
    """The words of each group and type; a type goes on in lines that are indented further."""
    words: list[str] = []
    for line in _TYPES.splitlines():
        if line.startswith("    "):
            words += line.split()
            continue
        if words:
            yield words
        words = line.split()
    if words:
        yield words


def _field(word: str) -> tuple[str, _Field]:
    name, _, kind = word.partition(":")
    marks = name[len(name.rstrip("!*")) :]
    return name.rstrip("!*"), _Field(kind, "!" in marks, "*" in marks)


def _schema(each: _Type) -> dict[str, Any]:
    prefix = each.full_name.removesuffix(each.name)
    properties = {name: _type_schema(field.type, prefix) for name, field in each.fields.items()}
    required = [name for name, field in each.fields.items() if field.is_always_written]
    schema: dict[str, Any] = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    if each.is_atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if each.resource:
        schema["properties"] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, **properties}
        schema["x-kubernetes-group-version-kind"] = [_kind(each)]
    return schema


def _type_schema(kind: str, prefix: str) -> dict[str, Any]:
    inner, _, key = kind[1:-1].partition("/")
    match kind[0]:
        case "<":
            return {"type": "object", "additionalProperties": _type_schema(inner, prefix)}
        case "[" | "{":
            list_type = "set" if kind[0] == "{" else "map" if key else "atomic"
            keys = {"x-kubernetes-list-map-keys": [key]} if key else {}
            return {"type": "array", "items": _type_schema(inner, prefix), "x-kubernetes-list-type": list_type, **keys}
    return _SCALARS.get(kind) or {"$ref": f"#/components/schemas/{_ELSEWHERE.get(kind, prefix + kind)}"}


def _kind(each: _Type) -> dict[str, str]:
    return {"group": each.group, "version": each.version, "kind": each.name}


def _paths(each: _Type) -> Iterator[tuple[str, Any]]:
    within = "namespaces/{namespace}/" if each.is_namespaced else ""
    yield f"/apis/{each.group}/{each.version}/{within}{each.resource}", {"get": {"x-kubernetes-group-version-kind": _kind(each)}}
