"""The changes that the server makes to an object before validating admission, as far as they do not depend on the cluster.

They are needed for objects of refused requests, which no response shows. Some values cannot be known and are left out: the uid,
the random name of a pod's token volume, priorities and limits that other objects of the cluster define, allocated addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from ..request import GroupVersionResource, Object
from .kinds import by_resource

# `status` as the strategy of a built-in kind leaves it at creation: the zero value of its Go type, or a first phase.
_FIRST_STATUS: dict[tuple[str, str], Object] = {
    ("", "namespaces"): {"phase": "Active"},
    ("", "persistentvolumeclaims"): {},
    ("", "persistentvolumes"): {"phase": "Pending"},
    ("", "replicationcontrollers"): {"replicas": 0},
    ("", "resourcequotas"): {},
    ("", "services"): {"loadBalancer": {}},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    ("apps", "deployments"): {},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"replicas": 0, "availableReplicas": 0},
    ("autoscaling", "horizontalpodautoscalers"): {"desiredReplicas": 0, "currentMetrics": None},
    ("batch", "cronjobs"): {},
    ("batch", "jobs"): {},
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): {},
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): {},
    ("networking.k8s.io", "ingresses"): {"loadBalancer": {}},
    ("networking.k8s.io", "servicecidrs"): {},
    ("policy", "poddisruptionbudgets"): {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
}

# Built-in resources whose strategy counts generations from 1. All custom resources do.
_COUNTS_GENERATIONS = frozenset(
    {
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)

# Built-in resources to which the API adds nothing (kubernetes pkg/apis/*/*/defaults.go).
_WITHOUT_DEFAULTS = frozenset(
    {
        ("", "configmaps"),
        ("", "namespaces"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("coordination.k8s.io", "leases"),
        ("networking.k8s.io", "ingresses"),
        ("policy", "poddisruptionbudgets"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)

# Lists and maps of metadata that Go leaves out when they are empty.
_OMITTED_WHEN_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")

_NOT_READY = "node.kubernetes.io/not-ready"
_TOLERATED = (_NOT_READY, "node.kubernetes.io/unreachable")

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}

# Where a kind keeps its pod spec.
_POD_SPECS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): ("spec",),
    ("", "podtemplates"): ("template", "spec"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        (
            ("", "replicationcontrollers"),
            ("apps", "daemonsets"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("batch", "jobs"),
        ),
        ("spec", "template", "spec"),
    ),
}


def has_defaults(resource: GroupVersionResource) -> bool:
    """Whether the API may add fields to an object that leaves them out. It does not read schemas of custom resources."""
    place = (resource.group, resource.resource)
    return by_resource(*place) is not None and place not in _WITHOUT_DEFAULTS


def schema_sets_defaults(definition: Object, version: str) -> bool:
    """Whether the schema of one version of a CustomResourceDefinition has a default; also True where it has no schema."""
    versions = [each for each in definition["spec"].get("versions") or () if each.get("name") == version]
    nodes: list[Any] = [(each.get("schema") or {}).get("openAPIV3Schema") for each in versions]
    if not nodes or not all(nodes):
        return True
    while nodes:
        node = nodes.pop()
        if not isinstance(node, dict):
            continue
        if "default" in node:
            return True
        nodes += [node.get("items"), node.get("additionalProperties"), *(node.get("properties") or {}).values()]
    return False


def keeps_status(resource: GroupVersionResource) -> bool:
    """Whether a write of the main resource cannot change `status`. False for custom resources: it depends on their definition."""
    return (resource.group, resource.resource) in _FIRST_STATUS or resource.resource in ("pods", "nodes")


def prepare_for_create(value: Object, resource: GroupVersionResource) -> None:
    """Apply to a new object the changes that its strategy and the in-tree admission plugins always make."""
    place = (resource.group, resource.resource)
    metadata = value.setdefault("metadata", {})
    metadata.pop("resourceVersion", None)
    if place in _COUNTS_GENERATIONS or by_resource(*place) is None:
        metadata["generation"] = 1
    if place in _FIRST_STATUS:
        value["status"] = deepcopy(_FIRST_STATUS[place])
    if place in _PREPARED:
        _PREPARED[place](value)
    default_parts(value, resource)
    leave_out_empty(value, resource)


def counts_generation(value: Object, old: Object, resource: GroupVersionResource) -> bool:
    """Whether an update of the main resource raises `metadata.generation`."""
    place = (resource.group, resource.resource)
    if place not in _COUNTS_GENERATIONS and by_resource(*place) is not None:
        return False
    if by_resource(*place) is None:
        return _without_status(value) != _without_status(old)
    if place == ("apps", "deployments") and _annotations(value) != _annotations(old):
        return True  # deployment/strategy.go counts annotations as well: rollouts copy them
    if place == ("discovery.k8s.io", "endpointslices"):
        labels = (value.get("metadata", {}).get("labels") or {}, old.get("metadata", {}).get("labels") or {})
        return _without_status(value) != _without_status(old) or labels[0] != labels[1]
    part = "webhooks" if place[1] in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations") else "spec"
    return bool(value.get(part) != old.get(part))


def default_parts(value: Object, resource: GroupVersionResource) -> None:
    """Give ports and containers that a patch or webhook added the defaults of the API (kubernetes pkg/apis/core/v1/defaults.go)."""
    if (resource.group, resource.resource) == ("", "services"):
        for port in _objects((value.get("spec") or {}).get("ports")):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
    spec: Any = value
    for name in _POD_SPECS.get((resource.group, resource.resource), ("",)):
        spec = spec.get(name) if isinstance(spec, dict) else None
    if isinstance(spec, dict):
        for kind in ("initContainers", "containers", "ephemeralContainers"):
            for container in _objects(spec.get(kind)):
                _default_container(container)


def _objects(value: Any) -> list[Object]:
    """The objects of a list. A recorded patch of a webhook may leave anything in its place."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _part(value: Object, name: str) -> Object:
    """A part of an object, which it gets if it has none: Go reads null as an empty struct."""
    if value.get(name) is None:
        value[name] = {}
    part: Object = value[name]
    return part


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _default_container(container: Object) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := container.get(name), dict):
            for field, number in _PROBE.items():
                probe.setdefault(field, number)
            if isinstance(request := probe.get("httpGet"), dict):
                request.setdefault("path", "/")
                request.setdefault("scheme", "HTTP")


def leave_out_empty(value: Object, resource: GroupVersionResource) -> None:
    """Drop empty fields that Go does not write: a patched built-in object has passed through its Go type."""
    metadata = value.get("metadata", {})
    is_configmap = (resource.group, resource.resource) == ("", "configmaps")
    maps: list[Any] = [metadata.get("labels"), metadata.get("annotations"), value.get("data") if is_configmap else None]
    for texts in maps:
        if isinstance(texts, dict):
            # Go reads null in a map of texts as an empty text.
            texts.update({key: "" for key, text in texts.items() if text is None})
    for name in _OMITTED_WHEN_EMPTY:
        if name in metadata and not metadata[name] and by_resource(resource.group, resource.resource):
            del metadata[name]


def _prepare_namespace(value: Object) -> None:
    finalizers = _part(value, "spec").setdefault("finalizers", [])
    if isinstance(finalizers, list) and "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def as_stored_namespace(value: Object) -> None:
    """Add to a Namespace, as a client sent it, the parts that its strategy sets (registry/core/namespace/strategy.go)."""
    _prepare_namespace(value)
    is_ending = "deletionTimestamp" in value["metadata"]
    value["status"] = (value.get("status") or {}) | {"phase": "Terminating" if is_ending else "Active"}


def prepare_by_plugins(value: Object, resource: GroupVersionResource) -> None:
    """Apply to a new object the changes that in-tree admission plugins always make before any policy or webhook.

    Of the plugins that are on by default (kubernetes pkg/kubeapiserver/options/plugins.go) these do not depend on the cluster:
    ServiceAccount and DefaultTolerationSeconds, StorageObjectInUseProtection, and TaintNodesByCondition. LimitRanger, Priority,
    RuntimeClass, DefaultStorageClass, DefaultIngressClass and PodTopologyLabels do, and their changes are not known.
    """
    place = (resource.group, resource.resource)
    if place in _ADMITTED:
        _ADMITTED[place](value)


def _protect(finalizer: str, value: Object) -> None:
    """StorageObjectInUseProtection (kubernetes plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go)."""
    finalizers = value.setdefault("metadata", {}).get("finalizers") or []
    if isinstance(finalizers, list) and finalizer not in finalizers:
        value["metadata"]["finalizers"] = [*finalizers, finalizer]


def _taint_node(value: Object) -> None:
    """TaintNodesByCondition: a new node takes no pods (kubernetes plugin/pkg/admission/nodetaint/admission.go)."""
    spec = _part(value, "spec")
    taints = spec.get("taints") or []
    found = any((taint.get("key"), taint.get("effect")) == (_NOT_READY, "NoSchedule") for taint in _objects(taints))
    if isinstance(taints, list) and not found:
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _admit_pod(value: Object) -> None:
    """ServiceAccount and DefaultTolerationSeconds admission."""
    spec = _part(value, "spec")
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    tolerations = _objects(spec.get("tolerations"))
    for key in _TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _prepare_pod(value: Object) -> None:
    """Admission of pods, and podStrategy.PrepareForCreate."""
    _admit_pod(value)
    spec = value["spec"]
    value["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def _tolerates(toleration: Object, key: str) -> bool:
    matches_key = toleration.get("key") == key or not toleration.get("key")
    return matches_key and toleration.get("effect") in (None, "", "NoExecute")


def qos_class(spec: Object) -> str:
    """The quality-of-service class of a pod spec whose requests have been defaulted from limits (core/helper/qos.ComputePodQOS)."""
    containers = [each for kind in ("initContainers", "containers") for each in _objects(spec.get(kind))]
    resources = [_object(each.get("resources")) for each in containers]
    named = [{kind: _object(entry.get(kind)) for kind in ("requests", "limits")} for entry in resources]
    if not any(entry["requests"] or entry["limits"] for entry in named):
        return "BestEffort"
    for entry in named:
        if any(name not in entry["limits"] for name in ("cpu", "memory")):
            return "Burstable"
        if any(entry["requests"].get(name, limit) != limit for name, limit in entry["limits"].items()):
            return "Burstable"
    return "Guaranteed"


_ADMITTED: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "nodes"): _taint_node,
    ("", "persistentvolumeclaims"): partial(_protect, "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes"): partial(_protect, "kubernetes.io/pv-protection"),
    ("", "pods"): _admit_pod,
}
_PREPARED = {**_ADMITTED, ("", "namespaces"): _prepare_namespace, ("", "pods"): _prepare_pod}


def _annotations(value: Object) -> Object:
    return value.get("metadata", {}).get("annotations") or {}


def _without_status(value: Object) -> Object:
    return {name: entry for name, entry in value.items() if name not in ("metadata", "status", "apiVersion")}
