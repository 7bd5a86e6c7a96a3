"""Converts an object to another version of its resource, as far as this is possible without the server.

Some fields are not followed here. Their converted values are unknown, and so is every expression that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..cel.values import SparseMap
from ..cel.values import Unknown as CelUnknown
from ..matching import Conversion
from ..request import GroupVersionKind, Object

# Every conversion keeps these fields, for every kind.
_KEPT = ("kind", "metadata")


def convert(name: str, obj: Object, kind: GroupVersionKind, conversion: Conversion) -> Object:
    """The object under another apiVersion. `name` is the variable that a reason for an unknown names."""
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    if conversion is Conversion.NONE:
        return obj
    if conversion is Conversion.RENAMED:
        return {**obj, "apiVersion": api_version}
    missing = CelUnknown(f"{name}: its conversion from {obj.get('apiVersion')} to {api_version}")
    step = _CONVERSIONS.get((kind.kind, str(obj.get("apiVersion")), api_version))
    converted = step(obj, missing) if step else {key: obj[key] if key in _KEPT else missing for key in obj}
    return {**converted, "kind": kind.kind, "apiVersion": api_version}


def _autoscaler_to_v1(obj: Mapping[str, Any], missing: CelUnknown) -> Object:
    """Follows kubernetes pkg/apis/autoscaling/v1/conversion.go: one CPU metric is a field, everything else goes to annotations."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    new_spec = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    moved = any((spec.get("behavior"), status.get("conditions"), status.get("currentMetrics")))
    for metric in spec.get("metrics") or ():
        resource = metric.get("resource") or {}
        target = (resource.get("target") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and target is not None:
            new_spec["targetCPUUtilizationPercentage"] = target
        else:
            moved = True
    metadata = obj.get("metadata") or {}
    annotations = {"annotations": missing} if moved else {}
    return {"metadata": {**metadata, **annotations}, "spec": new_spec, "status": missing}


def _autoscaler_to_v2(obj: Mapping[str, Any], missing: CelUnknown) -> Object:
    """The reverse conversion: the CPU field becomes a metric, and annotations that the server writes hold all other metrics."""
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    shown = {key: value for key, value in annotations.items() if not key.startswith(_ROUND_TRIP)}
    new_spec = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    if len(shown) < len(annotations):
        new_spec = SparseMap(new_spec | {"metrics": missing, "behavior": missing})
    elif (target := spec.get("targetCPUUtilizationPercentage")) is None:
        new_spec["metrics"] = missing
    else:
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
        new_spec["metrics"] = [{"type": "Resource", "resource": cpu}]
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return {"metadata": {**kept, **({"annotations": shown} if shown else {})}, "spec": new_spec, "status": missing}


def _event_to_core(obj: Mapping[str, Any], missing: CelUnknown) -> Object:
    return {"reportingComponent": "", "reportingInstance": "", **_renamed(obj, _EVENT_FIELDS)}


def _event_from_core(obj: Mapping[str, Any], missing: CelUnknown) -> Object:
    """The core group writes an empty reporter; events.k8s.io omits the field."""
    renamed = _renamed(obj, {core: name for name, core in _EVENT_FIELDS.items()})
    return {key: value for key, value in renamed.items() if value != "" or not key.startswith("reporting")}


def _renamed(obj: Mapping[str, Any], names: Mapping[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}


# Fields of events.k8s.io that have other names in the core group (kubernetes/api events/v1 and core/v1, types.go). All others are
# equal.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}

# The prefix of the annotations that keep the fields which autoscaling/v1 lacks.
_ROUND_TRIP = "autoscaling.alpha.kubernetes.io/"

# (kind, from, to): the function that converts the object.
_CONVERSIONS: dict[tuple[str, str, str], Callable[[Mapping[str, Any], CelUnknown], Object]] = {
    ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1"): _autoscaler_to_v1,
    ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2"): _autoscaler_to_v2,
    ("Event", "events.k8s.io/v1", "v1"): _event_to_core,
    ("Event", "v1", "events.k8s.io/v1"): _event_from_core,
}
