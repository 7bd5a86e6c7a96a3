"""Comprehensions over two variables: cel-go ext/comprehensions.go. They are macros, so this library has no functions."""

from __future__ import annotations

from ..functions import Library

LIBRARY = Library(
    "two-variable comprehensions",
    (),
    introduced=(1, 32),
    macros=frozenset(("transformList", "transformMap", "transformMapEntry")),
)
