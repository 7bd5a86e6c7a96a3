"""The object with which a request comes to mutating policies.

The log records the object of a create or update before admission: decoded and defaulted. Of a patch it records the patch. Built-in
plugins that come before mutating policies change pods and claims, and the log does not record that.
"""

from __future__ import annotations

from dataclasses import replace

from ...history.api_defaults import with_defaults
from ...history.creation import default_parts, has_defaults, prepare_by_plugins
from ...history.event import Event, decode_json
from ...history.evidence import noted
from ...history.patch import PatchError
from ...history.patching import PatchType, apply_patch, patch_type, why_unpatched
from ...request import AdmissionRequest, Evidence, Grade, GroupVersionKind, Known, Object, Operation, Unknown
from .decoding import defaulted, written
from .kinds import KnownKind
from .merging import united
from .nil_lists import copied
from .shapes import Shape, built_in_shape

# What built-in plugins do to new ones before mutating policies is known in part: priorities, limits, classes and volumes of tokens.
# DefaultStorageClass and DefaultIngressClass leave an object alone that names its class.
_CHANGED_BY_PLUGINS = frozenset([("", "pods"), ("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")])


def before_policies(request: AdmissionRequest, event: Event, known: KnownKind | Unknown) -> AdmissionRequest:
    """The request as the first mutating policy met it. `known` is the kind of its object."""
    if request.operation is Operation.CONNECT or request.operation is Operation.DELETE:
        return request
    found = _sent(request, event, known)
    if event.is_redacted or (isinstance(request.old_object, Known) and request.old_object.is_redacted):
        found = noted(found)
    name = request.name
    if isinstance(found, Known) and found.value is not None and request.operation is Operation.CREATE:
        metadata = found.value.get("metadata") or {}
        if metadata.get("generateName") and not metadata.get("name"):
            name = Known("", "generateName")
    return replace(request, object=found, name=name)


def _sent(request: AdmissionRequest, event: Event, known: KnownKind | Unknown) -> Evidence[Object | None]:
    if event.request_raw is None:
        return Unknown("the requested object was not recorded")
    body = decode_json(event.request_raw)
    if event.verb != "patch":
        if not isinstance(body, dict):
            return Unknown("requestObject is no object")
        return _with_plugins(request, event, body)
    found = _patched(request, event, body, known)
    if isinstance(known, Unknown) or known.custom is None or not isinstance(found, Known) or found.value is None:
        return found
    return replace(found, value=defaulted(copied(found.value), request.resource, known.custom))


def _with_plugins(request: AdmissionRequest, event: Event, body: Object, grade: Grade = Grade.EXACT) -> Evidence[Object | None]:
    value = copied(body)
    metadata = value.setdefault("metadata", {})
    if event.namespace and event.resource.resource != "namespaces" and isinstance(metadata, dict):
        metadata.setdefault("namespace", event.namespace)
    is_changed = (event.resource.group, event.resource.resource) in _CHANGED_BY_PLUGINS and not event.subresource
    if request.operation is Operation.CREATE and not event.subresource:
        prepare_by_plugins(value, event.resource)
        _prioritize(value, event)
    is_redacted = "redacted" in event.flags
    return Known(value, "requestObject", Grade.PARTIAL if is_changed or is_redacted else grade)


def _prioritize(value: Object, event: Event) -> None:
    """The priority of a new pod follows from classes of the cluster; the answer shows it."""
    if (event.resource.group, event.resource.resource) != ("", "pods") or event.response_raw is None or not event.succeeded:
        return
    answered = decode_json(event.response_raw)
    spec = (answered.get("spec") if isinstance(answered, dict) else None) or {}
    for name in ("priority", "preemptionPolicy"):
        if name in spec:
            value["spec"].setdefault(name, spec[name])


def _patched(request: AdmissionRequest, event: Event, body: object, known: KnownKind | Unknown) -> Evidence[Object | None]:
    """The stored object with the client's patch, or the applied object where there was none."""
    kind = patch_type(body, event.request_uri, event.resource, event.subresource)
    old = request.old_object
    if request.operation is Operation.CREATE:
        if kind not in (PatchType.APPLY, PatchType.UNTOLD) or not isinstance(body, dict):
            return Unknown("a patch that creates its object is not an apply")
        if not has_defaults(event.resource):
            return _with_plugins(request, event, body)
        shape = _built_in(body)
        value = with_defaults(body, event.resource)
        if value is None or shape is None:
            return Unknown("an apply that creates its object: what the API adds to it is not recorded")
        return _with_plugins(request, event, written(value, shape), Grade.INFERRED)
    if isinstance(old, Unknown) or old.value is None:
        return Unknown(f"the object before the patch: {old.reason if isinstance(old, Unknown) else 'it did not exist'}")
    try:
        if kind is PatchType.APPLY and isinstance(known, KnownKind) and isinstance(body, dict):
            value = united(old.value, body, known.shape)
        else:
            value = apply_patch(kind, old.value, body)
    except PatchError as error:
        return Unknown(why_unpatched(kind, error))
    grade = Grade.PARTIAL if kind is PatchType.APPLY or old.grade is Grade.PARTIAL else Grade.INFERRED
    shape = _built_in(value)
    if shape is not None:
        value = written(value, shape)
        default_parts(value, event.resource)
    if event.subresource == "scale" and isinstance(spec := value.get("spec"), dict) and spec.get("replicas") == 0:
        del spec["replicas"]  # Go leaves out a zero that is no pointer
    return Known(value, f"{kind} over {old.source}", grade)


def _built_in(value: Object) -> Shape | None:
    group, _, version = str(value.get("apiVersion", "")).rpartition("/")
    return built_in_shape(GroupVersionKind(group, version, str(value.get("kind", ""))))
