"""Keys of JSON patches: apiserver pkg/cel/library/jsonpatch.go. Only the expressions of mutations have this function."""

from __future__ import annotations

from ..functions import Library
from ..types import STRING
from .costs import scan
from .declare import function, plain


def escape_key(text: str) -> str:
    """A key as one token of a JSON pointer."""
    return text.replace("~", "~0").replace("/", "~1")


LIBRARY = Library(
    "jsonpatch",
    (function("jsonpatch.escapeKey", plain("string_jsonpatch_escapeKey_string", (STRING,), STRING, escape_key), cost=scan()),),
)
