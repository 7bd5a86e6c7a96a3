"""The run-time functions of generated programs. They raise for values that are not plain and known; the exact tier then decides.

This is sound because generated code returns only if nothing on its path is absent, of an unexpected kind, unknown or in error. On
such a path its steps are the exact tier's steps.
"""

from __future__ import annotations

from typing import Final

from ..evaluation import conversions, operators
from ..evaluation.attributes import has, index, index_optional, select, select_optional
from ..evaluation.equality import contains, equal, unknown_within
from ..evaluation.folds import elements, pairs
from ..values import NONE, CelError, Optional, Unknown, Value

_FAILED = frozenset((Unknown, CelError))


class DeviationError(Exception):
    """Generated code met a case that it does not handle."""


def deviate() -> Value:
    """Raises, in the form of an expression."""
    raise DeviationError


def boolean(value: Value) -> bool:
    """A condition that is true or false."""
    if value is True or value is False:
        return value
    raise DeviationError


def known(value: Value) -> Value:
    """A value that is itself neither unknown nor an error; its parts may be."""
    if value.__class__ in _FAILED:
        raise DeviationError
    return value


def wholly_known(value: Value) -> Value:
    """A value without unknowns in any part, for functions that may read all of it."""
    if value.__class__ in _FAILED or unknown_within(value) is not None:
        raise DeviationError
    return value


def has_field(operand: Value, field: str) -> bool:
    """`has(operand.field)` where the answer is known."""
    return boolean(has(operand, field))


ABSENT: Final = object()


def dig(value: Value, path: tuple[str, ...]) -> Value:
    """`value.?a.?b`: the value at the end of the path, or ABSENT. Scalars and null have nothing inside."""
    for field in path:
        if value.__class__ is dict:
            if field not in value:
                return ABSENT
            value = value[field]
        elif value is None or value.__class__ in _SCALARS:
            return ABSENT
        else:
            raise DeviationError
    return value


_SCALARS = frozenset((str, int, float, bool))

NAMESPACE: Final[dict[str, Value]] = {
    "ABSENT": ABSENT,
    "NONE": NONE,
    "Optional": Optional,
    "boolean": boolean,
    "deviate": deviate,
    "dig": dig,
    "elements": elements,
    "has_field": has_field,
    "index": index,
    "index_optional": index_optional,
    "known": known,
    "pairs": pairs,
    "select": select,
    "select_optional": select_optional,
    "to_string": conversions.to_string,
    "wholly_known": wholly_known,
    "add": operators.add,
    "subtract": operators.subtract,
    "multiply": operators.multiply,
    "divide": operators.divide,
    "modulo": operators.modulo,
    "negate": operators.negate,
    "logical_not": operators.logical_not,
    "equal": equal,
    "not_equal": operators.not_equal,
    "less": operators.less,
    "less_equals": operators.less_equals,
    "greater": operators.greater,
    "greater_equals": operators.greater_equals,
    "contains": contains,
    "size": operators.size,
}
