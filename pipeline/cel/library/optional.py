"""Optional values: cel-go cel/library.go and common/types/optional.go. The checker handles `.?`, `[?]` and the macros itself."""

from __future__ import annotations

from dataclasses import replace

from ..costs.sizes import printed
from ..functions import Function, Library, Overload
from ..types import BOOL, list_of, optional_of, parameter
from ..values import NONE, CelError, CelMap, Duration, Optional, Timestamp, Value, no_such_overload
from .costs import free
from .declare import Implementation, function, member, plain

_YEAR_ONE_NS = -62135596800 * 10**9


def of_non_zero(value: Value) -> Optional:
    """The value, or an empty optional if it is null, false, a zero or empty. Library types have no zero."""
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    if value.__class__ is Timestamp:
        return bool(value.ns == _YEAR_ONE_NS)
    if value.__class__ is Duration:
        return bool(value.ns == 0)
    return value is None or (isinstance(value, bool | int | float | str | bytes | list | dict | CelMap) and not value)


def value_of(option: Optional) -> Value:
    if not option.has_value:
        raise CelError("optional.none() dereference")
    return option.value


def or_(option: Value, other: Value) -> Value:
    """The first with a value. A receiver that is not an optional is returned unchanged (cel-go up to v0.27, evalOptionalOr)."""
    return other if option.__class__ is Optional and not option.has_value else option


def or_value(option: Value, default: Value) -> Value:
    """The optional's value, or else `default`. A receiver that is not an optional is returned unchanged (cel-go up to v0.27)."""
    if option.__class__ is not Optional:
        return option
    return option.value if option.has_value else default


def _of_optionals_only(call: Implementation) -> Implementation:
    """`call`, which rejects a receiver that is not an optional (since cel-go v0.28, cel/library.go)."""

    def run(option: Value, other: Value) -> Value:
        if option.__class__ is not Optional:
            raise no_such_overload()
        return call(option, other)

    return run


def unwrap(options: list[Value]) -> list[Value]:
    """The values of all optionals that have one."""
    for option in options:
        if option.__class__ is not Optional:
            raise CelError(f"value {printed(option)} is not optional")
    return [option.value for option in options if option.has_value]


_V = parameter("V")
_OPTION, _LIST, _OPTIONS = optional_of(_V), list_of(_V), list_of(optional_of(_V))

_FUNCTIONS = (
    function("optional.of", plain("optional_of", (_V,), _OPTION, Optional)),
    function("optional.none", plain("optional_none", (), _OPTION, lambda: NONE)),
    function("optional.ofNonZeroValue", plain("optional_ofNonZeroValue", (_V,), _OPTION, of_non_zero)),
    function("value", member("optional_value", (_OPTION,), _V, value_of)),
    function("hasValue", member("optional_hasValue", (_OPTION,), BOOL, lambda option: option.has_value)),
)
_LIST_FUNCTIONS = (
    function("first", member("list_first", (_LIST,), _OPTION, lambda items: Optional(items[0]) if items else NONE)),
    function("last", member("list_last", (_LIST,), _OPTION, lambda items: Optional(items[-1]) if items else NONE)),
    function("optional.unwrap", plain("optional_unwrap", (_OPTIONS,), _LIST, unwrap)),
    function("unwrapOpt", member("optional_unwrapOpt", (_OPTIONS,), _LIST, unwrap)),
)
_OR = (
    Function("or", (Overload("optional_or_optional", (_OPTION, _OPTION), _OPTION, member=True),), or_, free),
    Function("orValue", (Overload("optional_orValue_value", (_OPTION, _V), _V, member=True),), or_value, free),
)
_STRICT_OR = tuple(replace(each, call=_of_optionals_only(each.call)) for each in _OR)
_MACROS = frozenset(("optMap", "optFlatMap"))

# Kubernetes does not version this library: its newer functions came with the cel-go of 1.33, and that of 1.37 checks `or` and
# `orValue`. The evaluator itself handles an optional without a value.
LIBRARY_0 = Library("optional", (*_FUNCTIONS, *_OR), introduced=(1, 28), until=(1, 33), macros=_MACROS)
LIBRARY_1 = Library(
    "optional 2", (*_FUNCTIONS, *_OR, *_LIST_FUNCTIONS), introduced=(1, 28), since=(1, 33), until=(1, 37), macros=_MACROS
)
LIBRARY = Library(
    "optional 2, checked", (*_FUNCTIONS, *_STRICT_OR, *_LIST_FUNCTIONS), introduced=(1, 28), since=(1, 37), macros=_MACROS
)
