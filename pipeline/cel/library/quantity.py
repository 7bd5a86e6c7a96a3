"""Quantities: apiserver pkg/cel/library/quantity.go over apimachinery pkg/api/resource/quantity.go.

A quantity is kept as upstream keeps it, because it shows: either as an amount, a 64-bit integer times a power of ten, or as a
decimal of any size. Only an amount can be an integer for `asInteger` and `isInteger`: `quantity('1Pi').isInteger()` is false, since
upstream's parser takes the slow way for 2^50. And a value can change after it was made, which shows where it is used twice, as a
variable or an element: comparing an amount with a decimal makes it a decimal, and up to 1.36, adding to a decimal changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from ..functions import Function, Library
from ..types import BOOL, DOUBLE, INT, STRING, Type, opaque
from ..values import INT_MAX, INT_MIN, CelError, Opaque, Value, no_such_overload
from .costs import scan
from .declare import function, member, plain

DECIMAL_SI, DECIMAL_EXPONENT, BINARY_SI = "DecimalSI", "DecimalExponent", "BinarySI"
NANO = -9
# Digits that surely fit into 64 bits, and those that leave room for a binary suffix.
AMOUNT_DIGITS_MAX, BINARY_DIGITS_MAX = 18, 15
# Upstream would need as many digits as the exponents differ by, that is gigabytes; it would not survive this either.
EXPONENT_DIFFERENCE_MAX = 100_000

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}}

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"
_DIGITS = "0123456789"

Cell: TypeAlias = list[Any]


class Quantity(Opaque):
    """Digits times ten to an exponent. `is_computed` marks results of add and sub, which differ in one point: see `equals`.

    The number is in a `cell` of its own, [digits, exponent, whether it is an amount], because two quantities can share one.
    """

    __slots__ = ("cell", "format", "is_computed")
    cel_type: ClassVar[Type] = opaque("kubernetes.Quantity")

    def __init__(self, cell: Cell, notation: str, is_computed: bool = False) -> None:
        self.cell = cell
        self.format = notation
        self.is_computed = is_computed

    @property
    def digits(self) -> int:
        return self.cell[0]

    @property
    def exponent(self) -> int:
        return self.cell[1]

    @property
    def is_amount(self) -> bool:
        return self.cell[2]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and _compare(self.cell, other.cell) == 0

    def __hash__(self) -> int:
        digits, exponent = _without_trailing_zeros(self.digits, self.exponent, 10)
        return hash((digits, exponent if digits else 0))

    def equals(self, other: Value) -> bool:
        """`==` in CEL. A result of add or sub is a pointer in Go, which upstream refuses to compare with on the right side."""
        if other.__class__ is not Quantity or other.is_computed:
            raise no_such_overload()
        return _compare(self.cell, other.cell) == 0

    def __str__(self) -> str:
        """The canonical form, such as `1500m` or `2Gi`."""
        if not self.digits:
            return "0"
        if self.format == BINARY_SI and (whole := _whole(self)) is not None and abs(whole) >= 1024:
            amount, times = _without_trailing_zeros(whole, 0, 1024)
            return f"{_text(amount)}{_BINARY_NAMES.get(times * 10, '')}"
        amount, exponent = _without_trailing_zeros(self.digits, self.exponent, 10)
        shift = exponent % 3
        amount, exponent = amount * 10**shift, exponent - shift
        if self.format == DECIMAL_EXPONENT:
            return f"{_text(amount)}e{exponent}" if exponent else _text(amount)
        return f"{_text(amount)}{_DECIMAL_NAMES.get(exponent, '')}"

    def __repr__(self) -> str:
        return f"quantity({str(self)!r})"


def _text(number: int) -> str:
    """str(), which refuses numbers of more than 4,300 digits."""
    return f"{Decimal(number):f}"


def _whole(quantity: Quantity) -> int | None:
    """The value if it is a whole number, else None."""
    if quantity.exponent >= 0:
        return quantity.digits * int(10 ** min(quantity.exponent, EXPONENT_DIFFERENCE_MAX))
    whole, rest = divmod(quantity.digits, 10 ** min(-quantity.exponent, EXPONENT_DIFFERENCE_MAX))
    return None if rest else whole


def _without_trailing_zeros(number: int, exponent: int, base: int) -> tuple[int, int]:
    while number and number % base == 0:
        number, exponent = number // base, exponent + 1
    return number, exponent


def parse(text: str) -> Quantity:
    """The quantity that `text` spells, a new one each time. Raises CelError in the words of apimachinery."""
    cell, notation = _parse(text)
    return Quantity([*cell], notation)


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[tuple[int, int, bool], str]:
    """The number and the notation of a text: kept, because policies compare with the same few quantities again and again."""
    if not text:
        raise CelError(_FORMAT_WRONG)
    negative, number, numerator, denominator, suffix = _split(text)
    base, exponent, notation = _interpret(suffix)
    amount = _parse_amount(numerator, denominator, base, exponent)
    if amount is not None:
        digits, scale = amount
        return (-digits if negative else digits, scale, True), notation
    return _parse_decimal(number, base, exponent, notation)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Sign, text of the number, digits before and after the point, suffix. A text without any digit is a zero upstream too."""
    negative = text[0] == "-"
    position = 1 if text[0] in "+-" else 0
    while position < len(text) and text[position] == "0":
        position += 1
    if position == len(text):
        return negative, "0", "0", "", ""
    numerator_start = position
    position = _skip(text, position, _DIGITS)
    numerator, denominator = text[numerator_start:position] or "0", ""
    if position < len(text) and text[position] == ".":
        denominator_start = position + 1
        position = _skip(text, denominator_start, _DIGITS)
        denominator = text[denominator_start:position]
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
    exponent = int(suffix[1:])
    if not INT_MIN <= exponent <= INT_MAX:
        raise CelError(_SUFFIX)
    # Upstream cuts the exponent to 32 bits without a look.
    return 10, (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT


def _parse_amount(numerator: str, denominator: str, base: int, exponent: int) -> tuple[int, int] | None:
    """Digits and exponent if upstream's fast parser would take it, else None."""
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


def _parse_decimal(number: str, base: int, exponent: int, notation: str) -> tuple[tuple[int, int, bool], str]:
    """The slow parser: any size; what is finer than nano is rounded away from zero; binary notation is capped at int64."""
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
        if _compare([digits, scale], [INT_MAX, 0]) > 0:
            digits, scale = INT_MAX, 0
        elif digits and _compare([digits, scale], [1, 0]) < 0:
            notation = DECIMAL_SI
    return (-digits if negative else digits, scale, False), notation


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1. An amount on the left becomes a decimal where the right one is: upstream's Cmp works in place."""
    if left.is_amount and not right.is_amount:
        left.cell[2] = False
    return _compare(left.cell, right.cell)


def _compare(left_cell: Cell, right_cell: Cell) -> int:
    left, right = left_cell[0], right_cell[0]
    difference = left_cell[1] - right_cell[1]
    if difference and left and right and (left > 0) == (right > 0):
        # Numbers of very different size are told apart by their lengths, without writing all zeros.
        magnitude = (left.bit_length() - right.bit_length()) * math.log10(2) + difference
        if abs(magnitude) > 2:
            return 1 if (magnitude > 0) == (left > 0) else -1
        if difference > 0:
            left *= 10**difference
        else:
            right *= 10**-difference
    return (left > right) - (left < right)


def add(left: Quantity, right: Quantity, sign: int = 1) -> Quantity:
    """left + sign * right: an amount as long as both are and the result fits; zero takes on the notation of what is added to it."""
    notation = left.format if left.digits else right.format
    if left.is_amount and right.is_amount:
        amount = _add_amounts(left.digits, left.exponent, sign * right.digits, right.exponent)
        if amount is not None:
            return Quantity([*amount, True], notation, is_computed=True)
    exponent = min(left.exponent, right.exponent)
    if max(left.exponent, right.exponent) - exponent > EXPONENT_DIFFERENCE_MAX:
        raise CelError("quantities are too far apart in size to be added")
    digits = left.digits * 10 ** (left.exponent - exponent) + sign * right.digits * 10 ** (right.exponent - exponent)
    return Quantity([digits, exponent, False], notation, is_computed=True)


def add_in_place(left: Quantity, right: Quantity, sign: int = 1) -> Quantity:
    """The same up to 1.36, where a decimal on the left is changed and shares its number with the result."""
    total = add(left, right, sign)
    if not left.is_amount:
        left.cell[:] = total.cell
        total.cell = left.cell
    return total


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


def _from_int(number: int) -> Quantity:
    return Quantity([number, 0, True], DECIMAL_EXPONENT)


def as_integer(quantity: Quantity) -> int | None:
    """The value of an amount that is a whole int64 without a fraction in its spelling, else None."""
    if not quantity.is_amount or quantity.exponent < 0:
        return None
    if not quantity.digits:
        return 0
    if quantity.exponent > AMOUNT_DIGITS_MAX:
        return None
    value = quantity.digits * int(10**quantity.exponent)
    return value if INT_MIN <= value <= INT_MAX else None


def _as_integer(quantity: Quantity) -> int:
    value = as_integer(quantity)
    if value is None:
        raise CelError("cannot convert value to integer")
    return value


def _as_float(quantity: Quantity) -> float:
    """Digits times a power of ten, rounded twice as upstream does it (AsApproximateFloat64)."""
    try:
        base = float(quantity.digits)
    except OverflowError:
        base = math.inf if quantity.digits > 0 else -math.inf
    return base * _pow10(quantity.exponent) if quantity.exponent else base


def _pow10(exponent: int) -> float:
    """Go's math.Pow10, which multiplies two exact-looking halves instead of rounding once."""
    if exponent > 308:
        return math.inf
    if exponent < -323:
        return 0.0
    high, low = divmod(abs(exponent), 32)
    return float(f"1e{high * 32}") * float(f"1e{low}") if exponent >= 0 else float(f"1e-{high * 32}") / float(f"1e{low}")


def is_quantity(text: str) -> bool:
    try:
        parse(text)
    except CelError:
        return False
    return True


_SCAN = scan()

_FUNCTIONS = (
    function("quantity", plain("string_to_quantity", (STRING,), Quantity, parse), cost=_SCAN),
    function("isQuantity", plain("is_quantity_string", (STRING,), BOOL, is_quantity), cost=_SCAN),
    function("sign", plain("quantity_sign", (Quantity,), INT, lambda value: (value.digits > 0) - (value.digits < 0))),
    function("isGreaterThan", member("quantity_is_greater_than", (Quantity, Quantity), BOOL, lambda a, b: compare(a, b) > 0)),
    function("isLessThan", member("quantity_is_less_than", (Quantity, Quantity), BOOL, lambda a, b: compare(a, b) < 0)),
    function("compareTo", member("quantity_compare_to", (Quantity, Quantity), INT, compare)),
    function("asApproximateFloat", member("quantity_get_float", (Quantity,), DOUBLE, _as_float)),
    function("asInteger", member("quantity_get_int", (Quantity,), INT, _as_integer)),
    function("isInteger", member("quantity_is_integer", (Quantity,), BOOL, lambda value: as_integer(value) is not None)),
)


def _sums(add_: Callable[[Quantity, Quantity, int], Quantity]) -> tuple[Function, ...]:
    return (
        function(
            "add",
            member("quantity_add", (Quantity, Quantity), Quantity, lambda left, right: add_(left, right, 1)),
            member("quantity_add_int", (Quantity, INT), Quantity, lambda left, right: add_(left, _from_int(right), 1)),
        ),
        function(
            "sub",
            member("quantity_sub", (Quantity, Quantity), Quantity, lambda left, right: add_(left, right, -1)),
            member("quantity_sub_int", (Quantity, INT), Quantity, lambda left, right: add_(left, _from_int(right), -1)),
        ),
    )


LIBRARY_IN_PLACE = Library("quantity, adding in place", (*_FUNCTIONS, *_sums(add_in_place)), introduced=(1, 28), removed=(1, 37))
LIBRARY = Library("quantity", (*_FUNCTIONS, *_sums(add)), introduced=(1, 37))
