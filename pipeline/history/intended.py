"""The object of a request whose response is not that object: the client's object, with the recorded changes of the server.

A refused create is its body with the recorded webhook patches. A refused update has in addition the fields that the server
copies from the stored object. A refused patch is the stored object, patched. An answer that shows metadata alone replaces the
metadata. Changes by in-tree admission plugins and the defaulting of patched parts are not recorded, so all of these are PARTIAL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from ..request import Evidence, Grade, Known, Object, Unknown
from .creation import counts_generation, default_parts, has_defaults, keeps_status, leave_out_empty, prepare_for_create
from .event import Decode, Event, Raw, decode_json
from .evidence import LazyKnown
from .options import query_of
from .patch import apply_json_patch
from .patching import PatchError, PatchType, apply_patch, patch_type
from .writes import answered_metadata, why_no_body, why_not_kept

_PARTS = ("metadata", "spec", "status")
_PATCH_ANNOTATION = re.compile(r"^patch\.webhook\.admission\.k8s\.io/round_(\d+)_index_(\d+)$")

# Stored metadata that an update keeps, regardless of the client's values (kubernetes/apiserver pkg/registry/rest/update.go).
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

# Metadata that a create never takes from a client (kubernetes/apiserver pkg/registry/rest/meta.go, WipeObjectMetaSystemFields).
_NOT_FROM_CLIENTS = ("namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def created_object(event: Event, name: Evidence[str], decode: Decode) -> Evidence[Object | None]:
    """The object of a create that left no whole response."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {why_no_request(event)}")
    if event.verb == "patch" and not event.succeeded and has_defaults(event.resource):
        return Unknown("an apply that was to create its object: what the API would have added is not recorded")
    sent, answered = _sent(event, event.request_raw, decode), answered_metadata(event)
    if isinstance(sent, Unknown):
        return sent

    def read() -> Object:
        value = sent()
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
    sent = _sent(event, event.request_raw, decode)
    if isinstance(sent, Unknown):
        return sent
    if isinstance(old, Unknown):
        return LazyKnown(sent, "requestObject and recorded webhook patches; the stored object is not known", Grade.PARTIAL)
    return LazyKnown(lambda: _prepared(sent(), old.value or {}, event), f"requestObject over {old.source}", Grade.PARTIAL)


def patched_object(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The object of a patch that left no whole response: the stored one, patched."""
    if event.request_raw is None:
        return Unknown(f"the patch was not recorded: {why_no_request(event)}")
    if isinstance(old, Unknown):
        return Unknown(f"the patched object is unknown: {old.reason}")
    patch = decode_json(event.request_raw)
    kind = patch_type(patch, event.request_uri, event.resource, event.subresource)
    try:
        patched = apply_patch(kind, old.value or {}, patch)
    except PatchError as error:
        return Unknown(f"the {kind} does not fit the last known version: {error}")
    admitted = _with_webhook_patches(patched, event.annotations)
    if isinstance(admitted, Unknown):
        return admitted
    value = _prepared(admitted, old.value or {}, event)
    answered = answered_metadata(event)
    if answered is not None:
        replace_metadata(value, answered, (old.value or {}).get("metadata", {}).get("resourceVersion", ""))
    return Known(value, f"{kind} over {old.source}", Grade.PARTIAL)


def is_apply(event: Event) -> bool:
    """Whether a request is an apply, which may create the object that it names."""
    if event.verb != "patch":
        return False
    if event.request_raw is None:
        return "force" in query_of(event.request_uri)  # only apply takes it
    patch = decode_json(event.request_raw)
    return patch_type(patch, event.request_uri, event.resource, event.subresource) is PatchType.APPLY


def replace_metadata(value: Object, metadata: Object, resource_version: str) -> None:
    """Replace an object's metadata with that of an answer, with the resourceVersion that admission saw."""
    kept = {name: entry for name, entry in metadata.items() if name not in ("managedFields", "resourceVersion")}
    value["metadata"] = {**kept, **({"resourceVersion": resource_version} if resource_version else {})}


def webhook_patches(annotations: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """The patches that mutating webhooks made, in the order in which the server applied them.

    Raises PatchError for an annotation that no API server writes.
    """
    found: list[tuple[int, int, str]] = []
    for key, value in annotations.items():
        if match := _PATCH_ANNOTATION.match(key):
            found.append((int(match[1]), int(match[2]), value))
    for _, _, value in sorted(found):
        try:
            told = decode_json(value)
        except (msgspec.DecodeError, ValueError) as error:
            raise PatchError(f"it is not JSON: {error}") from error
        operations = (told.get("patch") or []) if isinstance(told, dict) else None
        if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
            raise PatchError("it is not a list of operations")
        yield operations


def why_no_request(event: Event) -> str:
    """Why an event lacks a requestObject, in words for a report."""
    return why_not_kept(event) if event.level in ("Metadata", "None") else why_no_body(event)


def _sent(event: Event, raw: Raw, decode: Decode) -> Callable[[], Object] | Unknown:
    """A function that reads the client's object, with the patches of webhooks; Unknown where one of them does not fit.

    With patches it is read at once, and whole, because a patch may change a part that `decode` leaves out.
    """
    if not any(map(_PATCH_ANNOTATION.match, event.annotations)):
        return lambda: decode(raw)
    found = _with_webhook_patches(decode_json(raw), event.annotations)
    return found if isinstance(found, Unknown) else lambda: found


def _with_webhook_patches(value: Object, annotations: Mapping[str, str]) -> Object | Unknown:
    """An object after the recorded patches of webhooks.

    They fit the body that the API server recorded. They may not fit a redacted body, which lacks values or a whole Secret.
    """
    try:
        for operations in webhook_patches(annotations):
            value = apply_json_patch(value, operations)
        if not isinstance(value, dict) or not all(isinstance(value.get(part) or {}, dict) for part in _PARTS):
            raise PatchError("it must leave an object with metadata, spec and status")
    except PatchError as error:
        return Unknown(f"a recorded patch of a webhook does not fit: {error}")
    return value


def _prepared(value: Object, old: Object, event: Event) -> Object:
    """An object that replaces a stored one, after webhooks, strategies and BeforeUpdate."""
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
