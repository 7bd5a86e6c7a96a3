"""The line of a manifest that a field error is about."""

from __future__ import annotations

import re
from typing import Any

from ...manifests.documents import Document, Path

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
# The API server moves what all versions share to the top before it checks it.
_MOVED = {
    "validation": ("versions", 0, "schema"),
    "subresources": ("versions", 0, "subresources"),
    "additionalPrinterColumns": ("versions", 0, "additionalPrinterColumns"),
    "selectableFields": ("versions", 0, "selectableFields"),
}


def place_of(document: Document, field: str) -> str:
    """`file:line` of the field of an error, or of the closest written field around it."""
    return document.where(_path(document.value, field))


def _path(value: Any, field: str) -> Path:
    steps: list[str | int] = [name or inner for name, inner in _STEP.findall(field)]
    spec = value.get("spec") if isinstance(value, dict) else None
    if len(steps) > 1 and steps[0] == "spec" and isinstance(spec, dict) and steps[1] in _MOVED and steps[1] not in spec:
        steps[1:2] = _MOVED[str(steps[1])]
    found: list[str | int] = []
    for step in steps:
        if isinstance(value, list):
            number = int(step) if str(step).isdigit() else -1
            if not 0 <= number < len(value):
                break
            value, step = value[number], number
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            break
        found.append(step)
    return tuple(found)
