"""Literals of CEL: the text between the quotes, and numbers within their range (cel-go parser/unescape.go)."""

from __future__ import annotations

from ..values import INT_MAX, INT_MIN, UINT_MAX, UInt

_SIMPLE = dict(zip("abfnrtv\"'\\`?", "\a\b\f\n\r\t\v\"'\\`?", strict=True))
_HEX_DIGITS = {"x": 2, "X": 2, "u": 4, "U": 8}


class LiteralError(ValueError):
    """A literal that the lexer accepts but that has no value. The text is cel-go's."""


def integer(text: str) -> int:
    """An int literal, decimal or 0x, with its sign."""
    value = int(text, 16) if "x" in text else _decimal(text, "invalid int literal")
    if not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def unsigned(text: str) -> UInt:
    """A uint literal with its `u`."""
    value = int(text[:-1], 16) if "x" in text else _decimal(text[:-1], "invalid uint literal")
    if value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return UInt(value)


def double(text: str) -> float:
    """A double literal. One that overflows has no value (Go's strconv.ParseFloat reports a range error)."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise LiteralError("invalid double literal")
    return value


def string(text: str) -> str:
    """A string literal in any of its quotes, raw or not."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    parts: list[str] = []
    for character, code in _pieces(body):
        if code is None:
            parts.append(character)
        elif code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise LiteralError("invalid unicode code point")
        else:
            parts.append(chr(code))
    return "".join(parts)


def byte_string(text: str) -> bytes:
    """A bytes literal: escapes by number are bytes, every other character is its UTF-8."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out = bytearray()
    for character, code in _pieces(body):
        if code is None:
            out += character.encode("utf-8", "surrogatepass")
        elif character in "uU":
            raise LiteralError("unable to unescape string")
        else:
            out.append(code)
    return bytes(out)


def _decimal(text: str, message: str) -> int:
    """An int from decimal digits. Python refuses to convert thousands of digits; no such literal is in range."""
    if len(text) > 4000:
        raise LiteralError(message)
    return int(text)


def _body(text: str) -> tuple[str, bool]:
    """The text between the quotes, with every line end as a newline, and whether the literal is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n"), raw


def _pieces(body: str) -> list[tuple[str, int | None]]:
    """The body in pieces: (characters, None) for plain text, (kind of escape, number) for an escape by number."""
    pieces: list[tuple[str, int | None]] = []
    at = 0
    while at < len(body):
        slash = body.find("\\", at)
        if slash < 0:
            pieces.append((body[at:], None))
            break
        if slash > at:
            pieces.append((body[at:slash], None))
        kind = body[slash + 1]
        if kind in _SIMPLE:
            pieces.append((_SIMPLE[kind], None))
            at = slash + 2
        elif kind in _HEX_DIGITS:
            at = slash + 2 + _HEX_DIGITS[kind]
            pieces.append((kind, int(body[slash + 2 : at], 16)))
        else:
            at = slash + 4
            pieces.append((kind, int(body[slash + 1 : at], 8)))
    return pieces
