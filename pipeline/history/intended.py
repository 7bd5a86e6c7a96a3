"""The object of a request whose response is not that object: what the client asked for, taken as far as the record allows.

A refused create is its body with the recorded webhook patches; a refused update has in addition what the server copies from the stored
object; a refused patch is the stored object, patched. What in-tree admission plugins and defaulting of patched parts would have changed
is not recorded, so most of this is graded PARTIAL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..request import Evidence, Grade, Json, Known, Object, Unknown, worst
from .event import Decode, Event, decode_json
from .evidence import LazyKnown
from .kinds import by_resource
from .options import query_of
from .patch import PatchError, apply_json_patch, apply_merge_patch
from .strategic import apply_strategic_merge_patch, has_directives
from .writes import why_no_body

_PATCH_ANNOTATION = re.compile(r"^patch\.webhook\.admission\.k8s\.io/round_(\d+)_index_(\d+)$")

# What an update keeps of the stored object, whatever the client sends (kubernetes/apiserver pkg/registry/rest/update.go, BeforeUpdate).
_KEPT_METADATA = (
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


def created_object(event: Event, name: Evidence[str], decode: Decode) -> Evidence[Object | None]:
    """The object of a create that left no whole response."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {_why_no_request(event)}")
    raw = event.request_raw

    def read() -> Object:
        value = _with_webhook_patches(decode(raw), event)
        metadata = value.setdefault("metadata", {})
        metadata.pop("resourceVersion", None)
        if isinstance(name, Known) and name.value:
            metadata["name"] = name.value
        if event.namespace and event.resource.resource != "namespaces":
            metadata["namespace"] = event.namespace
        if _kept_by_status(event):
            value.pop("status", None)
        return value

    return LazyKnown(read, "requestObject and recorded webhook patches", Grade.PARTIAL)


def updated_object(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The object of an update that left no whole response."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {_why_no_request(event)}")
    raw = event.request_raw
    if isinstance(old, Unknown):
        return LazyKnown(
            lambda: _with_webhook_patches(decode(raw), event), "requestObject; the stored object is not known", Grade.PARTIAL
        )
    return LazyKnown(
        lambda: _prepared(_with_webhook_patches(decode(raw), event), old.value or {}, event),
        f"requestObject over {old.source}",
        worst(Grade.PARTIAL, old.grade),
    )


def patched_object(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The object of a patch that left no whole response: the stored one, patched."""
    if event.request_raw is None:
        return Unknown(f"the patch was not recorded: {_why_no_request(event)}")
    if isinstance(old, Unknown):
        return Unknown(f"a patch is no object, and the patched one is not known: {old.reason}")
    raw = event.request_raw
    try:
        patched = apply_patch(event, old.value or {}, decode(raw))
    except PatchError as error:
        return Unknown(f"the patch does not fit the last known version: {error}")
    value = _prepared(_with_webhook_patches(patched, event), old.value or {}, event)
    return Known(value, f"{patch_type(event, decode_json(raw))} over {old.source}", worst(Grade.PARTIAL, old.grade))


def patch_type(event: Event, patch: Json) -> str:
    """What kind of patch a body is. The content type is not recorded, so it follows from the body, the query and the resource."""
    if isinstance(patch, list):
        return "JSON patch"
    if "force" in query_of(event.request_uri) or (
        patch.get("apiVersion") and patch.get("kind") and "fieldManager" in query_of(event.request_uri)
    ):
        return "apply"
    if has_directives(patch):
        return "strategic merge patch"
    if by_resource(event.resource.group, event.resource.resource) is None or event.subresource == "scale":
        return "merge patch"
    return "strategic merge patch"


def apply_patch(event: Event, old: Object, patch: Json) -> Object:
    """The stored object with a recorded patch applied. Raises PatchError where the server would have refused it as well."""
    match patch_type(event, patch):
        case "JSON patch":
            result = apply_json_patch(old, patch)
        case "merge patch":
            result = apply_merge_patch(old, patch)
        case "apply" if by_resource(event.resource.group, event.resource.resource) is None:
            result = apply_merge_patch(old, patch)
        case _:
            result = apply_strategic_merge_patch(old, patch)
    if not isinstance(result, dict):
        raise PatchError(f"the patch leaves no object but {type(result).__name__}")
    return result


def webhook_patches(event: Event) -> Iterator[list[dict[str, Any]]]:
    """The patches that mutating webhooks made, in the order in which the server applied them."""
    found: list[tuple[int, int, str]] = []
    for key, value in event.annotations.items():
        if match := _PATCH_ANNOTATION.match(key):
            found.append((int(match[1]), int(match[2]), value))
    for _, _, value in sorted(found):
        yield decode_json(value).get("patch") or []


def _with_webhook_patches(value: Object, event: Event) -> Object:
    for operations in webhook_patches(event):
        value = apply_json_patch(value, operations)
    return value


def _prepared(value: Object, old: Object, event: Event) -> Object:
    """What strategies and BeforeUpdate do to an object that is to replace a stored one."""
    if event.subresource in ("status", "approval", "finalize"):
        value = _only_subresource(value, old, event.subresource)
    metadata, stored = value.setdefault("metadata", {}), old.get("metadata", {})
    for name in _KEPT_METADATA:
        if name in stored:
            metadata[name] = stored[name]
        else:
            metadata.pop(name, None)
    if not event.subresource and _kept_by_status(event):
        if "status" in old:
            value["status"] = old["status"]
        else:
            value.pop("status", None)
    if not event.subresource and "generation" in stored and value.get("spec") != old.get("spec"):
        metadata["generation"] = stored["generation"] + 1
    return value


def _only_subresource(value: Object, old: Object, subresource: str) -> Object:
    changed = "spec" if subresource == "finalize" else "status"
    kept = {name: entry for name, entry in old.items() if name != changed}
    return {**kept, **({changed: value[changed]} if changed in value else {}), "metadata": dict(old.get("metadata", {}))}


# Built-in kinds whose main resource keeps or resets `status`; a custom resource does so if its CRD has the subresource.
_STATUS_KEPT = frozenset(
    [
        "pods",
        "services",
        "nodes",
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "daemonsets",
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "horizontalpodautoscalers",
        "ingresses",
        "poddisruptionbudgets",
        "certificatesigningrequests",
        "flowschemas",
        "prioritylevelconfigurations",
        "validatingadmissionpolicies",
        "customresourcedefinitions",
        "apiservices",
        "servicecidrs",
        "resourceclaims",
        "volumeattachments",
        "storageversions",
    ]
)


def _kept_by_status(event: Event) -> bool:
    return event.resource.resource in _STATUS_KEPT


def _why_no_request(event: Event) -> str:
    if event.level in ("Metadata", "None"):
        return f"the audit level was {event.level}"
    return why_no_body(event)
