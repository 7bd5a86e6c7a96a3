"""Characters that act where text is shown: clients choose names and messages, which must not write elsewhere on a terminal."""

from __future__ import annotations

import re

# Characters that move a terminal's cursor, end a line within a text, or turn the direction of writing (Unicode TR 36, 3.3). Also
# a lone half of a surrogate pair, which UTF-8 cannot hold. Line feeds and tabs are text.
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def acting_characters(text: str) -> frozenset[str]:
    """Those of its characters that act instead of showing."""
    return frozenset(ACTING.findall(text))


def one_line(text: str) -> str:
    """The text as `visible` writes it, with line breaks and tabs as escapes, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> str:
    """The text with everything that acts instead of showing written as an escape, as in `\\x1b`."""
    return ACTING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)
