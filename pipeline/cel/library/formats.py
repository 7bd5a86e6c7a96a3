"""Named formats: apiserver pkg/cel/library/format.go over apimachinery's and kube-openapi's validators."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ..functions import Function, Library
from ..types import STRING, Type, list_of, opaque, optional_of
from ..values import NONE, Opaque, Optional, Value
from . import url
from .costs import regex_cost, size
from .declare import function, member, plain

Check = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
LABEL_BYTES_MAX, SUBDOMAIN_BYTES_MAX = 63, 253

_LABEL_PROBLEM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_PROBLEM = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_PROBLEM = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_VALUE_PROBLEM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_EXAMPLES = ("MyName", "my.name", "123-abc")
_EMPTY = "must be non-empty"


def _described(problem: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{problem} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, bytes_max: int, unit: str = "characters") -> list[str]:
    """The limit is always in bytes, although the message may say characters."""
    return [f"must be no more than {bytes_max} {unit}"] if len(text.encode(errors="replace")) > bytes_max else []


def dns_label(text: str) -> list[str]:
    """The errors of a text as a DNS-1123 label."""
    problems = _too_long(text, LABEL_BYTES_MAX)
    if not re.fullmatch(_LABEL, text):
        is_subdomain = re.fullmatch(_SUBDOMAIN, text)
        problems.append("must not contain dots" if is_subdomain else _described(_LABEL_PROBLEM, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain(text: str, unit: str = "characters") -> list[str]:
    """The errors of a text as a DNS-1123 subdomain."""
    problems = _too_long(text, SUBDOMAIN_BYTES_MAX, unit)
    if not re.fullmatch(_SUBDOMAIN, text):
        problems.append(_described(_SUBDOMAIN_PROBLEM, _SUBDOMAIN, "example.com"))
    return problems


def dns_1035_label(text: str) -> list[str]:
    """The errors of a text as a DNS-1035 label."""
    problems = _too_long(text, LABEL_BYTES_MAX)
    if not re.fullmatch(_LABEL_1035, text):
        problems.append(_described(_LABEL_1035_PROBLEM, _LABEL_1035, "my-name", "abc-123"))
    return problems


@dataclass(frozen=True, slots=True)
class LabelRules:
    """The checks of label keys and values, whose wording differs between versions."""

    unit: str
    noun: str

    def qualified_name(self, text: str) -> list[str]:
        """The errors of a text as a label key: an optional DNS subdomain and a slash, then a name."""
        parts = text.split("/")
        if len(parts) > 2:
            suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            return [f"{self.noun} {_described(_KEY_PROBLEM, _KEY, *_KEY_EXAMPLES)}{suffix}"]
        problems: list[str] = []
        if len(parts) == 2:
            prefix = parts[0]
            problems += [f"prefix part {problem}" for problem in (dns_subdomain(prefix, self.unit) if prefix else [_EMPTY])]
        name = parts[-1]
        problems += [f"name part {problem}" for problem in (_too_long(name, LABEL_BYTES_MAX, self.unit) if name else [_EMPTY])]
        if not re.fullmatch(_KEY, name):
            problems.append(f"name part {_described(_KEY_PROBLEM, _KEY, *_KEY_EXAMPLES)}")
        return problems

    def label_value(self, text: str) -> list[str]:
        """The errors of a text as a label value."""
        problems = _too_long(text, LABEL_BYTES_MAX, self.unit)
        if not re.fullmatch(_VALUE, text):
            problems.append(_described(_VALUE_PROBLEM, _VALUE, "MyValue", "my_value", "12345"))
        return problems


RULES_1_34 = LabelRules("characters", "a qualified name")
RULES = LabelRules("bytes", "a valid label key")


def _prefix(check: Check) -> Check:
    """The same check for the prefix of a generated name, which may end in a dash."""

    def check_prefix(text: str) -> list[str]:
        # Upstream replaces the last two characters, not only the dash (apimachinery pkg/api/validation/generic.go).
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return check_prefix


def _uri(text: str) -> list[str]:
    try:
        url.parse_request_uri(text)
    except url.UrlError as problem:
        return [str(problem)]
    return []


def _test(problem: str, holds: Callable[[str], bool]) -> Check:
    return lambda text: [] if holds(text) else [problem]


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_date(text: str) -> bool:
    """Whether the text is a day of the calendar, year 0 included."""
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = map(int, match.groups())
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] + (month == 2 and is_leap)


def is_datetime(text: str) -> bool:
    """Whether the text is a date, a T and a time of day. As upstream, text after another T is ignored."""
    day, *rest = text.lower().split("t")
    match = _TIME.fullmatch(rest[0]) if rest and is_date(day) else None
    return bool(match) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59" if match else False


class Format(Opaque):
    """A named check of strings. The cost of `validate` uses `pattern_size` as the size of its regular expression."""

    __slots__ = ("check", "name", "pattern_size")
    cel_type: ClassVar[Type] = opaque("kubernetes.NamedFormat")

    def __init__(self, name: str, check: Check, pattern_size: int) -> None:
        self.name = name
        self.check = check
        self.pattern_size = pattern_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"format.{self.name}()"

    def validate(self, text: str) -> Optional:
        """An empty optional if `text` is of this format, else its errors."""
        problems = self.check(text)
        return Optional(problems) if problems else NONE


def formats(rules: LabelRules) -> dict[str, Format]:
    """All formats by name."""
    found = (
        Format("dns1123Label", dns_label, 30),
        Format("dns1123Subdomain", dns_subdomain, 60),
        Format("dns1035Label", dns_1035_label, 30),
        Format("qualifiedName", rules.qualified_name, 60),
        Format("dns1123LabelPrefix", _prefix(dns_label), 30),
        Format("dns1123SubdomainPrefix", _prefix(dns_subdomain), 60),
        Format("dns1035LabelPrefix", _prefix(dns_1035_label), 30),
        Format("labelValue", rules.label_value, 40),
        Format("uri", _uri, 1103),
        Format("uuid", _test("does not match the UUID format", lambda text: bool(_UUID.fullmatch(text))), 70),
        Format("byte", _test("invalid base64", lambda text: bool(_BASE64.fullmatch(text))), 84),
        Format("date", _test("invalid date", is_date), 71),
        Format("datetime", _test("invalid datetime", is_datetime), 71),
    )
    return {each.name: each for each in found}


def _validate_cost(arguments: tuple[Value, ...], result: Value) -> int:
    """The cost of running the format's regular expression over the text."""
    return regex_cost(size(arguments[1]), arguments[0].pattern_size) if isinstance(arguments[0], Format) else 1


def _functions(known: dict[str, Format]) -> tuple[Function, ...]:
    def named(name: str) -> Optional:
        return Optional(known[name]) if name in known else NONE

    def constant(found: Format) -> Function:
        return function(f"format.{found.name}", plain(f"format.{found.name}", (), Format, lambda: found))

    return (
        function("format.named", plain("format-named", (STRING,), optional_of(Format.cel_type), named)),
        *map(constant, known.values()),
        function(
            "validate",
            member("format-validate", (Format, STRING), optional_of(list_of(STRING)), Format.validate),
            cost=_validate_cost,
        ),
    )


LIBRARY_1_31 = Library("format, wording of 1.31", _functions(formats(RULES_1_34)), introduced=(1, 31), until=(1, 35))
LIBRARY = Library("format", _functions(formats(RULES)), introduced=(1, 31), since=(1, 35))
