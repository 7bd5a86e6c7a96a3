"""Strings 0 and 2: cel-go ext/strings.go, without `format`, which is in formatting.py. Indexes are code points."""

from __future__ import annotations

from dataclasses import dataclass

from ..costs.sizes import check_list, check_text, printed
from ..functions import Function, Library, Version
from ..types import INT, STRING, list_of
from ..values import CelError, Value
from .costs import scan, scan_result, traverse
from .declare import function, member, plain
from .formatting import FORMAT, FORMAT_SPACED

# What Go's unicode.IsSpace accepts; Python's str.strip() also strips the separators U+001C to U+001F.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)


def out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """The character at `index`; the empty string directly after the end."""
    if not 0 <= index <= len(text):
        raise out_of_range(index)
    return text[index : index + 1]


@dataclass(frozen=True, slots=True)
class Search:
    """indexOf and lastIndexOf, whose edge cases changed between cel-go versions.

    `beyond_is_error`: an offset after the end is an error, not a search that finds nothing (up to 1.31).
    `empty_is_error`: lastIndexOf of any text in the empty string is an error (up to 1.33).
    `empty_keeps_offset`: the empty string is found at any offset, even one after the end (up to 1.36).
    """

    beyond_is_error: bool = False
    empty_is_error: bool = False
    empty_keeps_offset: bool = False

    def index_of(self, text: str, part: str, offset: int = 0) -> int:
        """The first index of `part` at or after `offset`, or -1."""
        if not part:
            return self._empty(text, offset)
        if not self._is_within(text, offset):
            return -1
        return text.find(part, offset)

    def last_index_of(self, text: str, part: str) -> int:
        """The last index of `part`, or -1."""
        if part and not text and self.empty_is_error:
            raise out_of_range(-1)
        return text.rfind(part)

    def last_index_of_offset(self, text: str, part: str, offset: int) -> int:
        """The last index of `part` at or before `offset`, or -1. An offset after the end finds nothing."""
        if not part:
            return self._empty(text, offset)
        if not self._is_within(text, offset):
            return -1
        return text.rfind(part, 0, offset + len(part))

    def _empty(self, text: str, offset: int) -> int:
        if self.empty_keeps_offset:
            return offset
        if offset < 0:
            raise out_of_range(offset)
        return min(offset, len(text))

    def _is_within(self, text: str, offset: int) -> bool:
        if offset < 0 or (self.beyond_is_error and offset >= len(text)):
            raise out_of_range(offset)
        return offset < len(text)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with the first `count` occurrences of `old` replaced; all occurrences if it is negative."""
    if len(new) > len(old):
        # An empty text is found before each character and after the last.
        found = min(text.count(old), count) if count >= 0 else text.count(old)
        check_text(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    """At most `count` parts, all parts if it is negative; an empty separator splits into characters."""
    if count == 0:
        return []
    if separator:
        check_list(1 + (text.count(separator) if count < 0 else min(text.count(separator), count - 1)))
        return text.split(separator, max(count, 0) - 1)
    if 0 < count < len(text):
        check_list(count)
        return [*text[: count - 1], text[count - 1 :]]
    check_list(len(text))
    return list(text)


def substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise out_of_range(start)
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise out_of_range(index)
    return text[start:end]


def join(parts: list[Value], separator: str = "") -> str:
    try:
        check_text(len(separator) * (len(parts) - 1) + sum(map(len, parts)))
        return separator.join(parts)
    except TypeError:
        wrong = next(part for part in parts if part.__class__ is not str)
        raise CelError(f"join: invalid input: {str(wrong).lower() if isinstance(wrong, bool) else printed(wrong)}") from None


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def quote(text: str) -> str:
    """`text` as a CEL literal, in double quotes."""
    check_text(len(text))  # it becomes no longer than twice that
    return f'"{text.translate(_QUOTED)}"'


_STRINGS = list_of(STRING)

_FUNCTIONS = (
    function("charAt", member("string_char_at_int", (STRING, INT), STRING, char_at)),
    function(
        "join",
        member("list_join", (_STRINGS,), STRING, join),
        member("list_join_string", (_STRINGS, STRING), STRING, join),
        cost=scan_result(2),
    ),
    function("lowerAscii", member("string_lower_ascii", (STRING,), STRING, lower_ascii), cost=scan()),
    function("upperAscii", member("string_upper_ascii", (STRING,), STRING, upper_ascii), cost=scan()),
    function(
        "replace",
        member("string_replace_string_string", (STRING, STRING, STRING), STRING, replace),
        member("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace),
        cost=scan(2),
    ),
    function(
        "split",
        member("string_split_string", (STRING, STRING), _STRINGS, split),
        member("string_split_string_int", (STRING, STRING, INT), _STRINGS, split),
        cost=scan(2),
    ),
    function(
        "substring",
        member("string_substring_int", (STRING, INT), STRING, substring),
        member("string_substring_int_int", (STRING, INT, INT), STRING, substring_range),
        cost=scan(),
    ),
    function("trim", member("string_trim", (STRING,), STRING, lambda text: text.strip(_SPACE)), cost=scan()),
)
_QUOTE = function("strings.quote", plain("strings_quote", (STRING,), STRING, quote), cost=scan())


def _searches(search: Search) -> tuple[Function, ...]:
    return (
        function(
            "indexOf",
            member("string_index_of_string", (STRING, STRING), INT, search.index_of),
            member("string_index_of_string_int", (STRING, STRING, INT), INT, search.index_of),
            cost=traverse,
        ),
        function(
            "lastIndexOf",
            member("string_last_index_of_string", (STRING, STRING), INT, search.last_index_of),
            member("string_last_index_of_string_int", (STRING, STRING, INT), INT, search.last_index_of_offset),
            cost=traverse,
        ),
    )


_SEARCH_1_31 = Search(beyond_is_error=True, empty_is_error=True, empty_keeps_offset=True)
_SEARCH_1_33 = Search(empty_is_error=True, empty_keeps_offset=True)
_SEARCH_1_36 = Search(empty_keeps_offset=True)
# The first version, the first version without it, its search rules, and the functions that version 2 of the library added.
_AGES: tuple[tuple[Version, Version | None, Search, tuple[Function, ...]], ...] = (
    ((1, 0), (1, 29), _SEARCH_1_31, ()),
    ((1, 29), (1, 32), _SEARCH_1_31, (_QUOTE, FORMAT_SPACED)),
    ((1, 32), (1, 33), _SEARCH_1_33, (_QUOTE, FORMAT_SPACED)),
    ((1, 33), (1, 34), _SEARCH_1_33, (_QUOTE, FORMAT)),
    ((1, 34), (1, 37), _SEARCH_1_36, (_QUOTE, FORMAT)),
    ((1, 37), None, Search(), (_QUOTE, FORMAT)),
)

# The environment that brought version 2 of the library; everything else came with a release of cel-go.
_VERSION_2: Version = (1, 29)
AGES = tuple(
    Library(
        f"strings of {first[0]}.{first[1]}",
        (*_FUNCTIONS, *_searches(search), *added),
        introduced=_VERSION_2 if added else (1, 0),
        removed=None if added else _VERSION_2,
        since=first,
        until=end,
    )
    for first, end, search, added in _AGES
)
