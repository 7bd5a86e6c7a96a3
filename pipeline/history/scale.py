"""Scale, the object of the `scale` subresource, made from the object that it scales.

Follows kubernetes/kubernetes pkg/registry/apps/{deployment,replicaset,statefulset}/storage/storage.go (scaleFrom...) and, for
custom resources, apiextensions-apiserver pkg/registry/customresource/etcd.go (scaleFromCustomResource).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..request import Json, Object

_COPIED_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS = {"In": "in", "NotIn": "notin"}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The dotted paths at which a resource keeps the fields of a Scale; `selector` may be None."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str | None = "spec.selector"


BUILT_IN_PATHS = ScalePaths()


def paths_of(definition: Object, version: str) -> ScalePaths | None:
    """The scale paths of one version of a CustomResourceDefinition; None if that version does not serve Scale."""
    for served in definition["spec"].get("versions") or ():
        scale = (served.get("subresources") or {}).get("scale")
        if served.get("name") == version and scale:
            return ScalePaths(
                scale["specReplicasPath"].lstrip("."),
                scale["statusReplicasPath"].lstrip("."),
                (scale.get("labelSelectorPath") or "").lstrip(".") or None,
            )
    return None


def scale_from(parent: Object, paths: ScalePaths = BUILT_IN_PATHS) -> Object:
    """The Scale of an object, without the empty fields that Go leaves out."""
    metadata = parent.get("metadata", {})
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _COPIED_METADATA if name in metadata},
        "spec": {},
        "status": {"replicas": get_path(parent, paths.status_replicas) or 0},
    }
    if replicas := get_path(parent, paths.replicas):
        scale["spec"]["replicas"] = replicas
    selector = get_path(parent, paths.selector) if paths.selector else None
    if parent.get("kind") == "ReplicationController" and isinstance(selector, dict):
        selector = {"matchLabels": selector}  # older than label selectors
    text = selector if isinstance(selector, str) else selector_text(selector or {})
    if text:
        scale["status"]["selector"] = text
    return scale


def selector_text(selector: Mapping[str, Any]) -> str:
    """A label selector as text, its requirements sorted by key (kubernetes/apimachinery pkg/labels, Selector.String)."""
    requirements = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for entry in selector.get("matchExpressions") or ():
        key, operator = entry["key"], entry["operator"]
        if operator in _OPERATORS:
            requirements.append((key, f"{key} {_OPERATORS[operator]} ({','.join(sorted(entry['values']))})"))
        else:
            requirements.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(requirements, key=lambda pair: pair[0]))


def get_path(value: Json, path: str) -> Json:
    """The value at a dotted path, or None."""
    for name in path.strip(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
