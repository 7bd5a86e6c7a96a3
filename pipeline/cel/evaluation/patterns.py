"""Regular expressions: RE2, which takes time linear in the text, with the further limits of Go's regexp.

Ordinary texts repeat often, so the last answers are cached. The memory that one pattern may use in a search is bounded (`max_mem`),
and so is the number of cached patterns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from re2 import _re2

from ..values import CelError

_MIB = 1024 * 1024
# Few patterns need more than the first size; the second is RE2's own default.
_PATTERN_BYTES, _LARGE_PATTERN_BYTES = _MIB, 8 * _MIB
_KEPT, _LARGE_KEPT = 512, 32
_ANSWERS_KEPT, _KEPT_LENGTH_MAX = 16_384, 512
_NESTING_MAX = 1000  # Go regexp/syntax/parse.go maxHeight: groups, and one literal within
_TOO_LARGE = "pattern too large - compile failed"
_UNANCHORED = _re2.RE2.Anchor.UNANCHORED
_NOWHERE = (-1, -1)
# RE2's texts, and the texts of Go's regexp for the same errors (Go regexp/syntax/parse.go).
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
    _TOO_LARGE: "expression too large",
}


def _options(bytes_max: int) -> Any:
    options = _re2.RE2.Options()
    options.log_errors = False
    options.never_capture = True  # No function of CEL uses groups.
    options.max_mem = bytes_max
    return options


_SMALL, _LARGE = _options(_PATTERN_BYTES), _options(_LARGE_PATTERN_BYTES)


@lru_cache(maxsize=_KEPT)
def compiled(pattern: str) -> Any:
    """The pattern as an RE2 object. Raises CelError with the text of Go's regexp."""
    try:
        octets = pattern.encode()
    except UnicodeEncodeError:
        raise CelError(f"error parsing regexp: invalid UTF-8: `{pattern}`") from None
    found = _re2.RE2(octets, _SMALL)
    if not found.ok() and found.error().decode("utf-8", "replace").startswith(_TOO_LARGE):
        found = None
    elif not found.ok():
        raise _problem(found.error())
    _refuse_beyond_go(pattern)
    return _Large(octets) if found is None else found


class _Large:
    """A pattern that needs more memory; fewer of these are cached. Raises CelError where RE2 rejects the pattern."""

    __slots__ = ("_octets",)

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        _compiled_large(octets)

    def Match(self, *arguments: Any) -> Any:  # noqa: N802 - as RE2 has it
        return _compiled_large(self._octets).Match(*arguments)


@lru_cache(maxsize=_LARGE_KEPT)
def _compiled_large(octets: bytes) -> Any:
    found = _re2.RE2(octets, _LARGE)
    if not found.ok():
        raise _problem(found.error())
    return found


def _problem(raw: bytes) -> CelError:
    """The error for RE2's text, in Go's words."""
    code, colon, where = raw.decode("utf-8", "replace").partition(": ")
    return CelError(f"error parsing regexp: {_GO_TEXT.get(code, code)}{f': `{where}`' if colon else ''}")


def _refuse_beyond_go(pattern: str) -> None:
    """Raises CelError for patterns that RE2 accepts and Go rejects: `\\C`, which is one byte, and groups nested a thousand deep."""
    if "\\C" not in pattern and pattern.count("(") < _NESTING_MAX:
        return
    depth = at = 0
    in_class = False
    while at < len(pattern):
        pair = pattern[at : at + 2]
        if pair == "\\Q" and not in_class:
            end = pattern.find("\\E", at)
            at = len(pattern) if end < 0 else end
        elif pair == "\\C":
            raise CelError("error parsing regexp: invalid escape sequence: `\\C`")
        elif pair[0] == "[" and not in_class:
            in_class = True
            # A bracket that comes first in a class does not close the class.
            at += 2 if pair == "[^" else 1
        elif pair[0] == "]":
            in_class = False
        elif pair[0] in "()" and not in_class:
            depth += (pair != "(?" or pattern.startswith(("(?P<", "(?<"), at)) if pair[0] == "(" else -1
            if depth >= _NESTING_MAX:
                raise CelError(f"error parsing regexp: expression nests too deeply: `{pattern}`")
        at += 2 if pair[0] == "\\" else 1


def octets_of(text: str) -> bytes:
    """A text in bytes for RE2, which rejects a lone surrogate; Go reads it from JSON as U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def span(pattern: str, octets: bytes, start: int = 0) -> tuple[int, int] | None:
    """The first place of the pattern at or after `start`, in bytes. Raises CelError for a bad pattern."""
    found: tuple[int, int] = compiled(pattern).Match(_UNANCHORED, octets, start, len(octets))[0]
    return None if found == _NOWHERE else found


def matches(text: str, pattern: str) -> bool:
    """`text.matches(pattern)`: whether the pattern is found anywhere. Raises CelError for a bad pattern."""
    return _kept(text, pattern) if len(text) + len(pattern) <= _KEPT_LENGTH_MAX else _is_found(text, pattern)


def _is_found(text: str, pattern: str) -> bool:
    return span(pattern, octets_of(text)) is not None


_kept = lru_cache(maxsize=_ANSWERS_KEPT)(_is_found)
