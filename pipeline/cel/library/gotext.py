"""Text as Go's standard library renders it, because error messages contain it."""

from __future__ import annotations

import math
from decimal import Decimal

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}


def quote(text: str) -> str:
    """`text` as a Go string literal (strconv.Quote)."""
    return '"' + "".join([_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text]) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xD800 <= code < 0xE000:
        return "\ufffd"  # Half of a surrogate pair is not a character in Go.
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_float(number: float) -> str:
    """`number` as fmt prints it with %g: the shortest digits that read back, with an exponent below -4 and from 6 on."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    magnitude = len(text) + int(exponent) - 1
    prefix = "-" if sign else ""
    if number == 0:
        return f"{prefix}0"
    if magnitude < -4 or magnitude >= 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{prefix}{text[0]}{fraction}e{'-' if magnitude < 0 else '+'}{abs(magnitude):02d}"
    if magnitude < 0:
        return f"{prefix}0.{'0' * (-magnitude - 1)}{text}"
    whole = text[: magnitude + 1].ljust(magnitude + 1, "0")
    fraction = text[magnitude + 1 :]
    return f"{prefix}{whole}.{fraction}" if fraction else f"{prefix}{whole}"


def format_duration(nanoseconds: int) -> str:
    """A span in seconds, computed through a double as in cel-go (common/types/duration.go): `6347s`, `-0.5s`."""
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    text = f"{Decimal(repr(seconds + fraction / 1e9)).normalize():f}"
    return f"{'-' if nanoseconds < 0 else ''}{text}s"
