"""Regular expressions: RE2's syntax and meaning, at the speed of Python's `re` where the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

from .values import CelError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# ASCII only, no escapes of letters or digits, no groups with flags or assertions, no classes within classes, no repetition that is
# nested or possessive: what remains means the same to both engines, once `$` is made to match at the very end only. A repeated
# group may make `re` backtrack without end, so it is left to RE2, as are long texts.
_PLAIN = re.compile(r"(?:[A-Za-z0-9 _/:;,@%&=<>!~'\"\-^$|()\[\]*+?.]|\{[0-9]+(?:,[0-9]*)?\}|\\[^A-Za-z0-9])*", re.ASCII)
_DIFFERENT = re.compile(r"\(\?|\[\[|\[\^?\]|[*+?}][*+{]|\)[*+{]|--|&&|\|\||~~|\\[^\x21-\x7e]")
_PLAIN_TEXT_MAX = 512
# RE2's texts, and how Go's regexp says the same (Go regexp/syntax/parse.go).
_GO_TEXT = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "invalid character class range": "invalid character class range",
    "pattern too large - compile failed": "expression too large",
}


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The pattern as an RE2 object of Python. Raises CelError with the text of Go's regexp."""
    try:
        return re2.compile(pattern, options=_OPTIONS)
    except UnicodeEncodeError:
        raise CelError(f"error parsing regexp: invalid UTF-8: `{pattern}`") from None
    except re2.error as problem:
        raw = problem.args[0] if problem.args else ""
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        code, colon, where = text.partition(": ")
        shown = f": `{where}`" if colon else ""
        raise CelError(f"error parsing regexp: {_GO_TEXT.get(code, code)}{shown}") from None


@lru_cache(maxsize=4096)
def searcher(pattern: str) -> Callable[[str], object | None]:
    """A function that finds the pattern anywhere in a text: truthy where it does. Raises CelError for a pattern RE2 refuses."""
    exact = compiled(pattern).search
    plain = _as_python(pattern)
    if plain is None:
        return exact  # type: ignore[no-any-return]
    search = plain.search

    def either(text: str) -> object | None:
        return search(text) if len(text) <= _PLAIN_TEXT_MAX else exact(text)

    return either


def _as_python(pattern: str) -> re.Pattern[str] | None:
    """The same pattern for `re`, or None where it might mean something else or take long."""
    if _PLAIN.fullmatch(pattern) is None or _DIFFERENT.search(pattern):
        return None
    pieces = re.split(r"(\\.|\[\^?(?:\\.|[^\]\\])*\])", pattern)
    try:
        # Even pieces lie outside of classes and escapes.
        return re.compile("".join(piece if index % 2 else piece.replace("$", r"\Z") for index, piece in enumerate(pieces)))
    except (re.error, RecursionError, OverflowError):
        return None


def matches(text: str, pattern: str) -> bool:
    """`text.matches(pattern)`: whether the pattern is found anywhere. Raises CelError for a bad pattern."""
    try:
        return searcher(pattern)(text) is not None
    except UnicodeEncodeError:
        # A lone surrogate is no character to RE2; Go reads it from JSON as U+FFFD.
        return searcher(pattern)(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) is not None
