"""The conversions `int()`, `string()` and so on (cel-go common/types, ConvertToType), and `type()`."""

from __future__ import annotations

import math
import re

from .. import types
from ..library.gotext import format_float
from ..values import INT_MAX, INT_MIN, UINT_MAX, CelError, Duration, Opaque, Timestamp, UInt, Value, no_such_overload, runtime_type
from . import times

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_DIGITS_MAX = 64


_FLOAT_WORDS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
# The pattern takes each run of digits whole, without backtracking: a long text could be split in too many ways.
_DECIMAL = re.compile(r"[+-]?(?:[0-9](?:_?[0-9])*+)?+\.?(?:[0-9](?:_?[0-9])*+)?+(?:[eE][+-]?[0-9](?:_?[0-9])*+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX]_?[0-9a-fA-F_]*+\.?[0-9a-fA-F_]*+[pP][+-]?[0-9]+", re.ASCII)


def _parse_double(text: str) -> float | None:
    """Go's strconv.ParseFloat: None where it reports an error, also for a value out of range."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    word = _FLOAT_WORDS.get(unsigned.lower())
    if word is not None:
        if word != word:
            return word if unsigned == text else None
        return -word if text[0] == "-" else word
    try:
        if _HEXADECIMAL.fullmatch(text):
            value = float.fromhex(text.replace("_", ""))
        elif _DECIMAL.fullmatch(text):
            value = float(text)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return None if math.isinf(value) else value


def _cannot(value: Value, wanted: types.Type) -> CelError:
    return CelError(f"type conversion error from '{runtime_type(value).name}' to '{wanted.name}'")


def to_int(value: Value) -> int:
    """int(): truncates doubles, reads decimal text, seconds of a timestamp, nanoseconds of a duration."""
    kind = value.__class__
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is UInt:
        if value > INT_MAX:
            raise CelError("integer overflow")
        return int(value)
    if kind is float:
        if not -9223372036854775808.0 < value < 9223372036854775808.0:
            raise CelError("integer overflow")
        return int(value)
    if kind is str:
        if len(value) < _DIGITS_MAX and re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII) and INT_MIN <= int(value) <= INT_MAX:
            return int(value)
        raise _cannot(value, types.INT)
    if kind is Timestamp:
        return int(value.ns // 10**9)
    if kind is Duration:
        return int(value.ns)
    raise no_such_overload("int", value)


def to_uint(value: Value) -> UInt:
    """uint(): truncates doubles, reads decimal text without a sign."""
    kind = value.__class__
    if kind is UInt:
        return value  # type: ignore[no-any-return]
    if kind is int:
        if value < 0:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if kind is float:
        if not 0 <= value < 18446744073709551616.0:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if kind is str:
        if len(value) < _DIGITS_MAX and re.fullmatch(r"[0-9]+", value, re.ASCII) and int(value) <= UINT_MAX:
            return UInt(value)
        raise _cannot(value, types.UINT)
    raise no_such_overload("uint", value)


def to_double(value: Value) -> float:
    """double()"""
    kind = value.__class__
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is UInt:
        return float(value)
    if kind is str:
        number = _parse_double(value)
        if number is None:
            raise _cannot(value, types.DOUBLE)
        return number
    raise no_such_overload("double", value)


def to_bool(value: Value) -> bool:
    """bool()"""
    kind = value.__class__
    if kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is str:
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise _cannot(value, types.BOOL)
    raise no_such_overload("bool", value)


def to_bytes(value: Value) -> bytes:
    """bytes()"""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise no_such_overload("bytes", value)


def to_string(value: Value) -> str:
    """string(): doubles as Go's `%g`, bytes as UTF-8, and library types in their own text form."""
    kind = value.__class__
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_float(value)
    if kind is bytes:
        try:
            return value.decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Timestamp:
        return times.timestamp_text(value)
    if kind is Duration:
        return times.duration_text(value)
    raise no_such_overload("string", value)


def to_timestamp(value: Value) -> Timestamp:
    """timestamp(): RFC 3339 text, or seconds since 1970."""
    kind = value.__class__
    if kind is Timestamp:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return Timestamp(value * 10**9)
    if kind is str:
        moment = times.parse_timestamp(value)
        if moment is None:
            raise _cannot(value, types.TIMESTAMP)
        return moment
    raise no_such_overload("timestamp", value)


def to_duration(value: Value) -> Duration:
    """duration(): Go's `1h30m` text, or nanoseconds."""
    kind = value.__class__
    if kind is Duration:
        return value  # type: ignore[no-any-return]
    if kind is str:
        span = times.parse_duration(value)
        if span is None:
            raise _cannot(value, types.DURATION)
        return span
    raise no_such_overload("duration", value)


def to_type(value: Value) -> types.Type:
    """type(): the types of lists and maps leave out the types of their contents."""
    return value.cel_type if isinstance(value, Opaque) else runtime_type(value)


def to_dyn(value: Value) -> Value:
    """dyn(): the value unchanged; only the checker sees a difference."""
    return value
