"""Quantities: apiserver pkg/cel/library/quantity.go over apimachinery's resource.Quantity; its number is in quantity_number.py.

A quantity can change after it was made. This shows where it is used twice, as a variable or an element. Comparing an amount with a
decimal turns it into a decimal. Up to 1.36, adding to a decimal changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..functions import Function, Library
from ..types import BOOL, DOUBLE, INT, STRING, Type, opaque
from ..values import CelError, Opaque, Value, no_such_overload
from . import quantity_number
from .costs import scan
from .declare import function, member, plain
from .quantity_number import DECIMAL_EXPONENT, Number


class Quantity(Opaque):
    """A number and the notation it is printed in. `is_computed` marks results of add and sub, which `equals` treats differently."""

    __slots__ = ("is_computed", "notation", "number")
    cel_type: ClassVar[Type] = opaque("kubernetes.Quantity")
    is_pointer: ClassVar[bool] = True

    def __init__(self, number: Number, notation: str, is_computed: bool = False) -> None:
        self.number = number
        self.notation = notation
        self.is_computed = is_computed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and quantity_number.compare(self.number, other.number) == 0

    def __hash__(self) -> int:
        return hash(self.number.key)

    def equals(self, other: Value) -> bool:
        """`==` in CEL. A result of add or sub is a pointer in Go, and upstream rejects a pointer on the right side."""
        if other.__class__ is not Quantity or other.is_computed:
            raise no_such_overload()
        return self == other

    def __str__(self) -> str:
        return self.number.text(self.notation)

    def __repr__(self) -> str:
        return f"quantity({str(self)!r})"


def parse(text: str) -> Quantity:
    """The quantity that `text` spells, a new one each time. Raises CelError in the words of apimachinery."""
    return Quantity(*quantity_number.parse(text))


def is_quantity(text: str) -> bool:
    try:
        quantity_number.parse(text)
    except CelError:
        return False
    return True


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1. An amount on the left becomes a decimal if the right one is a decimal: upstream's Cmp works in place."""
    one, two = left.number, right.number
    if one.is_amount and not two.is_amount:
        one.is_amount = False
    if one.exponent == two.exponent:
        return (one.digits > two.digits) - (one.digits < two.digits)
    return quantity_number.compare(one, two)


def add(left: Quantity, right: Quantity, sign: int) -> Quantity:
    """left + sign * right; a zero takes the notation of the other operand."""
    notation = left.notation if left.number.digits else right.notation
    return Quantity(quantity_number.add(left.number, right.number, sign), notation, is_computed=True)


def add_in_place(left: Quantity, right: Quantity, sign: int) -> Quantity:
    """The same up to 1.36: a decimal on the left is changed and shares its number with the result."""
    total = add(left, right, sign)
    if not left.number.is_amount:
        left.number.digits, left.number.exponent = total.number.digits, total.number.exponent
        total.number = left.number
    return total


def _from_int(value: int) -> Quantity:
    return Quantity(Number(value, 0, is_amount=True), DECIMAL_EXPONENT)


def _as_integer(quantity: Quantity) -> int:
    value = quantity.number.as_integer()
    if value is None:
        raise CelError("cannot convert value to integer")
    return value


_PAIR = (Quantity, Quantity)
_SCAN = scan()

_FUNCTIONS = (
    function("quantity", plain("string_to_quantity", (STRING,), Quantity, parse), cost=_SCAN),
    function("isQuantity", plain("is_quantity_string", (STRING,), BOOL, is_quantity), cost=_SCAN),
    function("sign", plain("quantity_sign", (Quantity,), INT, lambda quantity: quantity.number.sign)),
    function("isGreaterThan", member("quantity_is_greater_than", _PAIR, BOOL, lambda left, right: compare(left, right) > 0)),
    function("isLessThan", member("quantity_is_less_than", _PAIR, BOOL, lambda left, right: compare(left, right) < 0)),
    function("compareTo", member("quantity_compare_to", _PAIR, INT, compare)),
    function("asApproximateFloat", member("quantity_get_float", (Quantity,), DOUBLE, lambda quantity: quantity.number.as_float())),
    function("asInteger", member("quantity_get_int", (Quantity,), INT, _as_integer)),
    function(
        "isInteger",
        member("quantity_is_integer", (Quantity,), BOOL, lambda quantity: quantity.number.as_integer() is not None),
    ),
)


def _sums(add_: Callable[[Quantity, Quantity, int], Quantity]) -> tuple[Function, ...]:
    return (
        function(
            "add",
            member("quantity_add", _PAIR, Quantity, lambda left, right: add_(left, right, 1)),
            member("quantity_add_int", (Quantity, INT), Quantity, lambda left, right: add_(left, _from_int(right), 1)),
        ),
        function(
            "sub",
            member("quantity_sub", _PAIR, Quantity, lambda left, right: add_(left, right, -1)),
            member("quantity_sub_int", (Quantity, INT), Quantity, lambda left, right: add_(left, _from_int(right), -1)),
        ),
    )


LIBRARY_IN_PLACE = Library("quantity, adding in place", (*_FUNCTIONS, *_sums(add_in_place)), introduced=(1, 28), until=(1, 37))
LIBRARY = Library("quantity", (*_FUNCTIONS, *_sums(add)), introduced=(1, 28), since=(1, 37))
