"""The promise of lists of type set and map: no item, or no combination of keys, is there twice.

Follows apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from .field_errors import FieldError, child, duplicate, go_json, index, invalid, key
from .props import Props


def duplicates(value: Any, schema: Props | None, path: str = "") -> Iterator[FieldError]:
    """The errors of every set and map list within a value. Each repeated item is reported once, at its second place."""
    if schema is None:
        return
    if isinstance(value, list):
        if schema.list_type == "set":
            for number in _repeated(value):
                yield duplicate(index(path, number), value[number])
        elif schema.list_type == "map":
            yield from _repeated_keys(value, schema, path)
        for number, item in enumerate(value):
            yield from duplicates(item, schema.items, index(path, number))
    elif isinstance(value, dict):
        for name, item in value.items():
            if schema.values is not None:
                yield from duplicates(item, schema.values, key(path, name))
            if (below := schema.properties.get(name)) is not None:
                yield from duplicates(item, below, child(path, name))


def _repeated_keys(items: list[Any], schema: Props, path: str) -> Iterator[FieldError]:
    for number, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            yield invalid(index(path, number), item, "must be an object for an array of list-type map")
            return
    keys = [{name: (item or {})[name] for name in schema.list_map_keys if name in (item or {})} for item in items]
    for number in _repeated(keys):
        yield duplicate(index(path, number), keys[number])


def _repeated(items: list[Any]) -> list[int]:
    """The place of the second of each group of equal items."""
    seen: dict[Hashable, int] = {}
    places = []
    for number, item in enumerate(items):
        is_compound = isinstance(item, dict | list)
        slot: Hashable = (item.__class__, go_json(item) if is_compound else item)
        seen[slot] = seen.get(slot, 0) + 1
        if seen[slot] == 2:
            places.append(number)
    return places
