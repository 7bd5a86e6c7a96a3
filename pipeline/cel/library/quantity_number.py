"""The number in a quantity: apimachinery pkg/api/resource/{quantity,amount,math}.go.

It is kept as upstream keeps it, because the form shows. It is either an amount, which is a 64-bit integer times a power of ten, or
a decimal of any size. Only an amount can be an integer for `asInteger` and `isInteger`: `quantity('1Pi').isInteger()` is false,
because upstream's parser takes the slow path for 2^50.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

from ..values import INT_MAX, INT_MIN, CelError

DECIMAL_SI, DECIMAL_EXPONENT, BINARY_SI = "DecimalSI", "DecimalExponent", "BinarySI"
NANO = -9
# The number of digits that surely fits into 64 bits, and the number that leaves room for a binary suffix.
AMOUNT_DIGITS_MAX, BINARY_DIGITS_MAX = 18, 15
# Upstream would need as many digits as the exponents differ by, which takes gigabytes; upstream would fail here too.
EXPONENT_DIFFERENCE_MAX = 100_000

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}}

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"
_DIGITS = "0123456789"


class Number:
    """`digits` times ten to the `exponent`."""

    __slots__ = ("digits", "exponent", "is_amount")

    def __init__(self, digits: int, exponent: int, is_amount: bool) -> None:
        self.digits = digits
        self.exponent = exponent
        self.is_amount = is_amount

    @property
    def sign(self) -> int:
        return (self.digits > 0) - (self.digits < 0)

    @property
    def key(self) -> tuple[int, int]:
        """Equal numbers have equal keys."""
        digits, exponent = _without_trailing_zeros(self.digits, self.exponent, 10)
        return digits, exponent if digits else 0

    def as_integer(self) -> int | None:
        """The value of an amount that is a whole int64 and was spelled without a fraction, else None."""
        if not self.is_amount or self.exponent < 0:
            return None
        if not self.digits:
            return 0
        if self.exponent > AMOUNT_DIGITS_MAX:
            return None
        value = self.digits * int(10**self.exponent)
        return value if INT_MIN <= value <= INT_MAX else None

    def as_float(self) -> float:
        """Digits times a power of ten, rounded twice as in upstream (AsApproximateFloat64)."""
        try:
            base = float(self.digits)
        except OverflowError:
            base = math.inf if self.digits > 0 else -math.inf
        return base * _pow10(self.exponent) if self.exponent else base

    def text(self, notation: str) -> str:
        """The canonical form, such as `1500m` or `2Gi`."""
        if not self.digits:
            return "0"
        if notation == BINARY_SI and (whole := self._whole()) is not None and abs(whole) >= 1024:
            amount, times = _without_trailing_zeros(whole, 0, 1024)
            return f"{_text(amount)}{_BINARY_NAMES.get(times * 10, '')}"
        amount, exponent = _without_trailing_zeros(self.digits, self.exponent, 10)
        shift = exponent % 3
        amount, exponent = amount * 10**shift, exponent - shift
        if notation == DECIMAL_EXPONENT:
            return f"{_text(amount)}e{exponent}" if exponent else _text(amount)
        return f"{_text(amount)}{_DECIMAL_NAMES.get(exponent, '')}"

    def _whole(self) -> int | None:
        """The value if it is a whole number, else None."""
        power = int(10 ** min(abs(self.exponent), EXPONENT_DIFFERENCE_MAX))
        if self.exponent >= 0:
            return self.digits * power
        return None if self.digits % power else self.digits // power


def _text(number: int) -> str:
    """str() without its limit: Python refuses numbers of more than 4,300 digits."""
    return f"{Decimal(number):f}"


def _without_trailing_zeros(number: int, exponent: int, base: int) -> tuple[int, int]:
    while number and number % base == 0:
        number, exponent = number // base, exponent + 1
    return number, exponent


def _pow10(exponent: int) -> float:
    """Go's math.Pow10, which multiplies two powers of its tables instead of rounding once."""
    if exponent > 308:
        return math.inf
    if exponent < -323:
        return 0.0
    high, low = divmod(abs(exponent), 32)
    return float(f"1e{high * 32}") * float(f"1e{low}") if exponent >= 0 else float(f"1e-{high * 32}") / float(f"1e{low}")


def parse(text: str) -> tuple[Number, str]:
    """A new number and the notation of `text`. Raises CelError in the words of apimachinery."""
    digits, exponent, is_amount, notation = _parse(text)
    return Number(digits, exponent, is_amount), notation


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[int, int, bool, str]:
    """Cached, because policies often compare with the same few quantities."""
    if not text:
        raise CelError(_FORMAT_WRONG)
    negative, number, numerator, denominator, suffix = _split(text)
    base, exponent, notation = _interpret(suffix)
    amount = _parse_amount(numerator, denominator, base, exponent)
    if amount is not None:
        digits, scale = amount
        return -digits if negative else digits, scale, True, notation
    return _parse_decimal(number, base, exponent, notation)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Sign, text of the number, digits before and after the point, suffix. As upstream, a text without digits is a zero."""
    negative = text[0] == "-"
    position = _skip(text, 1 if text[0] in "+-" else 0, "0")
    if position == len(text):
        return negative, "0", "0", "", ""
    start = position
    position = _skip(text, position, _DIGITS)
    numerator, denominator = text[start:position] or "0", ""
    if position < len(text) and text[position] == ".":
        start = position + 1
        position = _skip(text, start, _DIGITS)
        denominator = text[start:position]
    end = _skip(text, position, "eEinumkKMGTP")
    if end < len(text) and text[end] in "+-":
        end += 1
    if _skip(text, end, _DIGITS) < len(text):
        raise CelError(_FORMAT_WRONG)
    return negative, text[:position], numerator, denominator, text[position:]


def _skip(text: str, position: int, chars: str) -> int:
    while position < len(text) and text[position] in chars:
        position += 1
    return position


def _interpret(suffix: str) -> tuple[int, int, str]:
    """Base, exponent and notation of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], BINARY_SI
    digits = suffix[2:] if suffix[1:2] in ("+", "-") else suffix[1:]
    if suffix[0] not in "eE" or not digits or digits.strip(_DIGITS) or len(digits.lstrip("0")) > 19:
        raise CelError(_SUFFIX)
    exponent = int(suffix[1:2].strip(_DIGITS) + (digits.lstrip("0") or "0"))
    if not INT_MIN <= exponent <= INT_MAX:
        raise CelError(_SUFFIX)
    # Upstream cuts the exponent to 32 bits without a check.
    return 10, (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT


def _parse_amount(numerator: str, denominator: str, base: int, exponent: int) -> tuple[int, int] | None:
    """Digits and exponent if upstream's fast parser would accept the text, else None."""
    factor = 1
    if base == 10:
        scale = exponent
        room = AMOUNT_DIGITS_MAX - len(numerator) - len(denominator)
    else:
        if denominator:
            return None
        scale, factor = 0, 1 << exponent
        room = BINARY_DIGITS_MAX - len(numerator) - int(exponent * 3 / 10) - 1
    scale -= len(denominator)
    if room < 0 or scale < NANO:
        return None
    digits = int(numerator + denominator) * factor
    return (digits, scale) if digits <= INT_MAX else None


def _parse_decimal(number: str, base: int, exponent: int, notation: str) -> tuple[int, int, bool, str]:
    """The slow parser: any size; digits below nano are rounded away from zero; binary notation is capped at int64."""
    whole, _, fraction = number.partition(".")
    if not (whole + fraction).strip("+-"):
        raise CelError(_NUMERIC)
    # Through Decimal, because int() refuses texts of more than 4,300 digits.
    digits, scale = int(Decimal(whole + fraction)), -len(fraction)
    if base == 10:
        scale += exponent
    else:
        digits <<= exponent
    negative, digits = digits < 0, abs(digits)
    if digits and scale < NANO:
        digits = -(-digits // 10 ** min(NANO - scale, digits.bit_length()))
        scale = NANO
    elif digits and scale - NANO <= EXPONENT_DIFFERENCE_MAX:
        digits *= 10 ** (scale - NANO)
        scale = NANO
    if notation == BINARY_SI:
        if _compare(digits, scale, INT_MAX, 0) > 0:
            digits, scale = INT_MAX, 0
        elif digits and _compare(digits, scale, 1, 0) < 0:
            notation = DECIMAL_SI
    return -digits if negative else digits, scale, False, notation


def compare(left: Number, right: Number) -> int:
    """-1, 0 or 1."""
    return _compare(left.digits, left.exponent, right.digits, right.exponent)


def _compare(left: int, left_exponent: int, right: int, right_exponent: int) -> int:
    difference = left_exponent - right_exponent
    if difference and left and right and (left > 0) == (right > 0):
        # Numbers of very different size are compared by their lengths, without writing all zeros.
        magnitude = (left.bit_length() - right.bit_length()) * math.log10(2) + difference
        if abs(magnitude) > 2:
            return 1 if (magnitude > 0) == (left > 0) else -1
        if difference > 0:
            left *= 10**difference
        else:
            right *= 10**-difference
    return (left > right) - (left < right)


def add(left: Number, right: Number, sign: int) -> Number:
    """left + sign * right, a new number: an amount while both are amounts and the result fits."""
    if left.is_amount and right.is_amount:
        amount = _add_amounts(left.digits, left.exponent, sign * right.digits, right.exponent)
        if amount is not None:
            return Number(*amount, is_amount=True)
    exponent = min(left.exponent, right.exponent)
    if max(left.exponent, right.exponent) - exponent > EXPONENT_DIFFERENCE_MAX:
        raise CelError("quantities are too far apart in size to be added")
    digits = left.digits * 10 ** (left.exponent - exponent) + sign * right.digits * 10 ** (right.exponent - exponent)
    return Number(digits, exponent, is_amount=False)


def _add_amounts(left: int, left_exponent: int, right: int, right_exponent: int) -> tuple[int, int] | None:
    if not right:
        return left, left_exponent
    if not left:
        return right, right_exponent
    exponent = min(left_exponent, right_exponent)
    if max(left_exponent, right_exponent) - exponent > AMOUNT_DIGITS_MAX:
        return None
    left *= 10 ** (left_exponent - exponent)
    right *= 10 ** (right_exponent - exponent)
    total = left + right
    return (total, exponent) if all(INT_MIN <= number <= INT_MAX for number in (left, right, total)) else None
