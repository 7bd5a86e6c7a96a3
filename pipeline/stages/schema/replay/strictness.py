"""The fields that a strict-decoding error names, and whether another schema knows them."""

from __future__ import annotations

import re

from ..props import Props

_NAMED = re.compile(r'(unknown|duplicate) field "((?:[^"\\]|\\.)*)"')
_STEP = re.compile(r"\[\d+\]|\.?[^.\[\]]+")


def still_unknown(message: str, schema: Props) -> list[str]:
    """The words of a strict-decoding error that another schema would say as well. Doubled fields are errors under every schema."""
    left = []
    for kind, path in _NAMED.findall(message):
        if kind == "duplicate" or not knows(schema, path):
            left.append(f'{kind} field "{path}"')
    return left


def knows(schema: Props, path: str) -> bool:
    """Whether a schema keeps the field at a path such as `spec.rules[0].name`. Metadata has a schema of its own."""
    steps = _STEP.findall(path)
    if steps and steps[0] == "metadata":
        return False
    place: Props | None = schema
    for step in steps:
        if place is None:
            return False
        if step.startswith("["):
            place = place.items
            continue
        name = step.removeprefix(".")
        below = place.properties.get(name)
        if below is None and place.additional_properties is None:
            return bool(place.preserves_unknown_fields)
        place = below or place.values
        if below is None and place is None:
            return True
    return True
