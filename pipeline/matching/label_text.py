"""Label selectors as clients write them in URLs, such as `env in (dev,test),!legacy`.

Follows apimachinery pkg/labels/selector.go. The server's parser has its own habits: some commas stand for an empty value, and `in`
may be a key or a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .selectors import LabelSelector, Requirement, SelectorError

_WHITE = " \t\r\n"
_SPECIAL = "=!(),><"
_SYMBOLS = frozenset([")", ",", "!", "==", "=", "!=", "(", ">", "<"])
_OPERATORS = {"=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_END = ""
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = re.compile(f"(?:{_NAME})?")
_PART = re.compile(_NAME)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME_MAX, _PREFIX_MAX = 63, 253
_INT64 = re.compile(r"[+-]?[0-9]+")


class _Token(NamedTuple):
    kind: str  # the symbol itself, "word", "error", or "" at the end
    text: str


def parse_label_selector(text: str) -> LabelSelector:
    """The selector of a query parameter. Raises SelectorError where the server answers 400."""
    return LabelSelector(tuple(_Parser(text).requirements()))


def is_label_key(key: str) -> bool:
    """Whether a text may be the key of a label: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _PREFIX_MAX and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= _NAME_MAX and bool(_PART.fullmatch(name))


def is_label_value(value: str) -> bool:
    """Whether a text may be the value of a label. The empty text may."""
    return len(value) <= _NAME_MAX and bool(_VALUE.fullmatch(value))


def as_int64(text: str) -> int | None:
    """The number that `strconv.ParseInt` reads; None where it reads none."""
    number = int(text) if _INT64.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), _Token(_END, "")]
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        while True:
            token = self._next_value()
            if token.kind == _END:
                return
            if token.kind not in ("word", "!"):
                raise SelectorError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            yield self._requirement()
            after = self._take()
            if after.kind == _END:
                return
            if after.kind != ",":
                raise SelectorError(f"found '{after.text}', expected: ',' or 'end of string'")
            if self._next_value().kind not in ("word", "!"):
                raise SelectorError(f"found '{self._next_value().text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        negated = self._next_value().kind == "!"
        if negated:
            self._take()
        key = self._take()
        if key.kind != "word":
            raise SelectorError(f"found '{key.text}', expected: identifier")
        if not is_label_key(key.text):
            raise SelectorError(f"{key.text!r} is not a label key")
        if negated:
            return Requirement(key.text, "DoesNotExist")
        if self._next_value().kind in (_END, ","):
            return Requirement(key.text, "Exists")
        word = self._take()
        operator = _OPERATORS.get(word.text if word.kind != "error" else "")
        if operator is None:
            raise SelectorError(f"found '{word.text}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if word.text in ("in", "notin") else frozenset([self._exact()])
        return _checked(Requirement(key.text, operator, values))

    def _values(self) -> frozenset[str]:
        opening = self._take()
        if opening.kind != "(":
            raise SelectorError(f"found '{opening.text}' expected: '('")
        token = self._next_value()
        if token.kind == ")":
            self._take()
            return frozenset([""])
        if token.kind not in ("word", ","):
            raise SelectorError(f"found '{token.text}', expected: ',', ')' or identifier")
        values = self._list()
        closing = self._take()
        if closing.kind != ")":
            raise SelectorError(f"found '{closing.text}', expected: ')'")
        return frozenset(values)

    def _list(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self._take()
            after = self._next_value()
            if token.kind == "word":
                values.add(token.text)
                if after.kind == ")":
                    return values
                if after.kind != ",":
                    raise SelectorError(f"found '{after.text}', expected: ',' or ')'")
            elif token.kind == ",":
                # A comma at the start, before the end or after another one stands for the empty value.
                if not values or after.kind in (")", ","):
                    values.add("")
                if after.kind == ")":
                    return values
                if after.kind == ",":
                    self._take()
            else:
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")

    def _exact(self) -> str:
        if self._next_value().kind in (_END, ","):
            return ""
        token = self._take()
        if token.kind != "word":
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _next_value(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != _END:
            self._at += 1
        return token


def _checked(found: Requirement) -> Requirement:
    if found.operator in ("Gt", "Lt") and any(as_int64(value) is None for value in found.values):
        raise SelectorError(f"{found.key}: for 'Gt', 'Lt' operators, the value must be an integer")
    bad = sorted(value for value in found.values if not is_label_value(value))
    if bad:
        raise SelectorError(f"{found.key}: {bad[0]!r} is not a label value")
    return found


def _tokens(text: str) -> Iterator[_Token]:
    # The server's lexer takes a NUL for the end.
    text, at = text.partition("\0")[0], 0
    while at < len(text):
        if text[at] in _WHITE:
            at += 1
            continue
        start = at
        if text[at] in _SPECIAL:
            length = _symbol_length(text, at)
            at += abs(length)
            yield _Token(text[start:at] if length > 0 else "error", text[start:at])
            continue
        while at < len(text) and text[at] not in _SPECIAL and text[at] not in _WHITE:
            at += 1
        yield _Token("word", text[start:at])


def _symbol_length(text: str, at: int) -> int:
    """The length of the symbol at a place; negative for special characters that are no symbol."""
    end, found = at, 0
    while end < len(text) and text[end] in _SPECIAL:
        end += 1
        if text[at:end] in _SYMBOLS:
            found = end - at
        elif found:
            break
    return found or -(end - at)
