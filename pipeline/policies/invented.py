"""Fields of a new object that the server makes up, and that only an answer could tell: they are unknown, and not absent.

The server sets them before validating admission: name, uid and time of creation (kubernetes/apiserver pkg/registry/rest/create.go
and meta.go), and the addresses of a Service (kubernetes pkg/registry/core/service/storage/alloc.go).
"""

from __future__ import annotations

from typing import Any

from ..cel.values import Unknown as CelUnknown
from ..matching import is_review
from ..request import AdmissionRequest, Known, Object, Unknown

_ADDRESSES = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_MADE_UP = "the server makes it up, and no answer tells it"
# The server derives this label of a Namespace from its name.
_NAME_LABEL = "kubernetes.io/metadata.name"


def with_invented(value: Object | None, request: AdmissionRequest) -> Object | None:
    """The new object of a create, with the fields that the server made up: unknown where no answer tells them."""
    metadata = (value or {}).get("metadata")
    place = (request.resource.group, request.resource.resource)
    if value is None or metadata.__class__ is not dict or request.subresource or is_review(*place):
        return value
    is_answer = isinstance(request.object, Known) and request.object.source.startswith("responseObject")
    fields = () if is_answer else ("uid", "creationTimestamp")
    added: dict[str, Any] = {name: _unknown(f"metadata.{name}") for name in fields if name not in metadata}
    if isinstance(request.name, Unknown) and not metadata.get("name"):
        added["name"] = CelUnknown(f"object.metadata.name: {request.name.reason}")
        if place == ("", "namespaces"):
            added["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: added["name"]}
    if not added:
        return value
    value = {**value, "metadata": {**metadata, **added}}
    return _with_addresses(value) if place == ("", "services") and "uid" in added else value


def _with_addresses(value: Object) -> Object:
    spec = value.get("spec")
    if spec.__class__ is not dict or spec.get("type") == "ExternalName":
        return value
    added: dict[str, Any] = {name: _unknown(f"spec.{name}") for name in _ADDRESSES if not spec.get(name)}
    if spec.get("type") in _WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
        added["ports"] = [
            port if port.__class__ is not dict or port.get("nodePort") else {**port, "nodePort": _unknown("spec.ports[].nodePort")}
            for port in spec.get("ports") or ()
        ]
    return {**value, "spec": {**spec, **added}}


def _unknown(field: str) -> CelUnknown:
    return CelUnknown(f"object.{field}: {_MADE_UP}")
