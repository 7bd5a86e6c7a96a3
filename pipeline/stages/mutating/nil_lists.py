"""Lists that Go holds as nil: expressions see an empty list, and JSON has null.

An ApplyConfiguration expression that makes an empty list gives a nil slice (convertField of kubernetes/apiserver
pkg/cel/mutation/dynamic/objects.go). A custom resource keeps it until the store writes JSON. For built-in kinds the tags of Go
types decide: see decoding.written.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ...request import Json

_SCALARS = frozenset((str, int, float, bool, type(None)))


class NilList(list[Any]):
    """A nil slice, which is always empty."""


def copied(value: Any) -> Any:
    """A copy of a value. `copy.deepcopy` takes several times as long, because it looks for values that occur twice."""
    if value.__class__ is dict:
        return {name: item if item.__class__ in _SCALARS else copied(item) for name, item in value.items()}
    if value.__class__ is list:
        return [item if item.__class__ in _SCALARS else copied(item) for item in value]
    return deepcopy(value)


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
