"""OpenID Connect: finds a token's user, as the issuer's published keys prove it.

The keys (RFC 7517) come from a file, from a URL, or from the URL in the issuer's discovery document. Only asymmetric algorithms are
accepted: with a symmetric one, every checker of tokens could also make them.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import structlog

from ingest.errors import HindcastError, InputError, LakeError

from .watched import WatchedFile

TOKEN_LENGTH_MAX = 16_384
# The allowed difference between the issuer's clock and ours.
LEEWAY_SECONDS = 30
_KEY_TYPES = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
_FRESH_SECONDS = 600.0
# An unknown key id may be a new key or an invented one; it makes us ask the issuer at most this often.
_ASK_AGAIN_SECONDS = 10.0
_FETCH_SECONDS_MAX = 5.0
_FETCH_BYTES_MAX = 1 << 20

_log = structlog.get_logger("hindcast.oidc")

Keys = Sequence[jwt.PyJWK]


class TokenRefusedError(HindcastError):
    """A token that proves nothing; the message says why, in words that are safe to tell its bearer."""


@dataclass(frozen=True, slots=True)
class OidcRules:
    """Which tokens are accepted. Empty `users` and `groups` accept everyone to whom the issuer gives a token of this audience."""

    issuer: str
    audience: str
    jwks: str = ""
    user_claim: str = "sub"
    groups_claim: str = "groups"
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise InputError("OIDC needs both an issuer and an audience", "give --oidc-issuer and --oidc-audience")
        if not self.jwks or _is_url(self.jwks):
            _require_safe(self.jwks or self.issuer)


class Oidc:
    """Checks tokens by some rules. Raises InputError when its key file cannot be read."""

    def __init__(self, rules: OidcRules) -> None:
        self._rules = rules
        self._keys = _key_source(rules)

    def user_of(self, token: str) -> tuple[str, bool]:
        """The user whom a token proves, and whether the rules let that user in. Blocks while keys are fetched.

        Raises TokenRefusedError, and KeysUnavailableError without keys to check it.
        """
        claims = self._claims(token)
        user = claims.get(self._rules.user_claim)
        if not isinstance(user, str) or not user:
            raise TokenRefusedError(f"the token has no text in its claim {self._rules.user_claim!r}")
        return user, self._is_let_in(user, claims)

    def _is_let_in(self, user: str, claims: Mapping[str, Any]) -> bool:
        rules = self._rules
        if not rules.users and not rules.groups:
            return True
        groups = claims.get(rules.groups_claim)
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        named = {entry for entry in listed if isinstance(entry, str)}
        return user in rules.users or not rules.groups.isdisjoint(named)

    def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > TOKEN_LENGTH_MAX:
            raise TokenRefusedError(f"the token is longer than {TOKEN_LENGTH_MAX} characters")
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in _KEY_TYPES:
                raise TokenRefusedError("the token's algorithm is not taken; sign with RS256, ES256 or EdDSA")
            key = self._key(header.get("kid"), algorithm)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise TokenRefusedError(_words(error)) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise TokenRefusedError("the token is malformed") from None
        return claims

    def _key(self, kid: object, algorithm: str) -> jwt.PyJWK:
        wanted = _KEY_TYPES[algorithm]
        for ask in (self._keys.now, self._keys.again):
            fitting = [key for key in ask() if key.key_type == wanted and (kid is None or key.key_id == kid)]
            if len(fitting) == 1:
                return fitting[0]
            if kid is None and fitting:
                raise TokenRefusedError("the token does not say which of the issuer's keys signed it")
        raise TokenRefusedError("the token is signed with a key that the issuer does not publish")


def _words(error: jwt.PyJWTError) -> str:
    for kind, words in (
        (jwt.ExpiredSignatureError, "the token has expired"),
        (jwt.ImmatureSignatureError, "the token is not valid yet"),
        (jwt.InvalidAudienceError, "the token is for another audience"),
        (jwt.InvalidIssuerError, "the token is of another issuer"),
        (jwt.InvalidSignatureError, "the token's signature is wrong"),
        (jwt.MissingRequiredClaimError, "the token lacks one of exp, iss and aud"),
    ):
        if isinstance(error, kind):
            return words
    return "the token is malformed"


class KeysUnavailableError(LakeError):
    """The issuer's keys are unavailable, so no token can be checked."""


class _FileKeys:
    """Keys of a file, which may be rotated."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, _read_keys)

    def now(self) -> Keys:
        return self._file.content

    def again(self) -> Keys:
        return ()


class _FetchedKeys:
    """Keys of a URL, kept for ten minutes; while the issuer cannot be reached, the old ones stay valid."""

    def __init__(self, rules: OidcRules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._keys: Keys = ()
        self._fetched = self._tried = float("-inf")

    def now(self) -> Keys:
        with self._lock:
            if time.monotonic() - self._fetched > _FRESH_SECONDS:
                self._fetch()
            if not self._keys:
                raise KeysUnavailableError(
                    "the OIDC issuer's keys could not be fetched", "see why in this server's log, or try again soon"
                )
            return self._keys

    def again(self) -> Keys:
        """The keys as published now, for a key id that was not among them."""
        with self._lock:
            self._fetch()
            return self._keys

    def _fetch(self) -> None:
        if time.monotonic() - self._tried < _ASK_AGAIN_SECONDS:
            return
        self._tried = time.monotonic()
        try:
            self._keys = _parse_keys(_fetch_json(self._rules.jwks or self._discover()), "the issuer's key set")
        except (InputError, OSError, HTTPException, ValueError) as error:
            _log.error("keys_not_fetched", issuer=self._rules.issuer, error=str(error))
        else:
            self._fetched = time.monotonic()

    def _discover(self) -> str:
        document = _fetch_json(self._rules.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if not isinstance(document, dict) or document.get("issuer") != self._rules.issuer:
            raise InputError(f"the discovery document of {self._rules.issuer} is of another issuer")
        url = document.get("jwks_uri")
        if not isinstance(url, str):
            raise InputError(f"the discovery document of {self._rules.issuer} names no jwks_uri")
        _require_safe(url)
        return url


def _key_source(rules: OidcRules) -> _FileKeys | _FetchedKeys:
    return _FetchedKeys(rules) if not rules.jwks or _is_url(rules.jwks) else _FileKeys(Path(rules.jwks))


def _read_keys(path: Path) -> Keys:
    try:
        return _parse_keys(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the key set cannot be read: {error}", "give a JWKS file") from error


def _parse_keys(document: object, source: str) -> Keys:
    """The public signing keys of a JWKS; symmetric keys, and unknown kinds, are left out."""
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InputError(f"{source}: holds no list `keys`", "give a JWKS (RFC 7517)")
    keys = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("kty") not in _KEY_TYPES.values() or entry.get("use", "sig") != "sig":
            continue
        try:
            keys.append(jwt.PyJWK.from_dict(entry))
        except jwt.PyJWTError as error:
            _log.warning("key_left_out", source=source, kid=str(entry.get("kid")), error=str(error))
    if not keys:
        raise InputError(f"{source}: holds no public key for signatures", "RSA, EC and OKP keys with `use: sig` are taken")
    return keys


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead from https to anywhere."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _fetch_json(url: str) -> object:
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    with opener.open(url, timeout=_FETCH_SECONDS_MAX) as response:
        body = response.read(_FETCH_BYTES_MAX + 1)
    if len(body) > _FETCH_BYTES_MAX:
        raise InputError(f"{url}: answers more than {_FETCH_BYTES_MAX} bytes")
    return json.loads(body)


def _is_url(text: str) -> bool:
    return urlsplit(text).scheme in ("http", "https")


def _require_safe(url: str) -> None:
    """Keys that come over plain HTTP prove nothing, except from this machine. Raises InputError."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname and _is_loopback(parts.hostname):
        return
    raise InputError(f"{url}: keys must come over https", "give an https URL, or a JWKS file with --oidc-jwks")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
