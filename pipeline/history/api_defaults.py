"""The object that a sent body of a built-in kind becomes before admission: the API sets defaults in it.

The log records the object of a create with its defaults, and the body of an apply without them. Follows kubernetes
pkg/apis/{core,apps}/v1/defaults.go, for kinds whose defaults have stayed the same since 1.30. Bodies with parts that other defaults
are for are not known.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any, Final

from ..request import GroupVersionResource, Object
from .creation import default_parts

_MODE: Final = 420
_SURGE: Final = {"maxUnavailable": "25%", "maxSurge": "25%"}
_RESOURCES: Final = frozenset(
    {("", "secrets"), ("", "services"), *(("apps", each) for each in ("daemonsets", "deployments", "replicasets"))}
)
# Sources of volumes: the mode of their files where they have one, and no default otherwise.
_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")
_PLAIN_VOLUMES: Final = ("emptyDir", "persistentVolumeClaim", "nfs", "csi")
# Quantities that the API writes as they were sent. Others it may write in another unit.
_SAME: Final = re.compile(r"0|[1-9]\d{0,2}(m|k|M|G|Ki|Mi|Gi)?|[1-9]\d*(?!000m)\d{3}m")


class _UnknownDefaultError(Exception):
    """A part whose defaults are not known here."""


def with_defaults(body: Object, resource: GroupVersionResource) -> Object | None:
    """A copy of a body with the defaults of its kind; None where they are not known."""
    place = (resource.group, resource.resource)
    if place not in _RESOURCES or resource.version != "v1":
        return None
    value = {**deepcopy(body), "spec": _without_nulls(body.get("spec"))}
    try:
        if place == ("", "secrets"):
            del value["spec"]
            value.setdefault("type", "Opaque")
            return value if not value.get("stringData") else None
        (_service if resource.resource == "services" else _workload)(value, value["spec"], resource.resource)
    except (_UnknownDefaultError, AttributeError, TypeError):
        return None
    default_parts(value, resource)
    return value


def _without_nulls(value: Any) -> Any:
    """A copy of a part without its null fields: Go reads null and absence alike."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _service(value: Object, spec: Object, _: str) -> None:
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ClusterIP" or spec.get("sessionAffinity", "None") != "None" or spec.get("ports") is None:
        raise _UnknownDefaultError
    spec |= {"sessionAffinity": "None", "internalTrafficPolicy": spec.get("internalTrafficPolicy", "Cluster")}
    value.setdefault("status", {"loadBalancer": {}})


def _workload(value: Object, spec: Object, resource: str) -> None:
    value.setdefault("status", {})
    if resource != "daemonsets":
        spec.setdefault("replicas", 1)
    if resource != "replicasets":
        spec.setdefault("revisionHistoryLimit", 10)
        name, rolling = (
            ("strategy", _SURGE) if resource == "deployments" else ("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
        )
        strategy = spec.setdefault(name, {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}
    if resource == "deployments":
        spec.setdefault("progressDeadlineSeconds", 600)
    _pods(spec["template"].setdefault("spec", {}) if "template" in spec else {})


def _pods(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "overhead" in spec:
        raise _UnknownDefaultError
    for each in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _container(each)
    for each in spec.get("volumes") or ():
        _volume(each)


def _container(container: Object) -> None:
    _same_quantities(container.get("resources") or {})
    if not container.get("image"):
        raise _UnknownDefaultError
    for each in container.get("env") or ():
        _references([each.get("valueFrom") or {}])
    handlers = [container.get("lifecycle") or {}]
    probes = [container.get(name) or {} for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    if any("grpc" in each for each in probes) or any("httpGet" in (each or {}) for found in handlers for each in found.values()):
        raise _UnknownDefaultError


def _same_quantities(resources: Object) -> None:
    for name in ("limits", "requests"):
        for quantity in (resources.get(name) or {}).values():
            if not isinstance(quantity, str) or not _SAME.fullmatch(quantity):
                raise _UnknownDefaultError


def _references(holders: list[Any]) -> None:
    for each in holders:
        if field := each.get("fieldRef"):
            field.setdefault("apiVersion", "v1")
        if "resourceFieldRef" in each:
            raise _UnknownDefaultError


def _volume(volume: Object) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for name in sources:
        source = volume[name]
        if name == "hostPath":
            source.setdefault("type", "")
        elif name in _WITH_MODE:
            source.setdefault("defaultMode", _MODE)
            _references(source.get("items") or [] if name == "downwardAPI" else [])
            if name == "projected":
                _projected(source.get("sources") or [])
        elif name not in _PLAIN_VOLUMES or "sizeLimit" in source:
            raise _UnknownDefaultError


def _projected(sources: list[Any]) -> None:
    for each in sources:
        if "serviceAccountToken" in each:
            each["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _references((each.get("downwardAPI") or {}).get("items") or [])
