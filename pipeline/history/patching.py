"""The patch type of a recorded patch, one of four, and the patched object.

The content type of a patch is not recorded, so the type follows from the body, the query and the resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from ..request import GroupVersionResource, Json, Object
from .fit import is_fit
from .json_values import copied
from .kinds import by_kind, by_resource
from .options import query_of
from .patch import PatchError, apply_json_patch, apply_merge_patch
from .strategic import apply_strategic_merge_patch, has_directives

__all__ = ["PatchError", "PatchType", "apply_operations", "apply_patch", "patch_type", "why_unpatched"]


class PatchType(StrEnum):
    JSON = "JSON patch"
    MERGE = "merge patch"
    STRATEGIC = "strategic merge patch"
    APPLY = "apply"
    UNTOLD = "patch"  # the log has no URI, and it may be an apply


def patch_type(patch: Json, uri: str, resource: GroupVersionResource, subresource: str) -> PatchType:
    """The type of a patch body.

    Only apply takes `force`, and it needs a field manager and a whole object. Custom resources, and Scale of those, do not take a
    strategic merge patch. For built-in kinds a patch that may be strategic or merge counts as strategic, because kubectl and
    controllers send that. The two differ only in lists. Without a URI, a whole object may be applied.
    """
    if isinstance(patch, list):
        return PatchType.JSON
    if not isinstance(patch, dict):
        return PatchType.MERGE
    query = query_of(uri)
    whole = bool(patch.get("apiVersion") and patch.get("kind"))
    if "force" in query or (whole and "fieldManager" in query):
        return PatchType.APPLY
    if has_directives(patch):
        return PatchType.STRATEGIC
    if whole and not uri:
        return PatchType.UNTOLD
    custom = by_resource(resource.group, resource.resource) is None
    return PatchType.MERGE if custom or subresource == "scale" else PatchType.STRATEGIC


def apply_patch(kind: PatchType, old: Object, patch: Json) -> Object:
    """The patched object; `old` stays as it was.

    Raises PatchError where the server would have refused the patch as well, and where its type is not known.

    An apply is merged without regard to managedFields: fields that the applier gave up are kept, which the server would remove.
    """
    group = str(old.get("apiVersion", "")).rpartition("/")[0]
    custom = by_kind(group, str(old.get("kind", ""))) is None
    match kind:
        case PatchType.UNTOLD:
            raise PatchError("the URI was not recorded, so it may be an apply")
        case PatchType.JSON:
            result = apply_json_patch(old, patch)
        case PatchType.MERGE:
            result = apply_merge_patch(copied(old), patch)
        case PatchType.APPLY if custom:
            # Lists of custom resources are replaced as a whole unless their schema says otherwise.
            result = apply_merge_patch(copied(old), patch)
        case _:
            result = apply_strategic_merge_patch(old, patch)
    return _checked(result, str(kind))


def why_unpatched(kind: PatchType, error: PatchError) -> str:
    """Why a patch gives no object, in words for a report."""
    return str(error) if kind is PatchType.UNTOLD else f"the {kind} does not fit the last known version: {error}"


def apply_operations(value: Object, operations: Sequence[Any]) -> Object:
    """An object with the JSON patch of a webhook; the given one stays as it was.

    Raises PatchError for a patch that no API server applies: one that does not fit, or that leaves no object of Kubernetes.
    """
    return _checked(apply_json_patch(value, operations), "JSON patch")


def _checked(result: Json, kind: str) -> Object:
    if not isinstance(result, dict):
        raise PatchError(f"a {kind} must leave an object, but it left {type(result).__name__}")
    if not is_fit(result) or not isinstance(result.get("status") or {}, dict):
        raise PatchError(f"a {kind} must leave an object with the metadata, spec and status of Kubernetes")
    return result
