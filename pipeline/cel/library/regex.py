"""Regular expressions of Kubernetes: apiserver pkg/cel/library/regex.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..functions import Library
from ..patterns import compiled, searcher
from ..types import INT, STRING, list_of
from ..values import CelError
from .costs import search
from .declare import function, member


def find(text: str, pattern: str) -> str:
    """The first match anywhere, the empty string if there is none. Raises CelError for a bad pattern."""
    try:
        match: Any = searcher(pattern)(text)
    except CelError as problem:
        raise _illegal(problem) from None
    except UnicodeEncodeError:  # Half of a surrogate pair is no character to RE2.
        return next(_matches(text, pattern), "")
    return match.group() if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The first `limit` matches that do not overlap, all of them if negative. Raises CelError for a bad pattern."""
    found = _matches(text, pattern)
    return [match for _, match in zip(range(limit), found, strict=False)] if limit >= 0 else list(found)


def _matches(text: str, pattern: str) -> Iterator[str]:
    """The matches as Go's regexp finds them: an empty match right behind another match does not count."""
    try:
        expression = compiled(pattern)
    except CelError as problem:
        raise _illegal(problem) from None
    octets = text.encode(errors="replace")
    position, end_of_last = 0, -1
    while position <= len(octets) and (match := expression.search(octets, position)) is not None:
        start, end = match.span()
        if end > position or start != end_of_last:
            yield octets[start:end].decode(errors="replace")
        position = end if end > position else position + _width(octets[position : position + 1])
        end_of_last = end


def _width(lead: bytes) -> int:
    """How many bytes the character has that begins with this one."""
    octet = lead[0] if lead else 0
    return 1 if octet < 0xC0 else 2 if octet < 0xE0 else 3 if octet < 0xF0 else 4


def _illegal(problem: CelError) -> CelError:
    return CelError(f"Illegal regex: {problem.message}")


LIBRARY = Library(
    "regex",
    (
        function("find", member("string_find_string", (STRING, STRING), STRING, find), cost=search),
        function(
            "findAll",
            member("string_find_all_string", (STRING, STRING), list_of(STRING), find_all),
            member("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), find_all),
            cost=search,
        ),
    ),
)
