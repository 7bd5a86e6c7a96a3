"""JSON patches as the library of the API server applies them: evanphx/json-patch v4, patch.go.

It is not RFC 6902. `replace` sets a missing member of an object, and `copy` of a missing one gives null. Negative indexes count
from the end, and a path without a leading slash names a member of the root. The API server answers with its errors.

The server decodes patches of clients and webhooks from JSON: there a null equals an absent value. It builds the patches of mutating
policies itself, and there a null is a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..request import Json
from .json_values import copied, json_equal

Operation: TypeAlias = Mapping[str, Any]
# What all copies of one patch may add up to, in bytes of JSON (JSONPatchMaxCopyBytes of kubernetes/apiserver pkg/server/config.go).
COPIES_BYTES_MAX: Final = 3 * 1024 * 1024
_MISSING: Final = "missing value"
_INVALID_INDEX: Final = "invalid index referenced"
# Go writes these characters of a text as six bytes each, and in the form of this module they take one or three.
_ESCAPED: Final = {b"<": 5, b">": 5, b"&": 5, "\u2028".encode(): 3, "\u2029".encode(): 3}


class _NotAppliedError(Exception):
    """A patch that changes nothing. `at` is the number of the operation that ended it."""

    at = 0


class JsonPatchError(_NotAppliedError):
    """A patch that cannot be applied. `str()` is the API server's text after `JSON Patch: `."""


class TestFailedError(_NotAppliedError):
    """A `test` found another value: the API server drops the whole patch of a policy and says nothing."""


class _Patching:
    """One patch on its way through a document. `is_decoded`: the server read the patch from JSON."""

    def __init__(self, document: Json, is_decoded: bool) -> None:
        self.root = copied(document)
        self.is_decoded = is_decoded
        self.copied_bytes = 0

    def copy_of(self, value: Json) -> Json:
        """A copy of a value of the document. Raises JsonPatchError if the copies of the patch are too large together."""
        text = "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        encoded = text.encode(errors="surrogatepass")
        self.copied_bytes += len(encoded) + sum(encoded.count(each) * more for each, more in _ESCAPED.items())
        if self.copied_bytes > COPIES_BYTES_MAX:
            size = f"the accumulated size increase of copy is {self.copied_bytes}"
            raise JsonPatchError(f"Unable to complete the copy, {size}, exceeding the limit {COPIES_BYTES_MAX}")
        return copied(value)

    def tests(self, operation: Operation, found: Json) -> bool:
        """Whether the value of a `test` is the one that was found."""
        tested = operation.get("value")
        if "value" not in operation or (self.is_decoded and tested is None):
            return found is None
        if found is None:
            return False
        # An empty object or list equals a null that an expression wrote: the library reads either as no entries.
        return not found if tested is None and isinstance(found, dict | list) else json_equal(found, tested)


def apply(document: Json, operations: Sequence[Operation], *, is_decoded: bool = False) -> Json:
    """The document with all operations applied; the given one stays as it was.

    An operation has `op` and `path`, and `from` and `value` where they were set. `is_decoded`: the patch came as JSON, from a
    client or a webhook. Raises JsonPatchError and TestFailedError.
    """
    patching = _Patching(document, is_decoded)
    for at, operation in enumerate(operations):
        try:
            _apply_one(patching, operation)
        except _NotAppliedError as problem:
            problem.at = at
            raise
    return patching.root


def _apply_one(patching: _Patching, operation: Operation) -> None:
    name = operation.get("op") if isinstance(operation, Mapping) else None
    known = name if isinstance(name, str) and not _bad_escape(name) else "unknown"
    if known not in _OPERATIONS:
        raise JsonPatchError(f"Unexpected kind: {known}")
    _OPERATIONS[known](patching, operation)


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


def _path(patching: _Patching, operation: Operation, is_plain: bool = True, field: str = "path") -> str:
    """The path of an operation. The errors of three operations name the escape that JSON does not have."""
    text = operation.get(field)
    if not isinstance(text, str):
        raise JsonPatchError(f"{operation['op']} operation failed to decode {field}: {_MISSING}")
    if not patching.is_decoded and (letter := _bad_escape(text)):
        why = _MISSING if is_plain else f"invalid character '{letter}' in string escape code"
        raise JsonPatchError(f"{operation['op']} operation failed to decode {field}: {why}")
    return text


def _from(patching: _Patching, operation: Operation) -> str:
    if not operation.get("from"):
        missing = f"operation, missing from field: {_MISSING}"
        raise JsonPatchError(f"{operation['op']} operation failed to decode from: {missing}")
    return _path(patching, operation, False, "from")


def _find(root: Json, path: str) -> tuple[Any, str] | None:
    """The object or list around the place that a path names, and its last token; None without such a place."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    found = root
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


def _place(patching: _Patching, operation: Operation, path: str, lacking: str) -> tuple[Any, str]:
    """As `_find`; `lacking` has the library's words for a path without a place."""
    found = _find(patching.root, path)
    if found is None:
        raise JsonPatchError(f"{operation['op']} operation does not apply: {lacking}: {_MISSING}")
    return found


def _add(patching: _Patching, operation: Operation) -> None:
    path = _path(patching, operation)
    found = _place(patching, operation, path, f'doc is missing path: "{path}"')
    _within(f"error in add for path: '{path}'", lambda: _put(*found, copied(operation.get("value"))))


def _remove(patching: _Patching, operation: Operation) -> None:
    path = _path(patching, operation)
    found = _place(patching, operation, path, f'doc is missing path: "{path}"')
    _within(f"error in remove for path: '{path}'", lambda: _delete(*found))


def _replace(patching: _Patching, operation: Operation) -> None:
    path = _path(patching, operation, False)
    value = copied(operation.get("value"))
    if not path:
        if not isinstance(value, dict | list):
            raise JsonPatchError("replace operation value must be object or array: %!w(<nil>)")
        patching.root = value
        return
    holder, key = _place(patching, operation, path, f"doc is missing path: {path}")
    if isinstance(holder, dict):
        holder[key] = value
        return
    try:
        holder[_index(holder, key, len(holder))] = value
    except JsonPatchError:
        raise JsonPatchError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None


def _move(patching: _Patching, operation: Operation) -> None:
    source = _from(patching, operation)
    found = _place(patching, operation, source, f"doc is missing from path: {source}")
    value = _within(f"error in move for path: '{found[1]}'", lambda: _get(*found))
    _within(f"error in move for path: '{found[1]}'", lambda: _delete(*found))
    path = _path(patching, operation, False)
    target = _place(patching, operation, path, f"doc is missing destination path: {path}")
    _within(f"error in move for path: '{path}'", lambda: _put(*target, value))


def _copy(patching: _Patching, operation: Operation) -> None:
    source = _from(patching, operation)
    found = _place(patching, operation, source, f"doc is missing from path: {source}")
    value = _within(f"error in copy for from: '{source}'", lambda: _get(*found))
    path = _path(patching, operation)
    target = _place(patching, operation, path, f"doc is missing destination path: {path}")
    copy = patching.copy_of(value)
    _within("error while adding value during copy", lambda: _put(*target, copy))


def _test(patching: _Patching, operation: Operation) -> None:
    path = _path(patching, operation, False)
    if path:
        found = _place(patching, operation, path, f"is missing path: {path}")
        value = _within(f"error in test for path: '{path}'", lambda: _get(*found))
    else:
        value = patching.root
    if not patching.tests(operation, value):
        raise TestFailedError(f"testing value {path} failed")


def _within(where: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except JsonPatchError as problem:
        raise JsonPatchError(f"{where}: {problem}") from None


_OPERATIONS: Final[Mapping[str, Callable[[_Patching, Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
    "copy": _copy,
}
