"""Semantic versions: apiserver pkg/cel/library/semverlib.go over github.com/blang/semver v4."""

from __future__ import annotations

from functools import lru_cache, total_ordering
from typing import ClassVar

from ..functions import Library
from ..types import BOOL, INT, STRING, Type, opaque
from ..values import INT_MAX, UINT_MAX, CelError, Opaque
from .costs import scan
from .declare import function, member, plain
from .gotext import quote

_DIGITS = frozenset("0123456789")
_IDENTIFIER = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


@total_ordering
class Semver(Opaque):
    """A version without its build metadata, which the order ignores."""

    __slots__ = ("key", "major", "minor", "patch", "prerelease")
    cel_type: ClassVar[Type] = opaque("kubernetes.Semver")
    go_unhashable: ClassVar[str] = "cel.Semver"

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[int | str, ...] = ()) -> None:
        self.major, self.minor, self.patch, self.prerelease = major, minor, patch, prerelease
        # A release comes after its prereleases; among these, numbers come before names, and fewer identifiers before more.
        identifiers = tuple((isinstance(part, str), part) for part in prerelease)
        self.key = (major, minor, patch, not prerelease, identifiers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: Semver) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"semver({self.key!r})"


@lru_cache(maxsize=1024)
def parse(text: str) -> Semver:
    """The version that `text` strictly spells. Raises CelError as blang/semver does. Versions never change, so they are cached."""
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch_text, minus, prerelease_text = rest.partition("-")
    patch = _number("patch", patch_text)
    prerelease = tuple(map(_identifier, prerelease_text.split("."))) if minus else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise CelError("Build meta data is empty")
        if not _IDENTIFIER.issuperset(part):
            raise CelError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(major, minor, patch, prerelease)


def _number(name: str, text: str) -> int:
    if not _DIGITS.issuperset(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    """strconv.ParseUint of a text of digits."""
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > UINT_MAX:
        raise CelError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> int | str:
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _uint(text)
    if not _IDENTIFIER.issuperset(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def normalize(text: str) -> str:
    """`text` without a leading `v` and leading zeros, and with a minor and patch number."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in _DIGITS else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def semver(text: str, lenient: bool = False) -> Semver:
    return parse(normalize(text)) if lenient else parse(text)


def is_semver(text: str, lenient: bool = False) -> bool:
    try:
        semver(text, lenient)
    except CelError:
        return False
    return True


def compare(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _int(number: int) -> int:
    """Upstream converts the unsigned numbers to signed ones without a check."""
    return number if number <= INT_MAX else number - 2**64


_SCAN = scan()

LIBRARY = Library(
    "semver",
    (
        function(
            "semver",
            plain("string_to_semver", (STRING,), Semver, semver),
            plain("string_bool_to_semver", (STRING, BOOL), Semver, semver),
            cost=_SCAN,
        ),
        function(
            "isSemver",
            plain("is_semver_string", (STRING,), BOOL, is_semver),
            plain("is_semver_string_bool", (STRING, BOOL), BOOL, is_semver),
            cost=_SCAN,
        ),
        function(
            "isGreaterThan", member("semver_is_greater_than", (Semver, Semver), BOOL, lambda left, right: left.key > right.key)
        ),
        function("isLessThan", member("semver_is_less_than", (Semver, Semver), BOOL, lambda left, right: left.key < right.key)),
        function("compareTo", member("semver_compare_to", (Semver, Semver), INT, compare)),
        function("major", member("semver_major", (Semver,), INT, lambda version: _int(version.major))),
        function("minor", member("semver_minor", (Semver,), INT, lambda version: _int(version.minor))),
        function("patch", member("semver_patch", (Semver,), INT, lambda version: _int(version.patch))),
    ),
    introduced=(1, 33),
)
