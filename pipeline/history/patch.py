"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), as the API server applies them to a patched object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingest.errors import HindcastError

from ..request import Json


class PatchError(HindcastError):
    """A patch does not apply to the document: the API server would have answered 422."""


def copied(value: Json) -> Json:
    """A copy of a JSON value. `copy.deepcopy` takes several times as long, because it looks for values that occur twice."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def apply_json_patch(document: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """Apply a JSON Patch and return the new document; the given one stays as it was.

    Raises PatchError if a path does not exist or a test fails. It behaves like the server's library (evanphx/json-patch v4, as
    kubernetes/apiserver pkg/endpoints/handlers/patch.go sets it up). A negative array index counts from the end. Replacing a
    missing member adds it, a test sees it as null, and removing it is an error.
    """
    result = copied(document)
    for index, operation in enumerate(operations):
        name = operation.get("op")
        apply = _OPERATIONS.get(str(name))
        if apply is None:
            raise PatchError(f"operation {index} of a JSON patch: op is {name!r}; it must be one of {', '.join(_OPERATIONS)}")
        try:
            result = apply(result, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PatchError(
                f"operation {index} of a JSON patch: {name} {operation.get('path')!r} does not apply: {error}"
            ) from error
    return result


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """Apply a JSON Merge Patch and return the new document: null removes, objects merge, everything else replaces.

    As in the server's library (evanphx/json-patch v4, merge.go), objects in a list lose their nulls too, unless the list takes the
    place of an object.
    """
    if not isinstance(patch, dict):
        return copied(patch) if isinstance(document, dict) else _without_nulls(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def tokens_of(pointer: str) -> list[str]:
    """The reference tokens of a JSON Pointer (RFC 6901). Raises ValueError if it does not begin with a slash."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer: it must begin with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def _parent(document: Json, tokens: list[str]) -> Json:
    for token in tokens[:-1]:
        document = document[_index(document, token)] if isinstance(document, list) else document[token]
    if not isinstance(document, (dict, list)):
        raise TypeError("the parent is neither an object nor an array")
    return document


def _index(array: list[Json], token: str, *, end: bool = False) -> int:
    limit = len(array) + (1 if end else 0)
    if end and token == "-":
        return len(array)
    index = int(token)
    if not -limit <= index < limit:
        raise IndexError(f"index {index} of an array of {len(array)}")
    return index + limit if index < 0 else index


def _get(document: Json, pointer: str) -> Json:
    tokens = tokens_of(pointer)
    if not tokens:
        return document
    parent = _parent(document, tokens)
    return parent[_index(parent, tokens[-1])] if isinstance(parent, list) else parent[tokens[-1]]


def _add(document: Json, pointer: str, value: Json) -> Json:
    tokens = tokens_of(pointer)
    if not tokens:
        return value
    parent = _parent(document, tokens)
    if isinstance(parent, list):
        parent.insert(_index(parent, tokens[-1], end=True), value)
    else:
        parent[tokens[-1]] = value
    return document


def _remove(document: Json, pointer: str) -> Json:
    tokens = tokens_of(pointer)
    if not tokens:
        return None
    parent = _parent(document, tokens)
    if isinstance(parent, list):
        del parent[_index(parent, tokens[-1])]
    else:
        del parent[tokens[-1]]
    return document


def _replace(document: Json, pointer: str, value: Json) -> Json:
    tokens = tokens_of(pointer)
    if not tokens:
        return value
    parent = _parent(document, tokens)
    parent[_index(parent, tokens[-1]) if isinstance(parent, list) else tokens[-1]] = value
    return document


def _move(document: Json, operation: Mapping[str, Any]) -> Json:
    source, target = operation["from"], operation["path"]
    if target.startswith(f"{source}/"):
        raise ValueError("a value cannot move into itself")
    value = _get(document, source)
    return _add(_remove(document, source), target, value)


def _test(document: Json, operation: Mapping[str, Any]) -> Json:
    tokens = tokens_of(operation["path"])
    parent = _parent(document, tokens) if tokens else None
    found = parent.get(tokens[-1]) if isinstance(parent, dict) else _get(document, operation["path"])
    if not json_equal(found, operation.get("value")):
        raise ValueError("the tested value differs")
    return document


def json_equal(left: Json, right: Json) -> bool:
    """Whether two JSON values are the same; unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[Json, Mapping[str, Any]], Json]] = {
    "add": lambda document, op: _add(document, op["path"], copied(op["value"])),
    "remove": lambda document, op: _remove(document, op["path"]),
    "replace": lambda document, op: _replace(document, op["path"], copied(op["value"])),
    "move": _move,
    "copy": lambda document, op: _add(document, op["path"], copied(_get(document, op["from"]))),
    "test": _test,
}
