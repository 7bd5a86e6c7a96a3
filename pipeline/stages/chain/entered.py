"""The object with which a request came to mutating policies, where its answer tells more than its body."""

from __future__ import annotations

import dataclasses

from ...history.event import Event, decode_json
from ...history.json_values import copied
from ...history.patch import PatchError
from ...history.patching import PatchType, apply_patch
from ...matching.equivalence import BUILT_IN_GROUPS
from ...request import AdmissionRequest, Grade, Known, Object, Operation, Unknown
from ...world import World
from ..mutating.changes import has_changes
from ..mutating.walk import Met
from .onto import GENERATED_LABELS
from .plugins import first


def as_entered(met: Met, world: World) -> AdmissionRequest:
    """The request as mutating policies met it: after the plugins of the first round."""
    request, event = without_removed(met), met.event
    found = request.object
    if not isinstance(found, Known) or found.value is None:
        return request
    raw = event.written_raw
    answered = None if raw is None else decode_json(raw)
    value = first(request, found.value, answered, world)
    return request if value is found.value else dataclasses.replace(request, object=dataclasses.replace(found, value=value))


def without_removed(met: Met) -> AdmissionRequest:
    """The request as it came to mutating policies.

    The server removes what the manager of an apply owned and left out. The log does not show who owned what; the answer shows what
    is left.
    """
    request, event = met.request, met.event
    assert isinstance(request, AdmissionRequest)
    found = request.object
    if isinstance(found, Unknown):
        return _as_created(request, event) or request
    raw = event.written_raw
    if event.verb != "patch" or raw is None or found.value is None:
        return request
    answered = decode_json(raw)
    if found.source.startswith(f"{PatchType.APPLY} over "):
        return dataclasses.replace(request, object=dataclasses.replace(found, value=_kept(found.value, answered)))
    if found.source.startswith(f"{PatchType.STRATEGIC} over ") and (merged := _merged(request, event, found.value, answered)):
        return dataclasses.replace(request, object=dataclasses.replace(found, value=merged))
    return request


def _merged(request: AdmissionRequest, event: Event, value: Object, answered: Object) -> Object | None:
    """The object under a JSON merge patch, if the answer shows that the patch was one: the log does not have its type."""
    old = request.old_object.value if isinstance(request.old_object, Known) else None
    body = decode_json(event.request_raw or "null")
    if old is None or not isinstance(body, dict) or has_changes(old, value, answered):
        return None
    try:
        found: Object = apply_patch(PatchType.MERGE, old, body)
    except PatchError:
        return None
    return found if has_changes(old, found, answered) else None


def _as_created(request: AdmissionRequest, event: Event) -> AdmissionRequest | None:
    """A request that created its object by an apply: the answer shows what the API added to the body."""
    raw = event.written_raw
    if request.operation is not Operation.CREATE or event.verb != "patch" or raw is None or event.request_raw is None:
        return None
    body, answered = decode_json(event.request_raw), decode_json(raw)
    if not isinstance(body, dict):
        return None
    metadata = {"name": event.name, **({"namespace": event.namespace} if event.namespace else {}), **(body.get("metadata") or {})}
    value = {name: each for name, each in answered.items() if name != "status"} | {"metadata": metadata}
    if (event.resource.group, event.resource.resource) == ("batch", "jobs"):
        value["spec"] = _without_selector(copied(value.get("spec") or {}))
    if "status" in answered and event.resource.group in BUILT_IN_GROUPS:
        value["status"] = {}
    return dataclasses.replace(request, object=Known(value, "requestObject with the defaults of the answer", Grade.PARTIAL))


def _without_selector(spec: Object) -> Object:
    """The spec of a Job without what its strategy makes of it after admission (kubernetes pkg/registry/batch/job/strategy.go)."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for name in GENERATED_LABELS:
        labels.pop(name, None)
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
    return spec


def _kept(value: Object, answered: Object) -> Object:
    """The fields of an object that an answer has, too."""
    kept: Object = {}
    for name, own in value.items():
        if name not in answered:
            continue
        other = answered[name]
        kept[name] = _kept(own, other) if isinstance(own, dict) and isinstance(other, dict) else own
    return kept
