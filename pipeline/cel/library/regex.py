"""Regular expressions of Kubernetes: apiserver pkg/cel/library/regex.go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..costs.sizes import check_list
from ..evaluation.patterns import span
from ..functions import Library
from ..types import INT, STRING, list_of
from ..values import CelError
from .costs import search
from .declare import function, member


def find(text: str, pattern: str) -> str:
    """The first match anywhere, or the empty string. Raises CelError for a bad pattern."""
    return next(_matches(text, pattern), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The first `limit` matches that do not overlap, all matches if it is negative. Raises CelError for a bad pattern."""
    found = _matches(text, pattern)
    matches: list[str] = []
    for match in found if limit < 0 else islice(found, limit):
        check_list(len(matches) + 1)
        matches.append(match)
    return matches


def _matches(text: str, pattern: str) -> Iterator[str]:
    """The matches as Go's regexp finds them: an empty match directly after another match does not count."""
    octets = text.encode(errors="replace")
    position, end_of_last = 0, -1
    try:
        while position <= len(octets) and (found := span(pattern, octets, position)) is not None:
            start, end = found
            if end > position or start != end_of_last:
                yield octets[start:end].decode(errors="replace")
            position = end if end > position else position + _width(octets[position : position + 1])
            end_of_last = end
    except CelError as problem:
        raise _illegal(problem) from None


def _width(lead: bytes) -> int:
    """The number of bytes of the character that begins with this one."""
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
