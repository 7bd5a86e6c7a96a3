"""What holds for every input of the function libraries."""

from __future__ import annotations

import ipaddress
import math
import random
from collections.abc import Callable
from fractions import Fraction
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipeline.cel import types
from pipeline.cel.costs.sizes import TooLargeError
from pipeline.cel.functions import Function, Overload
from pipeline.cel.library import LIBRARIES, cidr, ip, quantity, semver, url
from pipeline.cel.library.authorizer import Answer, Authorizer, GroupCheck, PathCheck, request_resource
from pipeline.cel.library.formats import RULES, formats
from pipeline.cel.library.gotext import quote
from pipeline.cel.values import INT_MAX, INT_MIN, NONE, CelError, Duration, Optional, Timestamp, UInt, Unknown, Value
from tests.drawing import MANY

ALLOWED = Authorizer(lambda attributes: Answer(True))
FUNCTIONS = [function for library in LIBRARIES for function in library.functions]

# What each kind of text looks like, so that parsers get past their first character.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="0123456789.:abcdefABCDEF/%[]-+eEnumkKMGTPi ", max_size=30),
    st.sampled_from(
        ["1.5Gi", "10.0.0.1/8", "fe80::1", "1.2.3-rc.1+b", "https://u:p@h:80/p?q=1#f", "%s %d %.3f %e", "a-b.c/d", "(a|b)*"]
    ),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INT_MIN, INT_MAX),
    st.integers(0, 2**64 - 1).map(UInt),
    st.floats(),
    TEXTS,
    st.binary(max_size=10),
    st.integers(INT_MIN, INT_MAX).map(Duration),
    st.integers(-62135596800, 253402300799).map(lambda seconds: Timestamp(seconds * 10**9)),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3))
BY_TYPE: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.booleans(),
    "int": st.integers(-3, 30) | st.integers(INT_MIN, INT_MAX),
    "uint": st.integers(0, 2**64 - 1).map(UInt),
    "double": st.floats(),
    "string": TEXTS,
    "bytes": st.binary(max_size=10),
    types.DURATION.name: st.integers(INT_MIN, INT_MAX).map(Duration),
    types.TIMESTAMP.name: st.integers(-62135596800, 253402300799).map(lambda seconds: Timestamp(seconds * 10**9)),
    "optional_type": st.just(NONE) | VALUES.map(Optional),
    "dyn": VALUES,
    "kubernetes.Quantity": st.sampled_from(["1", "1.5Gi", "-2k", "1e2147483647", "100m", "9223372036854775807"]).map(
        quantity.parse
    ),
    "kubernetes.URL": st.sampled_from(["https://u:p@h:80/p%2f?q=1;&a=%zz#f", "/x", "*", "mailto:x", "http://[::1]/"]).map(
        url.parse
    ),
    "kubernetes.Semver": st.sampled_from(["1.2.3", "1.2.3-rc.1"]).map(semver.parse),
    "kubernetes.NamedFormat": st.sampled_from(list(formats(RULES).values())),
    "net.IP": st.sampled_from(["10.0.0.1", "::1", "ff02::1"]).map(ip.parse),
    "net.CIDR": st.sampled_from(["10.0.0.1/8", "::/0", "fe80::/64"]).map(cidr.parse),
    "kubernetes.authorization.Authorizer": st.just(ALLOWED),
    "kubernetes.authorization.PathCheck": st.just(PathCheck(ALLOWED, "/x")),
    "kubernetes.authorization.GroupCheck": st.just(GroupCheck(ALLOWED, "apps")),
    "kubernetes.authorization.ResourceCheck": st.just(request_resource(ALLOWED, "", "pods")),
    "kubernetes.authorization.Decision": st.just(ALLOWED).map(
        lambda asked: asked.check(request_resource(asked, "", "pods").attributes)
    ),
}


def values_of(kind: types.Type) -> st.SearchStrategy[Value]:
    if kind.is_parameter:
        return VALUES
    if kind.name == "list":
        return st.lists(values_of(kind.parameters[0]), max_size=5)
    return BY_TYPE[kind.name]


def calls() -> st.SearchStrategy[tuple[Function, tuple[Value, ...]]]:
    """A function with arguments that fit one of its overloads, or with arguments of any type."""

    def of(pair: tuple[Function, Overload]) -> st.SearchStrategy[tuple[Function, tuple[Value, ...]]]:
        function, overload = pair
        fitting = st.tuples(*(values_of(kind) for kind in overload.arguments))
        anything = st.tuples(*(VALUES for _ in overload.arguments))
        return st.tuples(st.just(function), fitting | anything)

    return st.sampled_from([(function, overload) for function in FUNCTIONS for overload in function.overloads]).flatmap(of)


@settings(max_examples=MANY, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(calls())
def test_a_call_gives_a_value_or_a_cel_error_and_costs_something_known(call: tuple[Function, tuple[Value, ...]]) -> None:
    function, arguments = call
    assume(not (function.name == "lists.range" and isinstance(arguments[0], int) and 10_000 < arguments[0] <= 10_000_000))
    try:
        result = function.call(*arguments)
    except TooLargeError:
        return  # the value is not built: an evaluation charges its size, and ends
    except CelError as error:
        result = error
    assert not isinstance(result, Unknown)
    if function.cost is not None and not isinstance(result, CelError):
        assert isinstance(function.cost(arguments, result), int)


SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "m": Fraction(1, 1000), "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "e3": 1000, "E2": 100}
SPELLINGS = st.tuples(
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**20).map(str),
    st.just("") | st.integers(0, 999).map(lambda digits: f".{digits}"),
    st.sampled_from(sorted(SUFFIXES)),
)


def spelled(parts: tuple[str, str, str, str]) -> tuple[str, Fraction]:
    """A quantity's text and its exact value, rounded up to nano and capped as upstream does it."""
    sign, whole, fraction, suffix = parts
    value = Fraction(whole + fraction) * SUFFIXES[suffix]
    nano = Fraction(math.ceil(value * 10**9), 10**9)
    is_capped = suffix.endswith("i") and nano > INT_MAX
    value = Fraction(INT_MAX) if is_capped else nano
    return sign + whole + fraction + suffix, -value if sign == "-" else value


def exact(found: quantity.Quantity) -> Fraction:
    return found.number.digits * Fraction(10) ** found.number.exponent


@given(SPELLINGS, SPELLINGS)
def test_quantities_compare_and_add_as_fractions_do(left: tuple[str, str, str, str], right: tuple[str, str, str, str]) -> None:
    (left_text, left_value), (right_text, right_value) = spelled(left), spelled(right)
    one, two = quantity.parse(left_text), quantity.parse(right_text)
    assert exact(one) == left_value
    assert quantity.compare(one, two) == (left_value > right_value) - (left_value < right_value)
    assert (one == two) == (left_value == right_value)
    assert one != two or hash(one) == hash(two)
    assert exact(quantity.add(one, two, 1)) == left_value + right_value
    assert exact(quantity.add(one, two, -1)) == left_value - right_value


@given(SPELLINGS)
def test_the_canonical_text_of_a_quantity_is_the_same_quantity(parts: tuple[str, str, str, str]) -> None:
    text, value = spelled(parts)
    # Beyond E the server has no suffix and leaves it out (apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes).
    assume(abs(value) < 10**21)
    found = quantity.parse(text)
    again = quantity.parse(str(found))
    assert again == found
    assert str(again) == str(found)


@given(st.ip_addresses())
def test_addresses_are_read_as_pythons_are(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    spellings = {str(address), address.exploded, address.compressed.upper()}
    for text in spellings:
        found, zone = ip.parse_address(text)
        assert (found.number, found.bits, zone) == (int(address), address.max_prefixlen, "")
    assert ip.parse_address(str(found))[0] == found
    assert found.is_loopback == address.is_loopback or found.is_mapped
    assert found.is_multicast == address.is_multicast or found.is_mapped
    assert found.is_unspecified == address.is_unspecified


@given(st.ip_addresses(), st.integers(0, 128), st.ip_addresses())
def test_networks_contain_what_pythons_contain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, length: int, other: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> None:
    length = min(length, address.max_prefixlen)
    network = cidr.parse_prefix(f"{address}/{length}")
    reference = ipaddress.ip_network(f"{address}/{length}", strict=False)
    inside = ip.parse_address(str(reference[random.Random(0).randrange(min(reference.num_addresses, 2**60))]))[0]
    assert network.contains(inside)
    assert network.contains(ip.parse_address(str(other))[0]) == (other in reference)
    assert network.masked().address.number == int(reference.network_address)


@given(st.text(max_size=40))
def test_a_path_survives_escaping(path: str) -> None:
    """Whatever the path, its escaped form is a URL whose path is the same, and escaping it again changes nothing."""
    url_ = url.URL()
    url_.scheme, url_.host, url_.path = b"https", b"example.com", b"/" + path.encode()
    text = bytes(url_).decode()
    again = url.parse(text)
    assert again.path == url_.path
    assert bytes(again).decode() == text
    assert unquote_to_bytes(again.escaped_path) == url_.path


@given(TEXTS)
def test_a_url_that_is_printed_reads_the_same(text: str) -> None:
    try:
        found = url.parse(text)
    except CelError:
        assert url.is_url(text) is False or "#" in text
        return
    again = url.parse_reference(bytes(found).decode())
    assert (again.scheme, again.host, again.path, again.query) == (found.scheme, found.host, found.path, found.query)


TRIPLES = st.tuples(*[st.integers(0, 2**64 - 1)] * 3)


@given(TRIPLES, TRIPLES)
def test_versions_compare_by_their_numbers(left: tuple[int, int, int], right: tuple[int, int, int]) -> None:
    one, two = (semver.parse(".".join(map(str, each))) for each in (left, right))
    assert semver.compare(one, two) == (left > right) - (left < right)


@pytest.mark.parametrize("check", [ip.is_ip, cidr.is_cidr, quantity.is_quantity, semver.is_semver, url.is_url])
@given(text=TEXTS)
def test_the_is_functions_never_fail(check: Callable[[str], bool], text: str) -> None:
    assert check(text) in (True, False)


@given(st.text(max_size=20))
def test_quoted_text_reads_back(text: str) -> None:
    quoted = quote(text)
    assert quoted.startswith('"')
    assert quoted.isprintable()
