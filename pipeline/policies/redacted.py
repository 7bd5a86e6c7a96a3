"""Values of a request that redaction replaced: they are unknown to expressions, and not the text of the placeholder."""

from __future__ import annotations

from typing import Any

from ..cel.values import Unknown as CelUnknown
from ..withheld import holds_placeholder


def without_placeholders(place: str, value: Any) -> Any:
    """The value with an unknown for each text that holds a placeholder; the same value without one. `place` names it in reasons.

    That a key or an element is there stays known, and so does the size of the list or map around it.
    """
    if value.__class__ is str:
        return CelUnknown(f"{place}: redacted") if holds_placeholder(value) else value
    if value.__class__ is dict:
        fields = {name: without_placeholders(f"{place}.{name}", item) for name, item in value.items()}
        return fields if any(fields[name] is not item for name, item in value.items()) else value
    if value.__class__ is list:
        items = [without_placeholders(f"{place}[]", item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
