"""Field selectors as clients write them in URLs, such as `status.phase=Running,spec.nodeName!=n1`.

Follows apimachinery pkg/fields/selector.go: `=`, `==` and `!=`, with `\\\\`, `\\,` and `\\=` for these characters in a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .selectors import SelectorError

_TERM = re.compile(r"(?s)(.*?)(!=|==|=)(.*)")
_ESCAPED = re.compile(r"(?s)\\(.)")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison of a field's value. A field that an object lacks has the value ""."""

    field: str
    value: str
    negated: bool = False

    def holds(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these values is selected."""
        return (fields.get(self.field, "") == self.value) is not self.negated

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """The terms of a query parameter, in the server's order. Raises SelectorError where the server answers 400."""
    terms = []
    for part in sorted(filter(None, split_terms(text))):
        match = _TERM.fullmatch(part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = unescaped(match[3])
        if value is None:
            raise SelectorError(f"invalid field selector: {match[3]!r} has an unescaped or wrongly escaped character")
        terms.append(FieldTerm(match[1], value, match[2] == "!="))
    return tuple(terms)


def split_terms(text: str) -> Iterator[str]:
    """Split at commas that are not escaped."""
    start, is_escaped = 0, False
    for index, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == ",":
            yield text[start:index]
            start = index + 1
    yield text[start:]


def unescaped(value: str) -> str | None:
    """The value without its escapes; None where the server rejects it."""
    rest = _ESCAPED.sub("", value)
    if any(character in rest for character in "\\,=") or any(match[1] not in "\\,=" for match in _ESCAPED.finditer(value)):
        return None
    return _ESCAPED.sub(r"\1", value)
