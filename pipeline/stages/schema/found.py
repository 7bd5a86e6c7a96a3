"""What validation finds in one value: errors told apart by their text, and the number of checks that were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...cel.library.gotext import quote
from .field_errors import FieldError, child, invalid, type_invalid


@dataclass(frozen=True, slots=True)
class Finding:
    """One error. `text` tells findings apart: the same text is reported once. `made` makes the field error for a base path."""

    text: str
    made: Callable[[str], FieldError]


class Result:
    """Findings, and the number of checks that were made: among failed branches of a junctor the most checked one is reported."""

    __slots__ = ("checks", "findings")

    def __init__(self, findings: Iterable[Finding] = (), checks: int = 0) -> None:
        self.findings = {each.text: each for each in findings}
        self.checks = checks

    def merge(self, other: Result) -> None:
        for text, each in other.findings.items():
            self.findings.setdefault(text, each)
        self.checks += other.checks


def named(name: str, text: str, make: Callable[[str], FieldError]) -> Finding:
    """A finding about the field `name`."""
    below = name.removeprefix(".")
    return Finding(text, lambda base: make(child(base, below) if below else base))


def general(text: str) -> Finding:
    """A finding that names its field only in its text."""
    return Finding(text, lambda base: invalid(base, "", text))


def wrong(name: str, value: Any, text: str) -> Finding:
    return named(name, text, lambda path: invalid(path, "" if value is None else value, text))


def of_type(name: str, wanted: str, found: str) -> Finding:
    text = f"{name} in body must be of type {wanted}: {quote(found)}"
    return named(name, text, lambda path: type_invalid(path, found, text))
