"""Pairs each part of a new object with the part of the old object that it replaces: what ratcheting is about.

Follows kubernetes/apiserver pkg/cel/common/{equality,maplist}.go. Fields and keys pair by name, and items of a list of type map by
its keys. Items of other lists do not pair, but a whole list can be equal. A key without a schema does not pair, and makes the
object around it unequal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .props import Props


class MapList:
    """Finds the first item of a list that has the same keys as an item of another list."""

    def __init__(self, keys: tuple[str, ...], items: Any) -> None:
        self.keys = keys
        self.by_key: dict[Any, Any] = {}
        for item in items if isinstance(items, list) else ():
            if (found := self.key_of(item)) is not None:
                self.by_key.setdefault(found, item)

    def key_of(self, item: Any) -> Any:
        """The values of the keys; None if the item is not an object or a key is missing or is not a scalar."""
        if not isinstance(item, Mapping):
            return None
        found = []
        for name in self.keys:
            value = item.get(name)
            if not isinstance(value, str | int | float):
                return None
            found.append((value.__class__, value))
        return tuple(found) or None

    def get(self, item: Any) -> Any:
        """The item with the same keys; None if it is absent."""
        wanted = self.key_of(item)
        return None if wanted is None else self.by_key.get(wanted)


class Correlated:
    """A new value, the old value in its place, and their schema."""

    __slots__ = ("_children", "_is_equal", "_list", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: Props) -> None:
        self.new = new
        self.old = old
        self.schema = schema
        self._children: dict[str | int, Correlated] = {}
        self._is_equal: bool | None = None
        self._list: MapList | None = None

    def key(self, name: str) -> Correlated | None:
        """The pair at a field or key; None if there is no old value or no schema."""
        if (known := self._children.get(name)) is not None:
            return known
        if not isinstance(self.old, dict) or not isinstance(self.new, dict) or name not in self.old or name not in self.new:
            return None
        schema = self.schema.properties.get(name) or self.schema.values
        if schema is None:
            return None
        found = self._children[name] = Correlated(self.new[name], self.old[name], schema)
        return found

    def index(self, number: int) -> Correlated | None:
        """The pair at an item of a list of type map; None if no old item has its keys."""
        if (known := self._children.get(number)) is not None:
            return known
        if self.schema.list_type != "map" or self.schema.items is None:
            return None
        if not isinstance(self.new, list) or not isinstance(self.old, list):
            return None
        if self._list is None:
            self._list = MapList(self.schema.list_map_keys, self.old)
        old = self._list.get(self.new[number])
        if old is None:
            return None
        found = self._children[number] = Correlated(self.new[number], old, self.schema.items)
        return found

    @property
    def is_equal(self) -> bool:
        """Whether the new value is the old one, as ratcheting sees it."""
        if self._is_equal is None:
            self._is_equal = self._compared()
        return self._is_equal

    def _compared(self) -> bool:
        new, old = self.new, self.old
        if new is None or old is None:
            return new is old
        if isinstance(new, list) and isinstance(old, list):
            return self._lists()
        if isinstance(new, dict) and isinstance(old, dict):
            if len(new) != len(old):
                return False
            return all((pair := self.key(name)) is not None and pair.is_equal for name in new)
        return same(new, old)

    def _lists(self) -> bool:
        if len(self.new) != len(self.old):
            return False
        for number in range(len(self.new)):
            pair = self.index(number)
            if pair is None:
                return self._list is None and same(self.new, self.old)
            if not pair.is_equal:
                return False
        return True


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal in Go: 1, 1.0 and true are three values."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(name in other and same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
