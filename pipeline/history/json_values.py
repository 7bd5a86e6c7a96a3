"""JSON values as Python has them: copies of them, and whether two are the same."""

from __future__ import annotations

from ..request import Json


def copied(value: Json) -> Json:
    """A copy of a JSON value. `copy.deepcopy` takes several times as long, because it looks for values that occur twice."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def json_equal(left: Json, right: Json) -> bool:
    """Whether two JSON values are the same; unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)
