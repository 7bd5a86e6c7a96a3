"""What validating admission saw of a custom resource in addition to the stored object: fields that only webhooks added.

Fields that the schema does not know, and that a webhook adds, are pruned when the object is written. Policies of the same request
see them still (kubernetes/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go; kubernetes/apiextensions-apiserver
pkg/apiserver/customresource_handler.go, the converter of the storage codec).
"""

from __future__ import annotations

from typing import Any

from ..request import Object, Unknown
from .event import Event, decode_json
from .kinds import by_resource
from .patching import PatchError, apply_patch, patch_type
from .webhook_changes import has_patches, with_webhook_patches

# The server coerces metadata before it shows an object to webhooks, and a write of the object may not touch its status.
_NOT_PRUNED = ("apiVersion", "kind", "metadata", "status")


def may_be_pruned(event: Event) -> bool:
    """Whether a webhook changed a custom resource, so that its answer may lack fields."""
    return by_resource(event.resource.group, event.resource.resource) is None and not event.subresource and has_patches(event)


def with_pruned(stored: Object, event: Event, old: Object | None) -> Object | None:
    """The stored object with the fields that webhooks added and the store pruned; None where the record does not tell them.

    `old` is the object before a patch.
    """
    if event.request_raw is None:
        return None
    body = decode_json(event.request_raw)
    if event.verb == "patch" and event.code != 201:
        if old is None:
            return None
        try:
            body = apply_patch(patch_type(body, event.request_uri, event.resource, event.subresource), old, body)
        except PatchError:
            return None
    if not isinstance(body, dict):
        return None
    made = with_webhook_patches(body, event.annotations)
    if isinstance(made, Unknown):
        return None
    return {**stored, **{name: _joined(stored.get(name), part) for name, part in made.items() if name not in _NOT_PRUNED}}


def _joined(stored: Any, made: Any) -> Any:
    """The stored value with the keys that only the made one has. Where both have a value, the stored one is right."""
    if isinstance(stored, dict) and isinstance(made, dict):
        added = {name: value for name, value in made.items() if name not in stored and value is not None}
        return {**{name: _joined(value, made.get(name)) for name, value in stored.items()}, **added}
    if isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        return [_joined(*pair) for pair in zip(stored, made, strict=True)]
    return made if stored is None else stored
