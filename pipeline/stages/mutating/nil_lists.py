"""Lists that Go holds as nil: expressions see an empty list, and JSON has null.

An ApplyConfiguration expression that makes an empty list gives a nil slice (convertField of kubernetes/apiserver
pkg/cel/mutation/dynamic/objects.go). A custom resource keeps it until the store writes JSON. For built-in kinds the tags of Go
types decide: see decoding.written.
"""

from __future__ import annotations

from typing import Any

from ...request import Json


class NilList(list[Any]):
    """A nil slice, which is always empty."""


def has_nil(value: Json) -> bool:
    """Whether a nil slice is anywhere in a value."""
    if isinstance(value, dict):
        return any(map(has_nil, value.values()))
    return isinstance(value, NilList) or (isinstance(value, list) and any(map(has_nil, value)))


def as_seen(value: Any) -> Any:
    """The value as expressions and the checks of its schema see it. It is the given one where it has no nil slice."""
    return _replaced(value, list) if has_nil(value) else value


def as_json(value: Any) -> Any:
    """The value as JSON. It is the given one where it has no nil slice."""
    return _replaced(value, type(None)) if has_nil(value) else value


def _replaced(value: Json, by: type) -> Any:
    if isinstance(value, NilList):
        return by()
    if isinstance(value, dict):
        return {name: _replaced(item, by) for name, item in value.items()}
    return [_replaced(item, by) for item in value] if isinstance(value, list) else value
