"""Paths within a schema, as `fieldPath` of rules and `jsonPath` of selectable fields write them.

Follows ValidFieldPath of apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .field_errors import child, key
from .props import Props

_TOKEN: Final = re.compile(r"'(?:[^']|(?<=\\)')*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES: Final[dict[str, str]] = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


class FieldPathError(Exception):
    """A path that does not fit the schema; `str()` is the API server's text."""


def field_path(text: str, schema: Props, allows_brackets: bool = True) -> tuple[str, Props | None]:
    """The path as field errors print it, and the schema that it leads to. Raises FieldPathError."""
    tokens: Iterator[str] = iter(_TOKEN.findall(text))
    path, found = "", schema

    def following() -> str:
        token = next(tokens, None)
        if token is None:
            raise FieldPathError("unexpected end of JSON path")
        return token

    for token in tokens:
        if token == "[":
            if not allows_brackets:
                raise FieldPathError("array notation is not allowed")
            quoted = following()
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {quoted}")
            path, found = _step(path, found, _unescaped(quoted[1:-1]))
            if (close := following()) != "]":
                raise FieldPathError(f"expected ] but got {close}")
        elif token == ".":
            path, found = _step(path, found, following())
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
    return path, found


def _step(path: str, schema: Props, name: str) -> tuple[str, Props]:
    if schema.properties:
        below = schema.properties.get(name)
        path = child(path, name)
    else:
        below = schema.values
        path = key(path, name)
    if below is None:
        raise FieldPathError("does not refer to a valid field")
    return path, below


def _unescaped(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        meant = _ESCAPES.get(str(found[1]))
        if meant is None:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return meant

    return re.sub(r"\\(.)", letter, text, flags=re.DOTALL)
