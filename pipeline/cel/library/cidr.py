"""Networks in CIDR notation: apiserver pkg/cel/library/cidr.go over Go's net/netip. Bits after the prefix are allowed."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import ClassVar

from ..functions import Library
from ..types import BOOL, INT, STRING, Type, opaque
from ..values import CelError, Opaque, Value
from . import ip
from .costs import STRING_FACTOR, Cost, scan, size
from .declare import function, member, plain
from .gotext import quote
from .ip import IP, AddressError


class CIDR(Opaque):
    """An address and the number of its bits that name the network."""

    __slots__ = ("address", "prefix_length")
    cel_type: ClassVar[Type] = opaque("net.CIDR")

    def __init__(self, address: IP, prefix_length: int) -> None:
        self.address = address
        self.prefix_length = prefix_length

    @property
    def size(self) -> int:
        """The length of the prefix in bytes; costs depend on it."""
        return ceil(self.prefix_length / 8)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and self.address == other.address and self.prefix_length == other.prefix_length

    def __hash__(self) -> int:
        return hash((self.address, self.prefix_length))

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix_length}"

    def __repr__(self) -> str:
        return f"cidr({str(self)!r})"

    def contains(self, address: IP) -> bool:
        """Whether `address` is of the same family and begins with these bits."""
        shift = address.bits - self.prefix_length
        return address.bits == self.address.bits and address.number >> shift == self.address.number >> shift

    def contains_network(self, other: CIDR) -> bool:
        return self.prefix_length <= other.prefix_length and self.contains(other.address)

    def masked(self) -> CIDR:
        """The network with all bits after the prefix cleared."""
        shift = self.address.bits - self.prefix_length
        return CIDR(IP(self.address.number >> shift << shift, self.address.bits), self.prefix_length)


class PrefixError(Exception):
    """Why a text is not a network, in the words of net/netip."""


def parse_prefix(text: str) -> CIDR:
    """The network that `text` spells. Raises PrefixError."""

    def problem(reason: str) -> PrefixError:
        return PrefixError(f"netip.ParsePrefix({quote(text)}): {reason}")

    head, slash, length = text.rpartition("/")
    if not slash:
        raise problem("no '/'")
    try:
        address, zone = ip.parse_address(head)
    except AddressError as reason:
        raise problem(str(reason)) from None
    if zone:
        raise problem("IPv6 zones cannot be present in a prefix")
    if not length or length.strip("0123456789") or (length[0] == "0" and length != "0") or len(length) > 19:
        raise problem(f"bad bits after slash: {quote(length)}")
    if int(length) > address.bits:
        raise problem("prefix length out of range")
    return CIDR(address, int(length))


@lru_cache(maxsize=1024)
def parse(text: str) -> CIDR:
    """The network that `text` spells: no IPv4 in IPv6. Raises CelError. Networks never change, so they are cached."""
    # As upstream, the message has the prefix twice when Go's parser fails.
    prefix = "network address parse error during conversion from string: "
    try:
        network = parse_prefix(text)
    except PrefixError as problem:
        raise CelError(f"{prefix}{prefix}{problem}") from None
    if network.address.is_mapped:
        raise CelError(f"{prefix}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return network


def is_cidr(text: str) -> bool:
    try:
        parse(text)
    except CelError:
        return False
    return True


def _contains_ip_cost(arguments: tuple[Value, ...], result: Value) -> int:
    """Both addresses are compared up to the prefix."""
    octets = size(arguments[0])
    return ceil((octets + octets) * STRING_FACTOR)


def _contains_network_cost(arguments: tuple[Value, ...], result: Value) -> int:
    """As for an address, and the other network is masked first."""
    return _contains_ip_cost(arguments, result) + ceil(size(arguments[0]) * STRING_FACTOR) + 1


def _and_parsing(comparison: Cost) -> Cost:
    """The cost of a comparison whose other operand is a string that is parsed first."""
    return lambda arguments, result: comparison(arguments, result) + ceil(size(arguments[1]) * STRING_FACTOR)


_SCAN = scan()

LIBRARY = Library(
    "cidr",
    (
        function("cidr", plain("string_to_cidr", (STRING,), CIDR, parse), cost=_SCAN),
        function("isCIDR", plain("is_cidr", (STRING,), BOOL, is_cidr), cost=_SCAN),
        function(
            "containsIP",
            member("cidr_contains_ip_string", (CIDR, STRING), BOOL, lambda network, text: network.contains(ip.parse(text))),
            member("cidr_contains_ip_ip", (CIDR, IP), BOOL, CIDR.contains),
            cost=_contains_ip_cost,
        ),
        function(
            "containsCIDR",
            member("cidr_contains_cidr_string", (CIDR, STRING), BOOL, lambda network, text: network.contains_network(parse(text))),
            member("cidr_contains_cidr", (CIDR, CIDR), BOOL, CIDR.contains_network),
            cost=_contains_network_cost,
        ),
        function("ip", member("cidr_ip", (CIDR,), IP, lambda network: network.address)),
        function("prefixLength", member("cidr_prefix_length", (CIDR,), INT, lambda network: network.prefix_length)),
        function("masked", member("cidr_masked", (CIDR,), CIDR, CIDR.masked)),
        function("string", plain("cidr_to_string", (CIDR,), STRING, str)),
    ),
    introduced=(1, 30),
)
# Parsing is charged only if the checker knew that the other operand is a string.
COSTS: dict[str, Cost] = {
    "cidr_contains_ip_string": _and_parsing(_contains_ip_cost),
    "cidr_contains_cidr_string": _and_parsing(_contains_network_cost),
}
