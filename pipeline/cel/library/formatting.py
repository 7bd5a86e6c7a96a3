"""`string.format`, version 2: cel-go ext/formatting.go with the locale en_US, the only one that Kubernetes uses.

The locale shows in `%f` and `%e`, which Go's golang.org/x/text prints: digits are grouped, infinity is a symbol, and an exponent is
a power of ten. Up to Kubernetes 1.32, whose golang.org/x/text is older than v0.23, the times sign stands between narrow spaces.
Contents of a list or map are printed as CEL literals, without a locale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from ..costs.sizes import check_printable, check_text
from ..evaluation import times
from ..types import DYN, STRING, Type, list_of
from ..values import INT_MAX, CelError, CelMap, Duration, Timestamp, UInt, Value, runtime_type
from .costs import scan
from .declare import function, member
from .gotext import format_float, quote

PRECISION_DEFAULT = 6
# The printer keeps precisions in 16 and 8 bits; no format needs more digits than a double has.
PRECISION_MAX = 2**15 - 1
FRACTION_DIGITS_KEPT = 2**8
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL_TEXTS = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class Clause:
    """One `%` clause: its verb, its precision if it has one, and the index of the text after it."""

    verb: str
    precision: int | None
    end: int


def format_string(text: str, arguments: list[Value], times_sign: str = "×") -> str:
    """`text` with its clauses replaced by the arguments in order; powers of ten are written with `times_sign`.

    Raises CelError in the words of cel-go. Too many arguments are not an error.
    """
    check_printable(arguments)
    pieces: list[str] = []
    position = used = 0
    length = len(text)
    while (percent := text.find("%", position)) >= 0:
        pieces.append(text[position:percent])
        if text.startswith("%%", percent):
            pieces.append("%")
            position = percent + 2
            continue
        if used >= len(arguments):
            raise CelError(f"index {used} out of range")
        clause = parse_clause(text, percent)
        piece = format_argument(clause, arguments[used])
        pieces.append(
            piece if times_sign == "×" or clause.verb != "e" else piece.lstrip().replace("×", times_sign).rjust(len(piece))
        )
        position, used = clause.end, used + 1
        length += len(piece)
        check_text(length)
    pieces.append(text[position:])
    return "".join(pieces)


def _format_spaced(text: str, arguments: list[Value]) -> str:
    return format_string(text, arguments, times_sign="\u202f×\u202f")


def parse_clause(text: str, percent: int) -> Clause:
    """The clause that begins with the `%` at index `percent`. Raises CelError if it is not one."""
    start = percent + 1
    if start >= len(text):
        raise CelError("unexpected end of string")
    precision = None
    end = start
    if text[start] == ".":
        end = start + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        precision = _parse_precision(text[start + 1 : end], at_end=end >= len(text))
    verb = text[end]
    if verb not in _VERBS:
        # Upstream reads bytes, so a character beyond ASCII shows as the character of its first byte.
        raise CelError(
            f'could not parse formatting clause: unrecognized formatting clause "{chr(verb.encode(errors="replace")[0])}"'
        )
    return Clause(verb, precision, end + 1)


def _parse_precision(digits: str, at_end: bool) -> int:
    problem = "could not parse formatting clause: error while parsing precision: "
    if at_end:
        raise CelError(problem + "could not find end of precision specifier")
    conversion = f"{problem}error while converting precision to integer: strconv.Atoi: parsing {quote(digits)}: "
    if not digits:
        raise CelError(conversion + "invalid syntax")
    if len(digits.lstrip("0")) > 19 or int(digits) > INT_MAX:
        raise CelError(conversion + "value out of range")
    return int(digits)


def format_argument(clause: Clause, argument: Value) -> str:
    """One argument in the form of its clause. Raises CelError for a type that the clause is not defined for."""
    try:
        return _VERBS[clause.verb](argument, clause.precision)
    except _FormatError as reason:
        raise CelError(f"error during formatting: {reason}") from None


class _FormatError(Exception):
    """The reason why a clause cannot print an argument."""


def _refuse(wanted: str, argument: Value) -> _FormatError:
    return _FormatError(f"{wanted}, was given {runtime_type(argument).name}")


def _text(argument: Value, precision: int | None = None) -> str:
    kind = argument.__class__
    if kind is str:
        return str(argument)
    if argument is None:
        return "null"
    if kind is list:
        return f"[{', '.join(map(_literal, argument))}]"
    if kind is CelMap or isinstance(argument, dict):
        return _map(argument)
    if kind is float:
        return format_float(argument)
    scalar = _SCALARS.get(kind)
    if scalar is None:
        raise _refuse(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
            argument,
        )
    return scalar(argument)


def _decode(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise _FormatError('could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string') from None


_SCALARS: dict[type, Callable[..., str]] = {
    bool: lambda flag: "true" if flag else "false",
    int: str,
    UInt: lambda number: str(int(number)),
    bytes: _decode,
    Timestamp: lambda moment: times.timestamp_text(moment),
    Duration: lambda span: times.duration_text(span),
    Type: lambda kind: kind.name,
}


def _literal(argument: Value) -> str:
    """An element of a list or a value of a map, as a CEL literal."""
    kind = argument.__class__
    if kind is str:
        return quote(argument)
    if kind is bytes:
        return f"b{quote(_text(argument))}"
    if kind is float:
        return f"{argument:.6f}" if math.isfinite(argument) else f'"{format_float(argument)}"'
    if kind is Timestamp or kind is Duration:
        return f'{"timestamp" if kind is Timestamp else "duration"}("{_text(argument)}")'
    if argument is None or kind in _SCALARS or kind in (list, CelMap) or isinstance(argument, dict):
        return _text(argument)
    raise _FormatError(f"no formatting function for {runtime_type(argument).name}")


def _map(argument: Value) -> str:
    pairs = argument.entries.values() if argument.__class__ is CelMap else argument.items()
    texts = sorted(((_key(key), value) for key, value in pairs), key=itemgetter(0))
    return "{" + ", ".join(f"{key}:{_literal(value)}" for key, value in texts) + "}"


def _key(key: Value) -> str:
    if key.__class__ not in (str, bool, int, UInt):
        raise _FormatError(f"no formatting function for map key of type {runtime_type(key).name}")
    return _literal(key)


def _integer(wanted: str, base: str, argument: Value) -> str:
    if argument.__class__ is not int and argument.__class__ is not UInt:
        raise _refuse(wanted, argument)
    return format(int(argument), base)


def _decimal(argument: Value, precision: int | None) -> str:
    return _integer("decimal clause can only be used on integers", "d", argument)


def _octal(argument: Value, precision: int | None) -> str:
    return _integer("octal clause can only be used on integers", "o", argument)


def _binary(argument: Value, precision: int | None) -> str:
    if argument.__class__ is bool:
        return "1" if argument else "0"
    return _integer("only integers and bools can be formatted as binary", "b", argument)


def _hex(argument: Value, precision: int | None) -> str:
    if argument.__class__ is str:
        return str(argument.encode(errors="replace").hex())
    if argument.__class__ is bytes:
        return str(argument.hex())
    return _integer("only integers, byte buffers, and strings can be formatted as hex", "x", argument)


def _double(wanted: str, argument: Value) -> float:
    if argument.__class__ is float or (argument.__class__ is str and argument in _SPECIAL_TEXTS):
        return float(argument)
    raise _refuse(wanted, argument)


def _special(number: float) -> str | None:
    if math.isfinite(number):
        return None
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(argument: Value, precision: int | None) -> str:
    number = _double("fixed-point clause can only be used on doubles", argument)
    digits = PRECISION_DEFAULT if precision is None else min(precision, PRECISION_MAX)
    special = _special(number)
    if special is not None:
        return special
    text = f"{abs(number):,.{digits}f}"
    if digits >= FRACTION_DIGITS_KEPT:
        whole, _, fraction = text.partition(".")
        fraction = fraction.rstrip("0").ljust(digits % FRACTION_DIGITS_KEPT, "0")
        text = f"{whole}.{fraction}" if fraction else whole
    return f"-{text}" if number < 0 else text


def _scientific(argument: Value, precision: int | None) -> str:
    """A quirk of version 2: it takes the precision for the width, and always prints six digits."""
    number = _double("scientific clause can only be used on doubles", argument)
    width = PRECISION_DEFAULT if precision is None else min(precision, PRECISION_MAX)
    text = _special(number)
    if text is None:
        mantissa, _, exponent = f"{number if number else 0.0:.{PRECISION_DEFAULT}e}".partition("e")
        text = f"{mantissa}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"
    return text.rjust(width)


_VERBS: dict[str, Callable[[Value, int | None], str]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": lambda argument, precision: _hex(argument, precision).upper(),
    "o": _octal,
}

FORMAT = function("format", member("string_format", (STRING, list_of(DYN)), STRING, format_string), cost=scan())
FORMAT_SPACED = function(
    "format",
    member("string_format", (STRING, list_of(DYN)), STRING, _format_spaced),
    cost=scan(),
)
