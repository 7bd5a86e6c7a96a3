"""Comprehensions over two variables: cel-go ext/comprehensions.go. They are macros of the language, so there is nothing to call."""

from __future__ import annotations

from ..functions import Library

LIBRARY = Library(
    "two-variable comprehensions",
    (),
    introduced=(1, 32),
    macros=frozenset(("transformList", "transformMap", "transformMapEntry")),
)
