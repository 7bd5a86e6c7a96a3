"""Strategic merge patch: the API server's own patch type for built-in kinds.

Follows kubernetes/apimachinery pkg/util/strategicpatch/patch.go (mergeMap, mergeSlice, normalizeElementOrder). Which lists merge,
and by which key, is written into the Go types of kubernetes/api as struct tags; `_MERGE_LISTS` holds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..request import Json, Object
from .json_values import copied
from .patch import PatchError

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"

# Lists that merge instead of being replaced: the end of the path to the list -> the merge key ("" for a list of scalars).
# A path that begins with a kind holds for that kind alone, and goes before a shorter one; None says that the list is replaced.
# All other lists are replaced as a whole.
_MERGE_LISTS: dict[tuple[str, ...], str | None] = {
    ("metadata", "finalizers"): "",
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "ephemeralContainers"): "name",
    ("spec", "volumes"): "name",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "schedulingGates"): "name",
    ("spec", "resourceClaims"): "name",
    ("containers", "ports"): "containerPort",
    ("containers", "env"): "name",
    ("containers", "volumeMounts"): "mountPath",
    ("containers", "volumeDevices"): "devicePath",
    ("initContainers", "ports"): "containerPort",
    ("initContainers", "env"): "name",
    ("initContainers", "volumeMounts"): "mountPath",
    ("initContainers", "volumeDevices"): "devicePath",
    ("ephemeralContainers", "ports"): "containerPort",
    ("ephemeralContainers", "env"): "name",
    ("ephemeralContainers", "volumeMounts"): "mountPath",
    ("ephemeralContainers", "volumeDevices"): "devicePath",
    ("status", "conditions"): "type",
    ("CertificateSigningRequest", "status", "conditions"): None,
    ("CustomResourceDefinition", "status", "conditions"): None,
    ("ValidatingAdmissionPolicy", "status", "conditions"): None,
    ("Pod", "status", "podIPs"): "ip",
    ("Pod", "status", "hostIPs"): "ip",
    ("Pod", "status", "resourceClaimStatuses"): "name",
    ("Node", "spec", "podCIDRs"): "",
    ("Node", "status", "addresses"): "type",
    ("Service", "spec", "ports"): "port",
    ("ServiceAccount", "secrets"): "name",
    ("CSINode", "spec", "drivers"): "name",
    ("ResourceClaim", "status", "reservedFor"): "uid",
    ("MutatingWebhookConfiguration", "webhooks"): "name",
    ("ValidatingWebhookConfiguration", "webhooks"): "name",
    ("webhooks", "matchConditions"): "name",
    ("ValidatingAdmissionPolicy", "spec", "matchConditions"): "name",
    ("ValidatingAdmissionPolicy", "spec", "variables"): "name",
    ("MutatingAdmissionPolicy", "spec", "matchConditions"): "name",
    ("MutatingAdmissionPolicy", "spec", "variables"): "name",
}
# Objects that are replaced as a whole, although objects merge.
_REPLACED_OBJECTS = frozenset({("PodDisruptionBudget", "spec", "selector")})


def apply_strategic_merge_patch(document: Object, patch: Object) -> Object:
    """Apply a strategic merge patch to an object of a built-in kind and return the new object; the given one stays as it was.

    `document["kind"]` chooses the merge keys. Raises PatchError for a directive that the server refuses too.
    """
    return _merge_map(copied(document), copied(patch), (str(document.get("kind", "")),))


def merge_key_of(path: tuple[str, ...]) -> str | None:
    """The merge key of the list at a path that begins with the kind and leaves out list indexes; None if it is replaced."""
    for suffix in (path, path[-3:], path[-2:]):
        if suffix in _MERGE_LISTS:
            return _MERGE_LISTS[suffix]
    return None


def has_directives(patch: Json) -> bool:
    """Whether a patch holds a directive, and so is a strategic merge patch and not a JSON merge patch."""
    if isinstance(patch, dict):
        return any(_is_directive(key) or has_directives(value) for key, value in patch.items())
    return isinstance(patch, list) and any(has_directives(item) for item in patch)


def _is_directive(key: str) -> bool:
    return key in (_DIRECTIVE, _RETAIN) or key.startswith((_ORDER, _DELETE))


def _merge_map(original: Object, patch: Object, path: tuple[str, ...]) -> Object:
    if _DIRECTIVE in patch:
        return _replaced_map(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, path)
    for key, value in patch.items():
        if key.startswith(_DELETE):
            field = key.removeprefix(_DELETE)
            if field in original:
                original[field] = [item for item in original[field] if item not in value]
        elif value is None or (key not in original and _is_special(value)):
            original.pop(key, None)
        elif key not in original:
            original[key] = _as_new(value)
        else:
            original[key] = _merge_value(original[key], value, (*path, key))
    return original


def _merge_value(original: Json, patch: Json, path: tuple[str, ...]) -> Json:
    if isinstance(original, dict) and isinstance(patch, dict) and path not in _REPLACED_OBJECTS:
        return _merge_map(original, patch, path)
    key = merge_key_of(path) if isinstance(patch, list) else None
    if isinstance(original, list) and key is not None:
        return _in_order(_merge_list(original, patch, path, key), _as_new(patch), original, key)
    return _as_new(patch)


def _replaced_map(patch: Object) -> Object:
    match patch.pop(_DIRECTIVE):
        case "replace":
            return patch
        case "delete":
            return {}
        case other:
            raise PatchError(f"$patch: {other!r} in an object; it must be replace or delete")


def _retain_keys(original: Object, patch: Object) -> None:
    retained = patch.pop(_RETAIN, None)
    if retained is not None:
        for key in [key for key in original if key not in retained]:
            del original[key]


def _merge_ordered_lists(original: Object, patch: Object, path: tuple[str, ...]) -> None:
    """Lists with a $setElementOrder directive: merge first, then put the client's entries into the client's order."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(directive)
        field = directive.removeprefix(_ORDER)
        server = copied(original.get(field))
        key = merge_key_of((*path, field)) or ""
        deleted = patch.pop(_DELETE + field, [])
        if field not in original and field not in patch:
            continue
        merged = _merge_list(original.get(field) or [], patch.pop(field, []), (*path, field), key)
        merged = [item for item in merged if item not in deleted]
        original[field] = _in_order(merged, order, server or [], key)


def _merge_list(original: list[Json], patch: list[Json], path: tuple[str, ...], key: str) -> list[Json]:
    if not key:
        return list(dict.fromkeys([*original, *patch]))
    for item in patch:
        if key not in item and item.get(_DIRECTIVE) != "replace":
            raise PatchError(f"an entry of {'.'.join(path[1:])} has no {key}, which is the merge key of that list")
    plain = [item for item in patch if not _is_special(item)]
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_as_new(item) for item in plain]
    deleted = [item[key] for item in patch if _is_special(item)]
    merged = [entry for entry in original if entry.get(key) not in deleted]
    for item in plain:
        found = next((index for index, entry in enumerate(merged) if entry.get(key) == item[key]), None)
        if found is None:
            merged.append(_as_new(item))
        else:
            merged[found] = _merge_map(merged[found], item, path)
    return merged


def _in_order(merged: list[Json], client_order: list[Json], server_order: list[Json], key: str) -> list[Json]:
    """Entries the client named in its order, the others in the server's, woven so that neither order breaks (mergeSortedSlice)."""
    identity: Callable[[Any], Any] = (lambda item: item.get(key)) if key else (lambda item: item)
    client = {identity(item): index for index, item in reversed(list(enumerate(client_order)))}
    server = {identity(item): index for index, item in reversed(list(enumerate(server_order)))}
    named = sorted((item for item in merged if identity(item) in client), key=lambda item: client[identity(item)])
    others = sorted((item for item in merged if identity(item) not in client), key=lambda item: server.get(identity(item), -1))
    woven: list[Json] = []
    while named and others:
        left, right = server.get(identity(others[0])), server.get(identity(named[0]))
        first = others if left is not None and right is not None and left < right else named
        woven.append(first.pop(0))
    return woven + named + others


def _is_special(value: Json) -> bool:
    """Whether a value is a directive, and not content of the document."""
    return isinstance(value, dict) and _DIRECTIVE in value


def _as_new(value: Json) -> Json:
    """The value of a patch where the document has no value: without directives and without nulls (removeDirectives,
    discardNullValuesFromPatch).
    """
    if isinstance(value, dict):
        return {
            key: _as_new(entry)
            for key, entry in value.items()
            if entry is not None and not _is_directive(key) and not _is_special(entry)
        }
    if isinstance(value, list):
        return [_as_new(item) for item in value if not _is_special(item)]
    return value
