"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), as the API server applies them to a patched object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingest.errors import HindcastError

from ..request import Json
from .json_patch import JsonPatchError, TestFailedError, apply
from .json_values import copied


class PatchError(HindcastError):
    """A patch does not apply to the document: the API server would have answered 422."""


def apply_json_patch(document: Json, operations: Sequence[Any]) -> Json:
    """Apply a JSON Patch that came as JSON, from a client or a webhook; the given document stays as it was.

    Raises PatchError if it does not apply, a test fails, or an entry is not an operation. See json_patch for what the library of
    the API server does differently from RFC 6902.
    """
    try:
        return apply(document, operations, is_decoded=True)
    except (JsonPatchError, TestFailedError) as error:
        at = operations[error.at]
        shown = f"{at.get('op')} {at.get('path')!r}" if isinstance(at, dict) else repr(at)[:80]
        raise PatchError(f"operation {error.at} of a JSON patch: {shown} does not apply: {error}") from error


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """Apply a JSON Merge Patch and return the new document: null removes, objects merge, everything else replaces.

    As in the server's library (evanphx/json-patch v4, merge.go), objects in a list lose their nulls too, unless the list takes the
    place of an object.
    """
    if not isinstance(patch, dict):
        return copied(patch) if isinstance(document, dict) else _without_nulls(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def tokens_of(pointer: str) -> list[str]:
    """The reference tokens of a JSON Pointer (RFC 6901). Raises ValueError if it does not begin with a slash."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer: it must begin with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]
