"""A Pod as the plugin meets it, from the object that a client sent: what the server adds at a create and decides checks.

Follows kubernetes pkg/apis/core/v1/defaults.go and pkg/registry/core/pod/strategy.go (applyAppArmorVersionSkew).
"""

from __future__ import annotations

from ...request import Object
from .checks.app_armor import ANNOTATION

# Servers before this minor version also write profiles of fields to annotations.
_FIELDS_ONLY = 34
_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_LOCAL = "localhost/"
_ANNOTATIONS = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}


def as_met(pod: Object, minor: int, is_create: bool) -> Object:
    """The Pod with default host ports, and on a create with the profiles of AppArmor annotations. It may share parts with `pod`."""
    spec = dict(pod.get("spec") or {})
    if spec.get("hostNetwork"):
        for kind in ("containers", "initContainers"):
            spec[kind] = [_with_host_ports(each) for each in spec.get(kind) or ()]
    met = {**pod, "spec": spec}
    return _with_profiles(met, minor) if is_create and (spec.get("os") or {}).get("name") != "windows" else met


def _with_host_ports(container: Object) -> Object:
    ports = [{**each, "hostPort": each.get("hostPort") or each.get("containerPort")} for each in container.get("ports") or ()]
    return {**container, "ports": ports} if ports else container


def _with_profiles(pod: Object, minor: int) -> Object:
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod["spec"])
    annotations = dict(metadata.get("annotations") or {})
    own = _profile_of(spec)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        if kind in spec:
            spec[kind] = [_with_profile(each, own, annotations, minor) for each in spec[kind] or ()]
    if annotations:
        metadata["annotations"] = annotations
    return {**pod, "metadata": metadata, "spec": spec}


def _with_profile(container: Object, of_pod: Object | None, annotations: dict[str, str], minor: int) -> Object:
    """A container with the profile of its annotation; on older servers its field, or that of the Pod, becomes an annotation."""
    name = f"{ANNOTATION}{container.get('name')}"
    own = _profile_of(container)
    if name not in annotations:
        told = _annotation_of(own or of_pod) if minor < _FIELDS_ONLY else ""
        annotations.update({name: told} if told else {})
        return container
    found = _field_of(annotations[name])
    if own is not None or found in (None, of_pod):
        return container
    return {**container, "securityContext": {**(container.get("securityContext") or {}), "appArmorProfile": found}}


def _profile_of(part: Object) -> Object | None:
    found: Object | None = (part.get("securityContext") or {}).get("appArmorProfile")
    return found


def _field_of(annotation: str) -> Object | None:
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    profile = annotation.removeprefix(_LOCAL)
    is_valid = annotation.startswith(_LOCAL) and profile and profile == profile.strip()
    return {"type": "Localhost", "localhostProfile": profile} if is_valid else None


def _annotation_of(profile: Object | None) -> str:
    told = profile or {}
    if told.get("type") == "Localhost" and told.get("localhostProfile"):
        return f"{_LOCAL}{told['localhostProfile']}"
    return _ANNOTATIONS.get(told.get("type") or "", "")
