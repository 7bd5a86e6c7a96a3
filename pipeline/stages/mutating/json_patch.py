"""JSON patches of mutating policies, as the library of the API server applies them: evanphx/json-patch v4, patch.go.

It is not RFC 6902. `replace` sets a missing member of an object, and `copy` of a missing one gives null. Negative indexes count
from the end, and a path without a leading slash names a member of the root. The API server answers with its errors.
`pipeline/history/patch.py` applies patches of clients and webhooks, which the server decodes from JSON: there null equals absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from ...history.patch import json_equal
from ...request import Json

Operation: TypeAlias = Mapping[str, Any]
_MISSING: Final = "missing value"
_INVALID_INDEX: Final = "invalid index referenced"


class JsonPatchError(Exception):
    """A patch that cannot be applied. `str()` is the API server's text after `JSON Patch: `."""


class TestFailedError(Exception):
    """A `test` found another value: the API server drops the whole patch and says nothing."""


def apply(document: Json, operations: Sequence[Operation]) -> Json:
    """The document with all operations applied; the given one stays as it was.

    An operation has `op` and `path`, and `from` and `value` where they were set. Raises JsonPatchError and TestFailedError.
    """
    root = [deepcopy(document)]
    for operation in operations:
        name = operation["op"]
        apply_one = None if _bad_escape(name) else _OPERATIONS.get(name)
        if apply_one is None:
            raise JsonPatchError(f"Unexpected kind: {'unknown' if _bad_escape(name) else name}")
        apply_one(root, operation)
    return root[0]


def _bad_escape(text: str) -> str:
    """The letter of the first escape that Go's strconv.Quote writes and JSON does not have; empty without one."""
    for character in text:
        number = ord(character)
        if character in "\a\v":
            return {"\a": "a", "\v": "v"}[character]
        if (number < 0x20 and character not in "\b\f\n\r\t") or number == 0x7F:
            return "x"
        if number > 0xFFFF and not character.isprintable():
            return "U"
    return ""


def _path(operation: Operation, is_plain: bool = True, field: str = "path") -> str:
    """The path of an operation. The errors of three operations name the escape that JSON does not have."""
    text: str = operation[field]
    if letter := _bad_escape(text):
        why = _MISSING if is_plain else f"invalid character '{letter}' in string escape code"
        raise JsonPatchError(f"{operation['op']} operation failed to decode {field}: {why}")
    return text


def _from(operation: Operation) -> str:
    if not operation.get("from"):
        missing = f"operation, missing from field: {_MISSING}"
        raise JsonPatchError(f"{operation['op']} operation failed to decode from: {missing}")
    return _path(operation, False, "from")


def _find(root: list[Json], path: str) -> tuple[Any, str] | None:
    """The object or list around the place that a path names, and its last token; None without such a place."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    found = root[0]
    for part in parts[1:-1]:
        try:
            found = _get(found, _token(part))
        except JsonPatchError:
            return None
        if not isinstance(found, dict | list):
            return None
    return (found, _token(parts[-1])) if isinstance(found, dict | list) else None


def _token(text: str) -> str:
    return text.replace("~1", "/").replace("~0", "~")


def _number(key: str) -> int:
    """strconv.Atoi"""
    digits = key[1:] if key[:1] in ("+", "-") else key
    if not digits.isascii() or not digits.isdigit():
        raise JsonPatchError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    return int(key)


def _index(array: list[Json], key: str, limit: int) -> int:
    index = _number(key)
    if not -limit <= index < limit:
        raise JsonPatchError(f"Unable to access invalid index: {index}: {_INVALID_INDEX}")
    return index + limit if index < 0 else index


def _get(holder: Any, key: str) -> Json:
    return holder.get(key) if isinstance(holder, dict) else holder[_index(holder, key, len(holder))]


def _put(holder: Any, key: str, value: Json) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    else:
        try:
            _number(key)
        except JsonPatchError as problem:
            raise JsonPatchError(f"value was not a proper array index: '{key}': {problem}") from None
        holder.insert(_index(holder, key, len(holder) + 1), value)


def _delete(holder: Any, key: str) -> None:
    if isinstance(holder, list):
        del holder[_index(holder, key, len(holder))]
    elif key in holder:
        del holder[key]
    else:
        raise JsonPatchError(f"Unable to remove nonexistent key: {key}: {_MISSING}")


def _add(root: list[Json], operation: Operation) -> None:
    path = _path(operation)
    found = _find(root, path)
    if found is None:
        raise JsonPatchError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in add for path: '{path}'", lambda: _put(*found, deepcopy(operation.get("value"))))


def _remove(root: list[Json], operation: Operation) -> None:
    path = _path(operation)
    found = _find(root, path)
    if found is None:
        raise JsonPatchError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in remove for path: '{path}'", lambda: _delete(*found))


def _replace(root: list[Json], operation: Operation) -> None:
    path = _path(operation, False)
    value = deepcopy(operation.get("value"))
    if not path:
        if not isinstance(value, dict | list):
            raise JsonPatchError("replace operation value must be object or array: %!w(<nil>)")
        root[0] = value
        return
    found = _find(root, path)
    if found is None:
        raise JsonPatchError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    holder, key = found
    if isinstance(holder, dict):
        holder[key] = value
        return
    try:
        holder[_index(holder, key, len(holder))] = value
    except JsonPatchError:
        raise JsonPatchError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None


def _move(root: list[Json], operation: Operation) -> None:
    source = _from(operation)
    found = _find(root, source)
    if found is None:
        raise JsonPatchError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _within(f"error in move for path: '{found[1]}'", lambda: _get(*found))
    _within(f"error in move for path: '{found[1]}'", lambda: _delete(*found))
    path = _path(operation, False)
    target = _find(root, path)
    if target is None:
        raise JsonPatchError(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    _within(f"error in move for path: '{path}'", lambda: _put(*target, value))


def _copy(root: list[Json], operation: Operation) -> None:
    source = _from(operation)
    found = _find(root, source)
    if found is None:
        raise JsonPatchError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    value = _within(f"error in copy for from: '{source}'", lambda: _get(*found))
    path = _path(operation)
    target = _find(root, path)
    if target is None:
        raise JsonPatchError(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    _within("error while adding value during copy", lambda: _put(*target, deepcopy(value)))


def _test(root: list[Json], operation: Operation) -> None:
    path = _path(operation, False)
    if not path:
        if "value" in operation and _equal(root[0], operation["value"]):
            return
        raise TestFailedError(path)
    found = _find(root, path)
    if found is None:
        raise JsonPatchError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
    value = _within(f"error in test for path: '{path}'", lambda: _get(*found))
    is_equal = "value" not in operation if value is None else "value" in operation and _equal(value, operation["value"])
    if not is_equal:
        raise TestFailedError(path)


def _equal(found: Json, tested: Json) -> bool:
    """An empty object or list equals a null that an expression wrote: the library reads either as no entries."""
    return not found if tested is None and isinstance(found, dict | list) else json_equal(found, tested)


def _within(where: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except JsonPatchError as problem:
        raise JsonPatchError(f"{where}: {problem}") from None


_OPERATIONS: Final[Mapping[str, Callable[[list[Json], Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
    "copy": _copy,
}
