"""URLs: apiserver pkg/cel/library/urls.go over Go's net/url, as of Go 1.25.

Go works on bytes, and so does this parser; bytes that are not UTF-8 after unescaping become U+FFFD. Servers built with Go 1.26 also
reject a second colon in the host of http and https URLs; this parser does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from ..functions import Library
from ..types import BOOL, STRING, Type, list_of, map_of, opaque
from ..values import CelError, Opaque
from . import ip
from .costs import scan
from .declare import function, member, plain
from .gotext import quote

_ALPHANUMERIC = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_UNRESERVED = _ALPHANUMERIC | frozenset(b"-_.~")
# The characters that stay unescaped in each part of a URL (net/url shouldEscape).
_SAFE = {
    "path": _UNRESERVED | frozenset(b"$&+,/:;=@"),
    "host": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
    "user": _UNRESERVED | frozenset(b"$&+,;="),
    "query": _UNRESERVED,
    "fragment": _UNRESERVED | frozenset(b"$&+,/:;=?@!()*"),
}
# Encoded text that is kept as found, although escaping would write it differently (validEncoded).
_LEFT_ALONE = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO = _UNRESERVED | frozenset(b":!$&'()*+,;=%@")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class UrlError(Exception):
    """Why a text is not a URL, in the words of net/url."""


class URL(Opaque):
    """A URL in parts. `path` and `fragment` are kept both unescaped and in their original spelling; `user` is None without an `@`.

    `omit_host` distinguishes `file:/x` from `file:///x`, `force_query` distinguishes `/x?` from `/x`.
    """

    __slots__ = (
        "force_query",
        "fragment",
        "fragment_raw",
        "host",
        "omit_host",
        "opaque",
        "path",
        "path_raw",
        "query",
        "scheme",
        "user",
    )
    cel_type: ClassVar[Type] = opaque("kubernetes.URL")
    is_pointer: ClassVar[bool] = True

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.path_raw = self.query = self.fragment = self.fragment_raw = b""
        self.user: bytes | None = None
        self.force_query = False
        self.omit_host = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        return f"url({_text(bytes(self))!r})"

    @property
    def escaped_path(self) -> bytes:
        """The path in its original spelling if that spelling is valid, else escaped again."""
        return b"*" if self.path == b"*" else _respelled(self.path, self.path_raw, "path")

    @property
    def host_and_port(self) -> tuple[bytes, bytes]:
        host, port = self.host, b""
        colon = host.rfind(b":")
        if colon >= 0 and _DIGITS.issuperset(host[colon + 1 :]):
            host, port = host[:colon], host[colon + 1 :]
        if host.startswith(b"[") and host.endswith(b"]"):
            host = host[1:-1]
        return host, port

    def query_values(self) -> dict[str, list[str]]:
        """The parameters of the query, without malformed ones and those with a semicolon."""
        values: dict[str, list[str]] = {}
        for setting in self.query.split(b"&"):
            if not setting or b";" in setting:
                continue
            key, _, value = setting.partition(b"=")
            try:
                name, text = _unescape(key, "query"), _unescape(value, "query")
            except UrlError:
                continue
            values.setdefault(_text(name), []).append(_text(text))
        return values

    def __bytes__(self) -> bytes:
        """The URL put together again (net/url String)."""
        parts = [self.scheme + b":"] if self.scheme else []
        if self.opaque:
            parts.append(self.opaque)
        else:
            path = self.escaped_path
            has_authority = bool(self.host) or self.user is not None
            if has_authority or (self.scheme and self.path and not self.omit_host):
                parts.append(b"//")
            if self.user is not None:
                parts.append(self.user + b"@")
            parts.append(_escape(self.host, "host"))
            if path and not path.startswith(b"/") and self.host:
                parts.append(b"/")
            parts.append(path)
        if self.force_query or self.query:
            parts.append(b"?" + self.query)
        if self.fragment:
            parts.append(b"#" + _respelled(self.fragment, self.fragment_raw, "fragment"))
        return b"".join(parts)


def _text(octets: bytes) -> str:
    return octets.decode(errors="replace")


def _respelled(plain_bytes: bytes, raw: bytes, part: str) -> bytes:
    if raw and (_SAFE[part] | _LEFT_ALONE).issuperset(raw):
        return raw
    return _escape(plain_bytes, part)


def _escape(octets: bytes, part: str) -> bytes:
    safe = _SAFE[part]
    if safe.issuperset(octets):
        return octets
    return b"".join([bytes((octet,)) if octet in safe else b"%%%02X" % octet for octet in octets])


def _unescape(octets: bytes, part: str) -> bytes:
    """`octets` with its escapes resolved. Raises UrlError for a bad escape, and for a character that a host may not contain."""
    result = bytearray()
    position = 0
    while position < len(octets):
        octet = octets[position]
        if octet == 0x25:
            result.append(_unescape_one(octets[position : position + 3], part))
            position += 3
            continue
        if part in ("host", "zone") and octet < 0x80 and octet not in _SAFE["host"]:
            raise UrlError(f"invalid character {quote(chr(octet))} in host name")
        result.append(0x20 if octet == 0x2B and part == "query" else octet)
        position += 1
    return bytes(result)


def _unescape_one(escape: bytes, part: str) -> int:
    problem = UrlError(f"invalid URL escape {quote(_text(escape))}")
    if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
        raise problem
    octet = int(escape[1:], 16)
    # A host may escape only characters beyond ASCII; a zone may also escape spaces and characters that need no escape.
    if part == "host" and octet < 0x80 and escape != b"%25":
        raise problem
    if part == "zone" and escape != b"%25" and octet != 0x20 and octet not in _SAFE["host"]:
        raise problem
    return octet


def parse_request_uri(text: str) -> URL:
    """An absolute URL or an absolute path, in which `#` has no special meaning. Raises UrlError."""
    try:
        return _parse(text.encode(errors="replace"), via_request=True)
    except UrlError as problem:
        raise UrlError(f"parse {quote(text)}: {problem}") from None


def parse_reference(text: str) -> URL:
    """Any URL, with its fragment. Raises UrlError."""
    head, _, fragment = text.partition("#")
    try:
        url = _parse(head.encode(errors="replace"), via_request=False)
    except UrlError as problem:
        raise UrlError(f"parse {quote(head)}: {problem}") from None
    try:
        url.fragment_raw = fragment.encode(errors="replace")
        url.fragment = _unescape(url.fragment_raw, "fragment")
    except UrlError as problem:
        raise UrlError(f"parse {quote(text)}: {problem}") from None
    return url


def _parse(raw: bytes, via_request: bool) -> URL:
    if any(octet < 0x20 or octet == 0x7F for octet in raw):
        raise UrlError("net/url: invalid control character in URL")
    if not raw and via_request:
        raise UrlError("empty url")
    url = URL()
    if raw == b"*":
        url.path = raw
        return url
    url.scheme, rest = _split_scheme(raw)
    if rest.endswith(b"?") and rest.count(b"?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.query = rest.partition(b"?")
    if not rest.startswith(b"/"):
        if url.scheme:
            url.opaque = rest
            return url
        if via_request:
            raise UrlError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    if rest.startswith(b"//") and (url.scheme or (not via_request and not rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        url.user, url.host = _parse_authority(authority)
    else:
        url.omit_host = bool(url.scheme)
    url.path_raw = rest
    url.path = _unescape(rest, "path")
    return url


def _split_scheme(raw: bytes) -> tuple[bytes, bytes]:
    """The scheme in lower case, empty without a scheme, and the text after it."""
    for index, octet in enumerate(raw):
        if octet in _LETTERS:
            continue
        if octet == 0x3A:
            if index == 0:
                raise UrlError("missing protocol scheme")
            return raw[:index].lower(), raw[index + 1 :]
        if index == 0 or (octet not in _DIGITS and octet not in b"+-."):
            break
    return b"", raw


def _parse_authority(authority: bytes) -> tuple[bytes | None, bytes]:
    """Userinfo, escaped as the URL would print it, and host."""
    userinfo, at, host = authority.rpartition(b"@")
    parsed_host = _parse_host(host)
    if not at:
        return None, parsed_host
    if not _USERINFO.issuperset(userinfo):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(b":")
    return b"".join((_escape(_unescape(name, "user"), "user"), colon, _escape(_unescape(password, "user"), "user"))), parsed_host


def _parse_host(host: bytes) -> bytes:
    opening = host.rfind(b"[")
    if opening < 0:
        colon = host.rfind(b":")
        if colon >= 0:
            _check_port(host[colon:])
        return _unescape(host, "host")
    closing = host.rfind(b"]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    _check_port(host[closing + 1 :])
    name, percent, zone = host[opening + 1 : closing].partition(b"%25")
    literal = _unescape(name, "host") + _unescape(percent + zone, "zone")
    try:
        address, _ = ip.parse_address(_text(literal))
    except ip.AddressError as problem:
        raise UrlError(f"invalid host: {problem}") from None
    if address.bits == 32:
        raise UrlError("invalid IP-literal")
    return b"[" + literal + b"]" + host[closing + 1 :]


def _check_port(port: bytes) -> None:
    if port and (port[0] != 0x3A or not _DIGITS.issuperset(port[1:])):
        raise UrlError(f"invalid port {quote(_text(port))} after host")


@lru_cache(maxsize=1024)
def parse(text: str) -> URL:
    """The URL that `text` spells, a request URI read again for its fragment. Raises CelError. Cached: URLs never change."""
    try:
        parse_request_uri(text)
        return parse_reference(text)
    except UrlError as problem:
        raise CelError(f"URL parse error during conversion from string: {problem}") from None


def is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True


LIBRARY = Library(
    "urls",
    (
        function("url", plain("string_to_url", (STRING,), URL, parse), cost=scan()),
        function("isURL", plain("is_url_string", (STRING,), BOOL, is_url)),
        function("getScheme", member("url_get_scheme", (URL,), STRING, lambda url: _text(url.scheme))),
        function("getHost", member("url_get_host", (URL,), STRING, lambda url: _text(url.host))),
        function("getHostname", member("url_get_hostname", (URL,), STRING, lambda url: _text(url.host_and_port[0]))),
        function("getPort", member("url_get_port", (URL,), STRING, lambda url: _text(url.host_and_port[1]))),
        function("getEscapedPath", member("url_get_escaped_path", (URL,), STRING, lambda url: _text(url.escaped_path))),
        function("getQuery", member("url_get_query", (URL,), map_of(STRING, list_of(STRING)), URL.query_values)),
    ),
)
