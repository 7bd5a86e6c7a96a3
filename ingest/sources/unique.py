"""Names that strangers gave twice."""

from __future__ import annotations

from collections.abc import Iterable


def unique_names(names: Iterable[str]) -> list[str]:
    """The names in their order, each once: the second `a.json` is `a.json#2`."""
    found: dict[str, None] = {}
    counts: dict[str, int] = {}
    for name in names:
        number, own = counts.get(name, 0), name
        while not number or own in found:
            number += 1
            own = name if number == 1 else f"{name}#{number}"
        counts[name] = number
        found[own] = None
    return list(found)
