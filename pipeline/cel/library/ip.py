"""IP addresses: apiserver pkg/cel/library/ip.go over Go's net/netip, as of Go 1.24."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar, NoReturn

from ..functions import Library
from ..types import BOOL, INT, STRING, Type, opaque
from ..values import CelError, Opaque
from .costs import scan
from .declare import function, member, plain
from .gotext import quote

_DIGITS = "0123456789"
_HEX_DIGITS = "0123456789abcdefABCDEF"


class IP(Opaque):
    """An address: its bits as a number, and the number of bits (32 or 128)."""

    __slots__ = ("bits", "number")
    cel_type: ClassVar[Type] = opaque("net.IP")

    def __init__(self, number: int, bits: int) -> None:
        self.number = number
        self.bits = bits

    @property
    def size(self) -> int:
        """The size in bytes; costs depend on it."""
        return self.bits // 8

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.number == other.number and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((self.number, self.bits))

    def __str__(self) -> str:
        if self.is_mapped:
            return f"::ffff:{IPv4Address(self.number & 0xFFFFFFFF)}"
        return str(IPv4Address(self.number) if self.bits == 32 else IPv6Address(self.number))

    def __repr__(self) -> str:
        return f"ip({str(self)!r})"

    @property
    def is_mapped(self) -> bool:
        """Whether this is an IPv4 address in IPv6 form."""
        return self.bits == 128 and self.number >> 32 == 0xFFFF

    @property
    def is_unspecified(self) -> bool:
        return self.number == 0

    @property
    def is_loopback(self) -> bool:
        return self.number >> 24 == 127 if self.bits == 32 else self.number == 1

    @property
    def is_multicast(self) -> bool:
        return self.number >> 28 == 0xE if self.bits == 32 else self.number >> 120 == 0xFF

    @property
    def is_link_local_multicast(self) -> bool:
        return self.number >> 8 == 0xE00000 if self.bits == 32 else self.number >> 112 & 0xFF0F == 0xFF02

    @property
    def is_link_local_unicast(self) -> bool:
        return self.number >> 16 == 0xA9FE if self.bits == 32 else self.number >> 118 == 0x3FA

    @property
    def is_global_unicast(self) -> bool:
        """Neither unspecified, loopback, multicast nor link-local; private addresses count as global."""
        is_broadcast = self.bits == 32 and self.number == 0xFFFFFFFF
        return not (is_broadcast or self.is_unspecified or self.is_loopback or self.is_multicast or self.is_link_local_unicast)


class AddressError(Exception):
    """Why a text is not an address, in the words of net/netip."""


def parse_address(text: str) -> tuple[IP, str]:
    """The address that `text` spells and its zone, '' without a zone. Raises AddressError."""
    kind = next((char for char in text if char in ".:%"), None)
    if kind == ".":
        return IP(_parse_v4(text, text), 32), ""
    if kind == ":":
        return _parse_v6(text)
    return _fail(text, "missing IPv6 address" if kind else "unable to parse IP")


def _fail(text: str, problem: str, at: str = "") -> NoReturn:
    raise AddressError(f"ParseAddr({quote(text)}): {problem}" + (f" (at {quote(at)})" if at else ""))


def _parse_v4(whole: str, text: str) -> int:
    """The number of a dotted address. `whole` is the text that an error names."""
    number, octet, octets, digits = 0, 0, 0, 0
    for index, char in enumerate(text):
        if char in _DIGITS:
            if digits == 1 and octet == 0:
                _fail(whole, "IPv4 field has octet with leading zero")
            octet = octet * 10 + int(char)
            digits += 1
            if octet > 255:
                _fail(whole, "IPv4 field has value >255")
        elif char == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                _fail(whole, "IPv4 field must have at least one digit", text[index:])
            if octets == 3:
                _fail(whole, "IPv4 address too long")
            number, octet, octets, digits = number << 8 | octet, 0, octets + 1, 0
        else:
            _fail(whole, "unexpected character", text[index:])
    if octets < 3:
        _fail(whole, "IPv4 address too short")
    return number << 8 | octet


def _parse_v6(whole: str) -> tuple[IP, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        _fail(whole, "zone must be a non-empty string")
    octets = bytearray()
    gap = -1  # The index of :: among the octets.
    if text.startswith("::"):
        gap, text = 0, text[2:]
    while (text and len(octets) < 16) or (not octets and gap < 0):
        field = _hex_field(whole, text)
        if text[len(field) : len(field) + 1] == ".":
            octets += _embedded_v4(whole, text, len(octets), gap).to_bytes(4, "big")
            text = ""
            break
        octets += int(field, 16).to_bytes(2, "big")
        text = text[len(field) :]
        if not text:
            break
        text, is_gap = _after_colon(whole, text, gap)
        if is_gap:
            gap = len(octets)
    if text:
        _fail(whole, "trailing garbage after address", text)
    if len(octets) < 16 and gap < 0:
        _fail(whole, "address string too short")
    if len(octets) == 16 and gap >= 0:
        _fail(whole, "the :: must expand to at least one field of zeros")
    octets[max(gap, 0) : max(gap, 0)] = bytes(16 - len(octets))
    return IP(int.from_bytes(octets, "big"), 128), zone


def _hex_field(whole: str, text: str) -> str:
    """The hexadecimal digits at the beginning of `text`."""
    length = 0
    while length < len(text) and text[length] in _HEX_DIGITS:
        if length == 4:
            _fail(whole, "each group must have 4 or less digits", text)
        length += 1
    if not length:
        _fail(whole, "each colon-separated field must have at least one digit", text)
    return text[:length]


def _embedded_v4(whole: str, text: str, octets: int, gap: int) -> int:
    if gap < 0 and octets != 12:
        _fail(whole, "embedded IPv4 address must replace the final 2 fields of the address", text)
    if octets > 12:
        _fail(whole, "too many hex fields to fit an embedded IPv4 at the end of the address", text)
    return _parse_v4(whole, text)


def _after_colon(whole: str, text: str, gap: int) -> tuple[str, bool]:
    """The text after a field and its colon, and whether the colon is doubled."""
    if text[0] != ":":
        _fail(whole, "unexpected character, want colon", text)
    if len(text) == 1:
        _fail(whole, "colon must be followed by more characters", text)
    if text[1] != ":":
        return text[1:], False
    if gap >= 0:
        _fail(whole, "multiple :: in address", text[1:])
    return text[2:], True


@lru_cache(maxsize=1024)
def parse(text: str) -> IP:
    """The address that `text` spells: no zone, no IPv4 in IPv6. Raises CelError. Addresses never change, so they are cached."""
    try:
        address, zone = parse_address(text)
    except AddressError as problem:
        raise CelError(f"IP Address {quote(text)} parse error during conversion from string: {problem}") from None
    if zone:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    if address.is_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def is_ip(text: str) -> bool:
    try:
        parse(text)
    except CelError:
        return False
    return True


_SCAN = scan()

LIBRARY = Library(
    "ip",
    (
        function("ip", plain("string_to_ip", (STRING,), IP, parse), cost=_SCAN),
        function("isIP", plain("is_ip", (STRING,), BOOL, is_ip), cost=_SCAN),
        function("ip.isCanonical", plain("ip_is_canonical", (STRING,), BOOL, lambda text: str(parse(text)) == text), cost=scan(2)),
        function("family", member("ip_family", (IP,), INT, lambda address: 4 if address.bits == 32 else 6)),
        function("isUnspecified", member("ip_is_unspecified", (IP,), BOOL, lambda address: address.is_unspecified)),
        function("isLoopback", member("ip_is_loopback", (IP,), BOOL, lambda address: address.is_loopback)),
        function(
            "isLinkLocalMulticast",
            member("ip_is_link_local_multicast", (IP,), BOOL, lambda address: address.is_link_local_multicast),
        ),
        function(
            "isLinkLocalUnicast", member("ip_is_link_local_unicast", (IP,), BOOL, lambda address: address.is_link_local_unicast)
        ),
        function("isGlobalUnicast", member("ip_is_global_unicast", (IP,), BOOL, lambda address: address.is_global_unicast)),
        function("string", plain("ip_to_string", (IP,), STRING, str)),
    ),
    introduced=(1, 30),
)
