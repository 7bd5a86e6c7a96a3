"""The formats of texts that the API server checks, by Kubernetes version.

Follows apiextensions-apiserver pkg/apiserver/validation/formats.go, kube-openapi pkg/validation/strfmt and govalidator. A format
that a version does not know is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from email.utils import parseaddr
from functools import cache
from typing import Any

import re2

from ...cel.evaluation.times import parse_duration
from ...cel.library.formats import is_date
from ...cel.library.url import UrlError, parse_request_uri
from ...cel.minors import DEFAULT
from ...cel.values import Duration

Version = tuple[int, int]
_NAMES_SINCE: Version = (1, 34)
_DURATION_TERM = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")
_UNITS = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_UNITS_NS = (1, 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9, 7 * 86400 * 10**9)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_OCTETS_V4, _BITS_V4, _BITS_V6 = 4, 32, 128


def _pattern(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date_time(text: str) -> bool:
    date, separator, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest.partition("t")[0])
    return bool(separator) and is_date(date) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def duration_of(text: str) -> Duration | None:
    """What Go's time.ParseDuration reads, or the sum of all numbers with a unit such as `3 days` in a text; None without any."""
    if (found := parse_duration(text)) is not None:
        return found
    terms = [
        int(number) * unit_ns
        for number, unit in _DURATION_TERM.findall(text)
        for variants, unit_ns in zip(_UNITS, _UNITS_NS, strict=True)
        if unit.lower() in variants or unit.lower().startswith(variants[-1])
    ]
    return Duration(sum(terms)) if terms and sum(terms) < 2**63 else None


def _is_duration(text: str) -> bool:
    return duration_of(text) is not None


def _sloppy_v4(text: str) -> bool:
    """An IPv4 address whose numbers may begin with zeros (utils/internal/third_party/forked/golang/net)."""
    parts = text.split(".")
    return len(parts) == _OCTETS_V4 and all(re.fullmatch("[0-9]+", part) and int(part) <= 255 for part in parts)


def _is_v6(text: str) -> bool:
    head, colon, tail = text.rpartition(":")
    if not colon or "%" in text:
        return False
    if "." in tail:
        if not _sloppy_v4(tail):
            return False
        text = f"{head}:0:0"
    halves = text.split("::")
    groups = [group for half in halves for group in (half.split(":") if half else [])]
    whole = len(groups) == 8 if len(halves) == 1 else len(halves) == 2 and len(groups) <= 7
    return whole and all(re.fullmatch("[0-9a-fA-F]{1,4}", group) for group in groups)


def _is_ipv4(text: str) -> bool:
    return "." in text and (_sloppy_v4(text) or _is_v6(text))


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not re.fullmatch("[0-9]+", bits):
        return False
    bits_max = _BITS_V4 if _sloppy_v4(address) else _BITS_V6 if _is_v6(address) else -1
    return int(bits) <= bits_max


def _is_mac(text: str) -> bool:
    for separator in (":", "-"):
        parts = text.split(separator)
        if len(parts) in (6, 8, 20):
            return all(re.fullmatch("[0-9a-fA-F]{2}", part) for part in parts)
    parts = text.split(".")
    return len(parts) in (3, 4, 10) and all(re.fullmatch("[0-9a-fA-F]{4}", part) for part in parts)


def _is_isbn10(text: str) -> bool:
    digits = re.sub("[\\s-]+", "", text)
    if re.fullmatch("[0-9]{9}X|[0-9]{10}", digits) is None:
        return False
    numbers = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(position * number for position, number in enumerate(numbers, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub("[\\s-]+", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum((3 if position % 2 else 1) * int(digit) for position, digit in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
    r"|6[27][0-9]{14})"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_uri(text: str) -> bool:
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True


def _is_email(text: str) -> bool:
    """An address as Go's net/mail reads it; the local part may be quoted, and a name may come before it."""
    address = parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and re.fullmatch(r'[^\s@<>"(),:;\\]+|"[^"]*"', local) is not None and ".." not in address


@cache
def _hostname() -> Any:
    """The pattern of govalidator's DNSName. Its sets of Unicode letters take 0.2 s to compile, and few schemas need it."""
    quiet = re2.Options()
    quiet.log_errors = False  # RE2 logs when it takes its slower way for a long pattern.
    return re2.compile(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
        r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
        options=quiet,
    )


def _is_hostname(text: str) -> bool:
    return (
        _hostname().search(text) is not None
        and len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
    )


_COLOR = r"(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HEX = "[0-9a-f]"
_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_v6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid3": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid4": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid5": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _pattern(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "byte": _pattern("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
}
_is_label = _pattern(_LABEL)
_NAME_FORMATS: dict[str, Callable[[str], bool]] = {
    "k8sshortname": lambda text: len(text) <= 63 and _is_label(text),
    "k8slongname": lambda text: len(text) <= 253 and all(map(_is_label, text.split("."))),
}


def format_check(name: str, version: Version = DEFAULT) -> Callable[[str], bool] | None:
    """The test of a text's format; None if this version of Kubernetes does not check the format. Dashes in names do not count."""
    plain = name.replace("-", "")
    return _FORMATS.get(plain) or (_NAME_FORMATS.get(plain) if version >= _NAMES_SINCE else None)


def effective_format(name: str, types: tuple[str, ...], version: Version) -> str:
    """The format of a node as requests meet it: empty where the API server ignores it."""
    if len(types) == 1 and types[0] in ("integer", "number"):
        return name if name in (("int32", "int64") if types[0] == "integer" else ("float", "double")) else ""
    if len(types) > 1 or types in (("array",), ("object",), ("boolean",)):
        return name if len(types) > 1 and format_check(name, version) is not None else ""
    return name if format_check(name, version) is not None else ""
