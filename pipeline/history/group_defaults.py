"""The defaults that the API sets in objects of batch, autoscaling/v2, networking, rbac and discovery.

Only those that are the same in every supported minor version (kubernetes pkg/apis/GROUP/VERSION/defaults.go).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from ..request import GroupVersionResource, Object

_RBAC: Final = "rbac.authorization.k8s.io"
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": [_PERCENT]}
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
}
_CPU: Final = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


def default_group(value: Object, resource: GroupVersionResource) -> None:
    """Set the defaults in an object. Parts of an odd type stay as they are: a recorded patch may leave anything."""
    if found := _DEFAULTS.get((resource.group, resource.version, resource.resource)):
        found(value)


def _spec(value: Object) -> Object:
    found = value.get("spec")
    return found if isinstance(found, dict) else {}


def _objects(value: Any) -> list[Object]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _set(part: Object, **defaults: Any) -> None:
    for name, default in defaults.items():
        if part.get(name) is None:
            part[name] = deepcopy(default)


def _job(value: Object) -> None:
    spec = _spec(value)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        _set(spec, completions=1)
    _set(spec, parallelism=1, completionMode="NonIndexed", suspend=False)
    # With a limit per index the default is another one.
    if spec.get("backoffLimitPerIndex") is None:
        _set(spec, backoffLimit=6)


def _cron_job(value: Object) -> None:
    spec = _spec(value)
    _set(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"


def _autoscaler(value: Object) -> None:
    spec = _spec(value)
    _set(spec, minReplicas=1)
    if not spec.get("metrics"):
        spec["metrics"] = [deepcopy(_CPU)]
    if isinstance(behavior := spec.get("behavior"), dict):
        for name, default in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            behavior[name] = deepcopy(default) | {key: each for key, each in (behavior.get(name) or {}).items() if each is not None}


def _network_policy(value: Object) -> None:
    spec = _spec(value)
    for rule in [*_objects(spec.get("ingress")), *_objects(spec.get("egress"))]:
        for port in _objects(rule.get("ports")):
            _set(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _ingress_class(value: Object) -> None:
    if isinstance(parameters := _spec(value).get("parameters"), dict):
        _set(parameters, scope="Cluster")


def _binding(value: Object) -> None:
    if isinstance(role := value.get("roleRef"), dict):
        role["apiGroup"] = role.get("apiGroup") or _RBAC
    for subject in _objects(value.get("subjects")):
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or _RBAC


def _slice(value: Object) -> None:
    for port in _objects(value.get("ports")):
        _set(port, name="", protocol="TCP")


_DEFAULTS: Final[dict[tuple[str, str, str], Callable[[Object], None]]] = {
    ("batch", "v1", "jobs"): _job,
    ("batch", "v1", "cronjobs"): _cron_job,
    ("autoscaling", "v2", "horizontalpodautoscalers"): _autoscaler,
    ("networking.k8s.io", "v1", "networkpolicies"): _network_policy,
    ("networking.k8s.io", "v1", "ingressclasses"): _ingress_class,
    (_RBAC, "v1", "rolebindings"): _binding,
    (_RBAC, "v1", "clusterrolebindings"): _binding,
    ("discovery.k8s.io", "v1", "endpointslices"): _slice,
}
