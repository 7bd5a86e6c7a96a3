"""The changes that mutating webhooks made to an object, as the annotations of its event tell them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..request import Object, Unknown
from .event import Event, decode_json
from .json_values import json_equal
from .patch import PatchError, apply_json_patch
from .patching import apply_operations

_PATCH_ANNOTATION = re.compile(r"^patch\.webhook\.admission\.k8s\.io/round_([0-9]{1,9})_index_([0-9]{1,9})$")


def has_patches(event: Event) -> bool:
    """Whether an event shows a patch of a webhook."""
    return any(map(_PATCH_ANNOTATION.match, event.annotations))


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
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise PatchError(f"it is not JSON: {error}") from error
        operations = told.get("patch") if isinstance(told, dict) else None
        if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
            raise PatchError("it is not a list of operations")
        yield operations


def operations_of(event: Event) -> Iterator[Mapping[str, Any]]:
    """The operations of the recorded patches that change the body, in order. Raises PatchError as `webhook_patches` does.

    Of a patch request, whose body is no object, these are all of them.
    """
    every = (each for operations in webhook_patches(event.annotations) for each in operations)
    if event.verb == "patch" or event.request_raw is None or not has_patches(event):
        yield from every
        return
    value = decode_json(event.request_raw)
    for each in every:
        changed = apply_json_patch(value, [each])
        if not json_equal(changed, value):
            yield each
        value = changed


def with_webhook_patches(value: Object, annotations: Mapping[str, str]) -> Object | Unknown:
    """An object after the recorded patches of webhooks.

    They fit the body that the API server recorded. They may not fit a redacted body, which lacks values or a whole Secret.
    """
    try:
        for operations in webhook_patches(annotations):
            value = apply_operations(value, operations)
    except PatchError as error:
        return Unknown(f"a recorded patch of a webhook does not fit: {error}")
    return value
