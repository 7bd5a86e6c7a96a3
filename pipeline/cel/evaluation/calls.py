"""Calls in the exact tier: arguments, functions, and comparisons of values that may contain unknowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..functions import Function
from ..values import CelError, CelMap, Optional, SparseMap, Unknown, Value
from .equality import UnknownOperandError, compare, equal, search, unknown_within
from .frames import FAILED, Frame, Run

# These functions pass on their arguments without reading them, so an unknown deep inside does not matter to them.
_BLIND_OPTIONALS = ("optional.of", "optional.ofNonZeroValue", "optional.none", "hasValue", "value", "or", "orValue", "unwrapOpt")
BLIND: Final = frozenset(("size", "type", "dyn", "_+_", "slice", "reverse", "optional.unwrap", *_BLIND_OPTIONALS))
CONTAINERS: Final = frozenset((list, dict, SparseMap, CelMap, Optional))


def evaluate_arguments(arguments: list[Run], frame: Frame) -> tuple[list[Value], Value]:
    """The values of the arguments, and the value that replaces the result if one of them failed (None if all succeeded).

    As in cel-go, one or two arguments are always evaluated; of three or more, only those up to the first failure. The first failure
    counts; unknowns are merged, because all of them are needed.
    """
    values: list[Value] = []
    failure: Value = None
    for argument in arguments:
        value = argument(frame)
        values.append(value)
        if value.__class__ in FAILED:
            if failure is None:
                failure = value
            elif failure.__class__ is Unknown and value.__class__ is Unknown:
                failure = failure.merge(value)
            if len(arguments) > 2:
                break
    return values, failure


def call_of(function: Function, arguments: list[Run]) -> Run:
    apply = application(function)
    if len(arguments) == 1:
        (only,) = arguments

        def run_unary(frame: Frame) -> Value:
            value = only(frame)
            return value if value.__class__ in FAILED else apply(value)

        return run_unary
    if len(arguments) == 2:
        first, second = arguments

        def run_binary(frame: Frame) -> Value:
            left, right = first(frame), second(frame)
            if left.__class__ in FAILED:
                return left.merge(right) if left.__class__ is right.__class__ is Unknown else left
            return right if right.__class__ in FAILED else apply(left, right)

        return run_binary

    def run(frame: Frame) -> Value:
        values, failure = evaluate_arguments(arguments, frame)
        return apply(*values) if failure is None else failure

    return run


def application(function: Function) -> Callable[..., Value]:
    """The function on values that did not fail. Its errors become values; an unknown inside the arguments becomes its result."""
    special = _COMPARISONS.get(function.name)
    call = function.call if special is None else special
    sees_all = special is None and function.name not in BLIND

    def apply(*values: Value) -> Value:
        try:
            if sees_all:
                for value in values:
                    if value.__class__ in CONTAINERS:
                        unknown = unknown_within(value)
                        if unknown is not None:
                            return unknown
            return call(*values)
        except CelError as problem:
            return problem.with_traceback(None)

    return apply


def equality(left: Value, right: Value) -> Value:
    """`==` for values that may contain unknowns."""
    try:
        return equal(left, right)
    except UnknownOperandError:
        return compare(left, right)


def inequality(left: Value, right: Value) -> Value:
    """`!=`: an error of the comparison counts as unequal (cel-go interpreter.evalNe)."""
    try:
        same = equality(left, right)
    except CelError:
        return True
    return same if same.__class__ is Unknown else not same


_COMPARISONS: Mapping[str, Callable[[Value, Value], Value]] = {"_==_": equality, "_!=_": inequality, "@in": search}
