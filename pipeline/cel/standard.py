"""The standard library of CEL as declarations: operators, conversions, `size`, text and time functions (cel-go
common/stdlib/standard.go).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from . import types
from .evaluation import conversions, operators, times
from .evaluation.patterns import matches
from .functions import Function, Library, Overload
from .library import costs
from .library.costs import Cost
from .types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, list_of, map_of, parameter, type_of
from .values import Duration, Opaque, Timestamp, Value, no_such_overload

_A, _B = parameter("A"), parameter("B")
_LIST, _MAP = list_of(_A), map_of(_A, _B)
_SHORT = {INT: "int64", UINT: "uint64", DOUBLE: "double", BOOL: "bool", STRING: "string", BYTES: "bytes"}
_SHORT |= {TIMESTAMP: "timestamp", DURATION: "duration"}


def _binary(name: str, *overloads: tuple[str, Type, Type, Type]) -> Function:
    return Function(
        name, tuple(Overload(id_, (left, right), result) for id_, left, right, result in overloads), operators.CALLS[name]
    )


def _arithmetic() -> list[Function]:
    numbers = (INT, UINT, DOUBLE)

    def numeric(verb: str, *kinds: Type) -> list[tuple[str, Type, Type, Type]]:
        return [(f"{verb}_{_SHORT[kind]}", kind, kind, kind) for kind in kinds]

    sums = [(f"add_{_SHORT[kind]}", kind, kind, kind) for kind in (BYTES, DOUBLE)]
    sums += [
        ("add_duration_duration", DURATION, DURATION, DURATION),
        ("add_duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP),
        ("add_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
        ("add_int64", INT, INT, INT),
        ("add_list", _LIST, _LIST, _LIST),
        ("add_string", STRING, STRING, STRING),
        ("add_uint64", UINT, UINT, UINT),
    ]
    differences = [
        ("subtract_double", DOUBLE, DOUBLE, DOUBLE),
        ("subtract_duration_duration", DURATION, DURATION, DURATION),
        ("subtract_int64", INT, INT, INT),
        ("subtract_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP),
        ("subtract_timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION),
        ("subtract_uint64", UINT, UINT, UINT),
    ]
    return [
        _binary("_+_", *sums),
        _binary("_-_", *differences),
        _binary("_*_", *numeric("multiply", DOUBLE, INT, UINT)),
        _binary("_/_", *numeric("divide", DOUBLE, INT, UINT)),
        _binary("_%_", *numeric("modulo", INT, UINT)),
        Function(
            "-_", tuple(Overload(f"negate_{_SHORT[kind]}", (kind,), kind) for kind in numbers if kind is not UINT), operators.negate
        ),
        Function("!_", (Overload("logical_not", (BOOL,), BOOL),), operators.logical_not),
    ]


def _relations() -> list[Function]:
    same = [_A, _A]
    found = [
        Function("_==_", (Overload("equals", tuple(same), BOOL),), operators.CALLS["_==_"]),
        Function("_!=_", (Overload("not_equals", tuple(same), BOOL),), operators.CALLS["_!=_"]),
        Function("@in", (Overload("in_list", (_A, _LIST), BOOL), Overload("in_map", (_A, _MAP), BOOL)), operators.CALLS["@in"]),
    ]
    numbers = (INT, UINT, DOUBLE)
    pairs = [(BOOL, BOOL)] + [(left, right) for left in numbers for right in numbers]
    pairs += [(kind, kind) for kind in (STRING, BYTES, TIMESTAMP, DURATION)]
    for name, verb in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        overloads = [
            (f"{verb}_{_SHORT[left]}" if left is right else f"{verb}_{_SHORT[left]}_{_SHORT[right]}", left, right, BOOL)
            for left, right in pairs
        ]
        found.append(_binary(name, *overloads))
    return found


def _conversion(name: str, result: Type, sources: tuple[Type, ...], call: Callable[[Value], Value]) -> Function:
    target = _SHORT[result]
    return Function(name, tuple(Overload(f"{_SHORT[source]}_to_{target}", (source,), result) for source in sources), call)


def _conversions() -> list[Function]:
    return [
        Function("type", (Overload("type", (_A,), type_of(_A)),), conversions.to_type),
        Function("dyn", (Overload("to_dyn", (_A,), DYN),), conversions.to_dyn),
        _conversion("bool", BOOL, (BOOL, STRING), conversions.to_bool),
        _conversion("bytes", BYTES, (BYTES, STRING), conversions.to_bytes),
        _conversion("double", DOUBLE, (DOUBLE, INT, STRING, UINT), conversions.to_double),
        _conversion("duration", DURATION, (DURATION, STRING), conversions.to_duration),
        _conversion("int", INT, (INT, DOUBLE, DURATION, STRING, TIMESTAMP, UINT), conversions.to_int),
        _conversion("string", STRING, (STRING, BOOL, BYTES, DOUBLE, DURATION, INT, TIMESTAMP, UINT), conversions.to_string),
        _conversion("timestamp", TIMESTAMP, (TIMESTAMP, INT, STRING), conversions.to_timestamp),
        _conversion("uint", UINT, (UINT, DOUBLE, INT, STRING), conversions.to_uint),
    ]


def _sizes() -> Function:
    kinds = (("bytes", BYTES), ("list", _LIST), ("map", _MAP), ("string", STRING))
    plain = tuple(Overload(f"size_{name}", (kind,), INT) for name, kind in kinds)
    member = tuple(Overload(f"{name}_size", (kind,), INT, member=True) for name, kind in kinds)
    return Function("size", plain + member, operators.size)


def _text(name: str, test: Callable[[str, str], bool]) -> Function:
    """A function that tests one string with another."""

    def call(text: Value, part: Value) -> bool:
        if text.__class__ is str and part.__class__ is str:
            return test(text, part)
        raise no_such_overload()

    words = {"startsWith": "starts_with_string", "endsWith": "ends_with_string", "contains": "contains_string"}
    return Function(name, (Overload(words[name], (STRING, STRING), BOOL, member=True),), call)


def _matches(text: Value, pattern: Value) -> bool:
    if text.__class__ is str and pattern.__class__ is str:
        return matches(text, pattern)
    raise no_such_overload()


def _texts() -> list[Function]:
    overloads = (
        Overload("matches", (STRING, STRING), BOOL),
        Overload("matches_string", (STRING, STRING), BOOL, member=True),
    )
    return [
        _text("contains", lambda text, part: part in text),
        _text("endsWith", str.endswith),
        _text("startsWith", str.startswith),
        Function("matches", overloads, _matches),
    ]


def _part(name: str) -> Function:
    """An accessor of timestamps and, for units of time, of durations."""
    suffix = _PART_IDS[name]
    overloads = [
        Overload(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, member=True),
        Overload(f"timestamp_to_{suffix}_with_tz", (TIMESTAMP, STRING), INT, member=True),
    ]
    if name in times.DURATION_PARTS_NS:
        overloads.append(Overload(f"duration_to_{suffix}", (DURATION,), INT, member=True))

    def call(value: Value, *zone: Value) -> int:
        if value.__class__ is Timestamp and (not zone or (len(zone) == 1 and zone[0].__class__ is str)):
            return times.part(name, value, *zone)
        if value.__class__ is Duration and not zone and name in times.DURATION_PARTS_NS:
            return times.duration_part(name, value)
        raise no_such_overload(name, value, *zone)

    return Function(name, tuple(overloads), call)


_PART_IDS = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDate": "day_of_month_1_based",
    "getDayOfMonth": "day_of_month",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}

LIBRARY = Library(
    "standard",
    (*_arithmetic(), *_relations(), *_conversions(), _sizes(), *_texts(), *(_part(name) for name in times.TIMESTAMP_PARTS)),
)


def _smaller(arguments: tuple[Value, ...], result: Value) -> int:
    """Equality and order read up to the end of the smaller operand; library types are compared in one step."""
    if isinstance(arguments[0], Opaque):
        return 1
    return ceil(min(costs.size(arguments[0]), costs.size(arguments[1])) * costs.STRING_FACTOR)


def _equality(arguments: tuple[Value, ...], result: Value) -> int:
    """As order, but library types always cost 1, for any number of bytes (kubernetes/apiserver pkg/cel/library/cost.go)."""
    return 1 if isinstance(arguments[0], Opaque) else _smaller(arguments, result)


def _both(arguments: tuple[Value, ...], result: Value) -> int:
    """Both operands are copied."""
    return ceil((costs.size(arguments[0]) + costs.size(arguments[1])) * costs.STRING_FACTOR)


def _product(arguments: tuple[Value, ...], result: Value) -> int:
    """One string is searched for another."""
    return ceil(costs.size(arguments[0]) * costs.STRING_FACTOR) * ceil(costs.size(arguments[1]) * costs.STRING_FACTOR)


def _elements(arguments: tuple[Value, ...], result: Value) -> int:
    """A list is searched."""
    return costs.size(arguments[1])


# Costs of calls of the standard library above the usual 1, by overload. cel-go's tracker charges them only if the checker could
# resolve the overload, and otherwise 1 (cel-go interpreter/runtimecost.go).
COSTS: dict[str, Cost] = {
    "equals": _equality,
    "not_equals": _smaller,
    "in_list": _elements,
    "add_string": _both,
    "add_bytes": _both,
    "starts_with_string": costs.scan(),
    "ends_with_string": costs.scan(),
    "string_to_bytes": costs.scan(),
    "bytes_to_string": costs.scan(),
    "contains_string": _product,
    "matches_string": costs.search,
}
COSTS |= {
    f"{verb}_{kind}": _smaller for verb in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")
}

TYPE_NAMES: dict[str, Type] = {
    **{type_.name: type_ for type_ in (BOOL, BYTES, DOUBLE, DURATION, INT, types.NULL, STRING, TIMESTAMP, UINT, types.TYPE)},
    "list": types.LIST,
    "map": types.MAP,
    "optional_type": types.optional_of(DYN),
}
