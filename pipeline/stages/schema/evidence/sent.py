"""The unknown fields that one recorded request sent, with the channel that shows them.

The API server prunes the body of a create or an update before it logs it. So such a body shows only what the schema of that time
kept. Patches are logged as sent. kubectl keeps the applied manifest in an annotation. Refusals name unknown fields, and the refusal
of a strict patch quotes the whole object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ....history.event import Event, decode_json
from ....history.patching import PatchType, patch_type
from ..props import Props
from .paths import Path, place_of, unknown_fields

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_POINTER: Final = "/metadata/annotations/" + LAST_APPLIED.replace("/", "~1")
_QUOTES: Final = " is invalid: patch: Invalid value: "
_STRICT: Final = "strict decoding error: "
_NAMED: Final = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')
_UNTYPED: Final = re.compile(r"(?:^|[\s:])\.([^\s:]+): field not declared in schema")
_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
# These subresources have bodies of the resource's own kind.
OWN_BODIES: Final = frozenset(("", "status"))


class Channel(StrEnum):
    """The record that shows that a client sent a field."""

    BODY = "body"  # of a create or update, as far as the schema of that time kept it
    PATCH = "patch"  # as sent
    LAST_APPLIED = "last-applied"  # the annotation of kubectl apply
    REFUSAL = "refusal"  # the error names the field; only that of a strict patch shows its value


class NoValue:
    """The type of NO_VALUE."""


NO_VALUE: Final = NoValue()


@dataclass(frozen=True, slots=True)
class Sent:
    """One unknown field that a request sent. `value` is NO_VALUE where the record names the field alone."""

    channel: Channel
    path: Path
    value: Any = NO_VALUE


def sent_fields(event: Event, schema: Props | None) -> Iterator[Sent]:
    """The unknown fields of a create, update or patch of a resource or its status, without the annotation's."""
    if event.subresource not in OWN_BODIES:
        return
    if event.code >= 400:
        yield from refused_fields(event.message, schema)
    if event.request_raw is None:
        return
    body = decode_json(event.request_raw)
    if event.verb != "patch":
        for path, value in unknown_fields(body, schema):
            yield Sent(Channel.BODY, path, value)
    elif isinstance(body, list):
        yield from _operations(body, schema)
    else:
        is_merge = patch_type(body, event.request_uri, event.resource, event.subresource) is not PatchType.APPLY
        for path, value in unknown_fields(body, schema):
            if value is not None or not is_merge:  # In a merge patch null removes the field.
                yield Sent(Channel.PATCH, path, value)


def applied_fields(annotation: str, schema: Props | None) -> Iterator[Sent]:
    """The unknown fields of a manifest that kubectl kept; nothing for a text that is no object."""
    try:
        manifest = json.loads(annotation)
    except (ValueError, RecursionError):
        return
    if isinstance(manifest, dict):
        for path, value in unknown_fields(manifest, schema):
            yield Sent(Channel.LAST_APPLIED, path, value)


def annotation_of(body: Any) -> str | None:
    """The annotation of kubectl apply in an object, a merge patch or a JSON patch; None without one."""
    if isinstance(body, list):
        values = [each.get("value") for each in body if isinstance(each, dict) and each.get("path") == _POINTER]
        found = values[-1] if values else None
    else:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        found = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else None


def refused_fields(message: str, schema: Props | None) -> Iterator[Sent]:
    """The fields that an error calls unknown, and that this schema does not know either."""
    _, _, strict = message.rpartition(_STRICT)  # The object, which a refused patch quotes, stands before it.
    quoted = quoted_object(message)
    named = _NAMED.findall(strict) if _STRICT in message else _UNTYPED.findall(message)
    for text in named:
        path = tuple(name or (int(inner) if inner.isdigit() else 0) for inner, name in _STEP.findall(text))
        place = place_of(schema, [str(step) for step in path])
        if place.known < len(path) or place.in_metadata:
            yield Sent(Channel.REFUSAL, path, NO_VALUE if quoted is None else _value_at(quoted, path))


def quoted_object(message: str) -> dict[str, Any] | None:
    """The whole patched object, which the refusal of a strict JSON or merge patch quotes; None without one."""
    _, _, rest = message.partition(_QUOTES)
    text, _, _ = rest.rpartition(f": {_STRICT}")
    try:
        found = json.loads(json.loads(text)) if text.startswith('"') else None
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return NO_VALUE
    return value


def _operations(operations: list[Any], schema: Props | None) -> Iterator[Sent]:
    """The unknown fields that a JSON patch sets. The values of copied and moved fields are elsewhere."""
    for each in operations:
        if not isinstance(each, dict) or each.get("op") not in ("add", "replace", "copy", "move"):
            continue
        steps = _pointer(each.get("path"))
        known, place, _ = place_of(schema, steps)
        path: Path = tuple(int(step) if step.isdigit() else 0 if step == "-" else step for step in steps)
        if known < len(steps):
            is_whole = known == len(steps) - 1 and "value" in each
            yield Sent(Channel.PATCH, path[: known + 1], each["value"] if is_whole else NO_VALUE)
        elif "value" in each and (place is not None or not steps):
            for below, value in unknown_fields(each["value"], place if steps else schema, not steps, path):
                yield Sent(Channel.PATCH, below, value)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or not text.startswith("/"):
        return []
    return [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]
