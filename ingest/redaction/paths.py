"""Removes values inside bodies that the operator names by path: `pods:spec.containers.env.value`.

A path is RESOURCE, a colon, and field names with dots between them. `*` stands for every field or element, lists have no step of
their own, and a dot inside a name is written `\\.`. Everything around the value stays byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from ..errors import InputError

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_DOT = re.compile(r"(?<!\\)\.")
_LAST_APPLIED_STEPS = ("metadata", "annotations", LAST_APPLIED)
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_text_decoder = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()

# From the JSON text of a value to the JSON text of its replacement.
Replace = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class BodyPath:
    """One configured path: `resource` as in a table of resources, `steps` from the top of an object, `text` as it was given."""

    resource: str
    steps: tuple[str, ...]
    text: str


def parse_body_path(text: str) -> BodyPath:
    """The path that a setting names. Raises InputError for an invalid path."""
    resource, colon, path = text.partition(":")
    steps = tuple(step.replace("\\.", ".") for step in _DOT.split(path))
    if not colon or not resource or "" in steps or "," in path:
        raise InputError(f"{text!r} names no part of a body", "write RESOURCE:FIELD.FIELD, e.g. pods:spec.containers.env.value")
    return BodyPath(resource, steps, path)


def clean_body(body: bytes, paths: Sequence[BodyPath], replace: Replace) -> tuple[bytes | None, list[str]]:
    """The body without the values at `paths`, and the texts of the paths that held something.

    None instead of a body that cannot be searched: a JSON patch names its places in another way, and an undecodable body hides
    them. Objects in lists and in kubectl's last-applied-configuration are searched, too.
    """
    if body[:1] != b"{":
        return None, [path.text for path in paths]
    found = []
    try:
        for path in paths:
            cleaned = _clean_document(body, path.steps, replace)
            if cleaned != body:
                body = cleaned
                found.append(path.text)
    except (ValueError, RecursionError):
        return None, [path.text for path in paths]
    return body, found


def clean_patch(annotation: bytes, paths: Sequence[BodyPath], replace: Replace) -> bytes:
    """The annotation on a webhook's JSON patch without the values at `paths`: an operation names its place by a JSON pointer.

    The same bytes if no path matches. Raises ValueError for bytes that do not decode.
    """
    if not paths or annotation[:1] != b"{":
        return annotation
    fields = _object_decoder.decode(annotation)
    operations = _array_decoder.decode(fields.get("patch", b"[]")) or []
    cleaned = [_clean_operation(bytes(operation), paths, replace) for operation in operations]
    if all(bytes(before) == after for before, after in zip(operations, cleaned, strict=True)):
        return annotation
    fields["patch"] = msgspec.Raw(_encoder.encode([msgspec.Raw(operation) for operation in cleaned]))
    return _encoder.encode(fields)


def _clean_operation(operation: bytes, paths: Sequence[BodyPath], replace: Replace) -> bytes:
    fields = _object_decoder.decode(operation)
    if "value" not in fields:
        return operation
    pointer = _text_decoder.decode(fields.get("path", b'""'))
    place = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    before = value = bytes(fields["value"])
    for path in paths:
        for steps in (path.steps, ("items", *path.steps)):
            for taken in _steps_taken(place, steps):
                value = _clean(value, steps[taken:], replace)
    if value == before:
        return operation
    fields["value"] = msgspec.Raw(value)
    return _encoder.encode(fields)


def _steps_taken(place: Sequence[str], steps: tuple[str, ...]) -> set[int]:
    """How many steps of the path may lead to a place; all of them at its end or below. The set is empty for a place off the
    path."""
    taken = {0}
    for part in place:
        is_element = part == "-" or part.isdigit()  # steps do not count the elements of lists
        onward = {count + 1 for count in taken if count < len(steps) and steps[count] in ("*", part)}
        taken = onward | {count for count in taken if is_element or count == len(steps)}
    return taken


def _clean_document(document: bytes, steps: tuple[str, ...], replace: Replace) -> bytes:
    def inside_text(text: bytes) -> bytes:
        if text[:1] != b'"' or (inner := _text_decoder.decode(text).encode())[:1] != b"{":
            return text
        cleaned = _clean(inner, steps, replace)
        return text if cleaned is inner else _encoder.encode(cleaned.decode())

    for prefix in ((), ("items",)):
        document = _clean(document, (*prefix, *steps), replace)
        document = _clean(document, (*prefix, *_LAST_APPLIED_STEPS), inside_text)
    return document


def _clean(value: bytes, steps: tuple[str, ...], replace: Replace) -> bytes:
    """The JSON text with the values at `steps` replaced; the same object without such values."""
    if not steps:
        return value if value == b"null" else replace(value)
    if value[:1] == b"[":
        rest = steps[1:] if steps[0] == "*" else steps
        elements = _array_decoder.decode(value)
        cleaned = [_clean(bytes(element), rest, replace) for element in elements]
        if all(bytes(before) == after for before, after in zip(elements, cleaned, strict=True)):
            return value
        return _encoder.encode([msgspec.Raw(element) for element in cleaned])
    if value[:1] != b"{":
        return value
    fields = _object_decoder.decode(value)
    changed = False
    for name in list(fields) if steps[0] == "*" else [name for name in steps[:1] if name in fields]:
        before = bytes(fields[name])
        after = _clean(before, steps[1:], replace)
        if after != before:
            fields[name] = msgspec.Raw(after)
            changed = True
    return _encoder.encode(fields) if changed else value
