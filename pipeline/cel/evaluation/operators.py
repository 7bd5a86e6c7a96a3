"""The operators of CEL over values: overflow is an error, `/` and `%` truncate, kinds do not mix (cel-go common/types/overflow.go).

Every function here takes known values without errors and returns a value or raises CelError with cel-go's text. The text is
`no such overload: _+_` if the left operand's type lacks the operator. It is `no such overload` if that type does not accept the
right operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ..costs.sizes import check_list, check_text
from ..values import INT_MAX, INT_MIN, UINT_MAX, CelError, CelMap, Duration, Timestamp, UInt, Value, no_such_overload
from .equality import contains, equal

_NUMBERS = frozenset((int, float, UInt))
_ORDERED = frozenset((bool, str, bytes))
_INSTANTS = frozenset((Timestamp, Duration))
_ADDABLE = frozenset((int, UInt, float, str, bytes, list, Duration, Timestamp))
_SUBTRACTABLE = frozenset((int, UInt, float, Duration, Timestamp))


def _not_defined(name: str, left: Value, defined_for: frozenset[type]) -> CelError:
    return no_such_overload() if left.__class__ in defined_for else CelError(f"no such overload: {name}")


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`: numbers of one kind, strings, bytes, lists, durations and timestamps."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return _int(left + right)
        if kind is str or kind is bytes:
            check_text(len(left) + len(right))
            return left + right
        if kind is list:
            check_list(len(left) + len(right))
            return left + right if left and right else left or right
        if kind is float:
            return left + right
        if kind is UInt:
            return _uint(int(left) + int(right))
        if kind is Duration:
            return Duration(left.ns + right.ns)
    elif kind is Timestamp and other is Duration:
        return Timestamp(left.ns + right.ns, left.zone_seconds)
    elif kind is Duration and other is Timestamp:
        return Timestamp(left.ns + right.ns, right.zone_seconds)
    raise _not_defined("_+_", left, _ADDABLE)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`: numbers of one kind, durations and timestamps."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return _int(left - right)
        if kind is float:
            return left - right
        if kind is UInt:
            return _uint(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return Duration(left.ns - right.ns)
    elif kind is Timestamp and other is Duration:
        return Timestamp(left.ns + Duration(-right.ns).ns, left.zone_seconds)
    raise _not_defined("_-_", left, _SUBTRACTABLE)


def multiply(left: Value, right: Value) -> Value:
    """`left * right`: numbers of one kind."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _int(left * right)
        if kind is float:
            return left * right
        if kind is UInt:
            return _uint(int(left) * int(right))
    raise _not_defined("_*_", left, _NUMBERS)


def divide(left: Value, right: Value) -> Value:
    """`left / right`: numbers of one kind, integers towards zero, doubles by IEEE 754."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is float:
            return _divide_doubles(left, right)
        if kind is int or kind is UInt:
            if right == 0:
                raise CelError("division by zero")
            quotient = abs(left) // abs(right)
            return UInt(quotient) if kind is UInt else _int(quotient if (left < 0) == (right < 0) else -quotient)
    raise _not_defined("_/_", left, _NUMBERS)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    """`left % right`: integers of one kind, with the sign of the dividend."""
    kind = left.__class__
    if kind is right.__class__ and (kind is int or kind is UInt):
        if right == 0:
            raise CelError("modulus by zero")
        if left == INT_MIN and right == -1:
            raise CelError("integer overflow")
        rest = abs(left) % abs(right)
        return UInt(rest) if kind is UInt else (-rest if left < 0 else rest)
    raise _not_defined("_%_", left, frozenset((int, UInt)))


def negate(operand: Value) -> Value:
    """`-operand`: an int, a double or a duration."""
    kind = operand.__class__
    if kind is int:
        return _int(-operand)
    if kind is float:
        return -operand
    if kind is Duration:
        return Duration(-operand.ns)
    raise _not_defined("-_", operand, frozenset((bool,)))


def logical_not(operand: Value) -> Value:
    """`!operand`"""
    if operand is True:
        return False
    if operand is False:
        return True
    raise no_such_overload()


def _comparison(name: str, holds: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def compare(left: Value, right: Value) -> bool:
        kind, other = left.__class__, right.__class__
        if kind in _NUMBERS and other in _NUMBERS:
            if kind is float or other is float:
                left, right = float(left), float(right)
                if left != left or right != right:
                    raise CelError("NaN values cannot be ordered")
            return holds(left, right)
        if kind is other:
            if kind in _ORDERED:
                return holds(left, right)
            if kind in _INSTANTS:
                return holds(left.ns, right.ns)
        if kind is float and left != left:
            raise CelError("NaN values cannot be ordered")
        raise _not_defined(name, left, _NUMBERS | _ORDERED | _INSTANTS)

    compare.__doc__ = f"`{name.replace('_', ' ').strip()}`: numbers by value, otherwise two values of one kind that has an order."
    return compare


less = _comparison("_<_", operator.lt)
less_equals = _comparison("_<=_", operator.le)
greater = _comparison("_>_", operator.gt)
greater_equals = _comparison("_>=_", operator.ge)


def not_equal(left: Value, right: Value) -> bool:
    """`left != right`. Where opaque types refuse to be compared, they are unequal (cel-go interpreter.evalNe)."""
    try:
        return not equal(left, right)
    except CelError:
        return True


def size(value: Value) -> int:
    """`size(value)`: code points, bytes, elements or entries."""
    kind = value.__class__
    if kind is str or kind is list or kind is dict or kind is bytes or kind is CelMap or isinstance(value, dict):
        return len(value)
    raise CelError("no such overload: size")


CALLS: dict[str, Callable[..., Value]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": logical_not,
    "_==_": equal,
    "_!=_": not_equal,
    "_<_": less,
    "_<=_": less_equals,
    "_>_": greater,
    "_>=_": greater_equals,
    "@in": contains,
}
