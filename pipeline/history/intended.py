"""The object of a request whose response is not that object: what the client asked for, taken as far as the record allows.

A refused create is its body with the recorded webhook patches; a refused update has in addition what the server copies from the
stored object; a refused patch is the stored object, patched. An answer that shows metadata alone replaces the metadata. What
in-tree admission plugins and the defaulting of patched parts would have changed is not recorded, so that all of this is PARTIAL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ..request import Evidence, Grade, Known, Object, Unknown
from .creation import counts_generation, default_parts, has_defaults, keeps_status, leave_out_empty, prepare_for_create
from .event import Decode, Event, decode_json
from .evidence import LazyKnown
from .options import query_of
from .patch import apply_json_patch
from .patching import PatchError, PatchType, apply_patch, patch_type
from .writes import answered_metadata, why_no_body, why_not_kept

_PATCH_ANNOTATION = re.compile(r"^patch\.webhook\.admission\.k8s\.io/round_(\d+)_index_(\d+)$")

# What an update keeps of the stored metadata, whatever the client sends (kubernetes/apiserver pkg/registry/rest/update.go).
_KEPT_METADATA = (
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)

# What a create takes from no client (kubernetes/apiserver pkg/registry/rest/meta.go, WipeObjectMetaSystemFields).
_NOT_FROM_CLIENTS = ("namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def created_object(event: Event, name: Evidence[str], decode: Decode) -> Evidence[Object | None]:
    """The object of a create that left no whole response."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {why_no_request(event)}")
    if event.verb == "patch" and not event.succeeded and has_defaults(event.resource):
        return Unknown("an apply that was to create its object: what the API would have added is not recorded")
    raw, answered = event.request_raw, answered_metadata(event)

    def read() -> Object:
        value = _with_webhook_patches(decode(raw), event.annotations)
        metadata = value.setdefault("metadata", {})
        if isinstance(name, Known) and name.value:
            metadata["name"] = name.value
        for field in _NOT_FROM_CLIENTS:
            metadata.pop(field, None)
        metadata["creationTimestamp"] = f"{event.ts:%Y-%m-%dT%H:%M:%SZ}"
        if event.namespace and event.resource.resource != "namespaces":
            metadata["namespace"] = event.namespace
        prepare_for_create(value, event.resource)
        if answered is not None:
            replace_metadata(value, answered, resource_version="")
        return value

    shown = "" if answered is None else ", metadata of responseObject"
    return LazyKnown(read, f"requestObject and recorded webhook patches{shown}", Grade.PARTIAL)


def updated_object(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The object of an update that left no whole response."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {why_no_request(event)}")
    raw = event.request_raw
    if isinstance(old, Unknown):
        asked = "requestObject and recorded webhook patches; the stored object is not known"
        return LazyKnown(lambda: _with_webhook_patches(decode(raw), event.annotations), asked, Grade.PARTIAL)
    return LazyKnown(lambda: _prepared(decode(raw), old.value or {}, event), f"requestObject over {old.source}", Grade.PARTIAL)


def patched_object(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The object of a patch that left no whole response: the stored one, patched."""
    if event.request_raw is None:
        return Unknown(f"the patch was not recorded: {why_no_request(event)}")
    if isinstance(old, Unknown):
        return Unknown(f"the patched object is unknown: {old.reason}")
    patch = decode_json(event.request_raw)
    kind = patch_type(patch, event.request_uri, event.resource, event.subresource)
    try:
        value = _prepared(apply_patch(kind, old.value or {}, patch), old.value or {}, event)
    except PatchError as error:
        return Unknown(f"the {kind} does not fit the last known version: {error}")
    answered = answered_metadata(event)
    if answered is not None:
        replace_metadata(value, answered, (old.value or {}).get("metadata", {}).get("resourceVersion", ""))
    return Known(value, f"{kind} over {old.source}", Grade.PARTIAL)


def is_apply(event: Event) -> bool:
    """Whether a request is an apply, which may create what it names."""
    if event.verb != "patch":
        return False
    if event.request_raw is None:
        return "force" in query_of(event.request_uri)  # only apply takes it
    patch = decode_json(event.request_raw)
    return patch_type(patch, event.request_uri, event.resource, event.subresource) is PatchType.APPLY


def replace_metadata(value: Object, metadata: Object, resource_version: str) -> None:
    """Put metadata that an answer showed in the place of an object's own, with the resourceVersion that admission saw."""
    kept = {name: entry for name, entry in metadata.items() if name not in ("managedFields", "resourceVersion")}
    value["metadata"] = {**kept, **({"resourceVersion": resource_version} if resource_version else {})}


def webhook_patches(annotations: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """The patches that mutating webhooks made, in the order in which the server applied them."""
    found: list[tuple[int, int, str]] = []
    for key, value in annotations.items():
        if match := _PATCH_ANNOTATION.match(key):
            found.append((int(match[1]), int(match[2]), value))
    for _, _, value in sorted(found):
        yield decode_json(value).get("patch") or []


def why_no_request(event: Event) -> str:
    """In words for a report: why there is no requestObject."""
    return why_not_kept(event) if event.level in ("Metadata", "None") else why_no_body(event)


def _with_webhook_patches(value: Object, annotations: Mapping[str, str]) -> Object:
    for operations in webhook_patches(annotations):
        value = apply_json_patch(value, operations)
    return value


def _prepared(value: Object, old: Object, event: Event) -> Object:
    """What webhooks, strategies and BeforeUpdate do to an object that is to replace a stored one."""
    value = _with_webhook_patches(value, event.annotations)
    if event.subresource in ("status", "approval", "finalize"):
        value = _only_subresource(value, old, event.subresource)
    metadata, stored = value.setdefault("metadata", {}), old.get("metadata", {})
    for name in _KEPT_METADATA:
        if name in stored:
            metadata[name] = stored[name]
        else:
            metadata.pop(name, None)
    if event.subresource == "scale":
        if value.get("spec", {}).get("replicas") == 0:
            del value["spec"]["replicas"]
        return value
    default_parts(value, event.resource)
    leave_out_empty(value, event.resource)
    if not event.subresource and keeps_status(event.resource):
        value.pop("status", None)
        if "status" in old:
            value["status"] = old["status"]
    if event.subresource in ("", "ephemeralcontainers", "resize") and counts_generation(value, old, event.resource):
        metadata["generation"] = stored.get("generation", 0) + 1
    return value


def _only_subresource(value: Object, old: Object, subresource: str) -> Object:
    changed = "spec" if subresource == "finalize" else "status"
    kept = {name: deepcopy(entry) for name, entry in old.items() if name != changed}
    return {**kept, **({changed: value[changed]} if changed in value else {})}
