"""Who may read the lake over HTTP: bearers of a token from a file, or of an OIDC token. Senders' identities give no right to read.

# NAME    WHAT
alice     token:4f0c...       what she sends as `Authorization: Bearer 4f0c...`
grafana   sha256:9b1d...      the same without keeping the token itself: its SHA-256 in hexadecimal
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import HindcastError, InputError

from ..settings import Settings
from .oidc import Oidc, OidcRules, TokenRefusedError
from .watched import WatchedFile

TOKEN_LENGTH_MIN = 16
_NAME = re.compile(r"[A-Za-z0-9@._-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reader:
    """A caller who may read; `how` is `token`, `oidc`, or `open` if the server needs no proof."""

    name: str
    how: str


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """One token; only its hash is kept in memory."""

    name: str
    token_hash: bytes


class NotAReaderError(HindcastError):
    """The caller may not read: `status` is 401 without a proof, 403 for a proven caller without the right."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


def read_tokens(path: Path) -> tuple[ReaderToken, ...]:
    """The tokens of a file; empty if it holds only comments. Raises InputError with file and line for an invalid line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the readers' tokens cannot be read: {error}") from error
    tokens = []
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        name, what = (*text.split(None, 1), "")[:2]
        kind, _, proof = what.strip().partition(":")
        if not _NAME.fullmatch(name) or kind not in ("token", "sha256") or (kind == "sha256" and not _DIGEST.fullmatch(proof)):
            # The line itself may be a token, so it is not repeated here.
            raise InputError(f"{path}:{number}: this is not a reader", "write `NAME token:TOKEN` or `NAME sha256:HEX`")
        if kind == "token" and len(proof) < TOKEN_LENGTH_MIN:
            raise InputError(
                f"{path}:{number}: the token is shorter than {TOKEN_LENGTH_MIN} characters", "make one with `openssl rand -hex 32`"
            )
        tokens.append(ReaderToken(name, bytes.fromhex(proof) if kind == "sha256" else _hash(proof)))
    return tuple(tokens)


class Readers:
    """Finds out who sends a request. Without tokens and OIDC, every caller may read.

    Operators rotate tokens by changing the file. An empty file refuses every caller; with a damaged or missing file the old tokens
    stay. Raises InputError when the file cannot be read at first, or holds no token.
    """

    def __init__(self, tokens: Path | None = None, oidc: Oidc | None = None) -> None:
        self._tokens = WatchedFile(tokens, read_tokens) if tokens is not None else None
        self._oidc = oidc
        if self._tokens is not None and not self._tokens.content:
            raise InputError(f"{tokens}: holds no token, so no reader could read", "write `NAME token:TOKEN` lines")

    @property
    def is_open(self) -> bool:
        """Whether callers need no proof."""
        return self._tokens is None and self._oidc is None

    def reader_of(self, authorization: str | None) -> Reader:
        """The sender of this Authorization header. Raises NotAReaderError. May block while keys are fetched.

        Basic credentials are accepted, too, with the token as the password: browsers can ask users for these.
        """
        if self.is_open:
            return Reader("anyone", "open")
        token = _token_of(authorization)
        if token is None:
            raise NotAReaderError(401, "no token was shown", "send `Authorization: Bearer TOKEN`")
        named = self._named(token)
        if named is not None:
            return Reader(named, "token")
        if self._oidc is None or token.count(".") != 2:
            raise NotAReaderError(401, "this token is not known", "ask whoever runs this server for one")
        try:
            user, is_let_in = self._oidc.user_of(token)
        except TokenRefusedError as error:
            raise NotAReaderError(401, error.message) from None
        if not is_let_in:
            raise NotAReaderError(403, f"{user!r} may not read here", "ask to be added to --oidc-users or to one of --oidc-groups")
        return Reader(user, "oidc")

    def _named(self, token: str) -> str | None:
        shown, found = _hash(token), None
        # Every token is compared, in constant time, so that the duration does not show how close a guess was.
        for known in self._tokens.content if self._tokens is not None else ():
            if hmac.compare_digest(shown, known.token_hash):
                found = known.name
        return found


def readers_of(settings: Settings) -> Readers:
    """The readers that the settings allow. Raises InputError."""
    oidc = None
    if settings.oidc_issuer or settings.oidc_audience:
        rules = OidcRules(
            issuer=settings.oidc_issuer,
            audience=settings.oidc_audience,
            jwks=settings.oidc_jwks,
            user_claim=settings.oidc_user_claim,
            groups_claim=settings.oidc_groups_claim,
            users=frozenset(settings.oidc_users),
            groups=frozenset(settings.oidc_groups),
        )
        oidc = Oidc(rules)
    return Readers(settings.query_tokens, oidc)


def _token_of(authorization: str | None) -> str | None:
    scheme, _, credentials = (authorization or "").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip() or None
    if scheme.lower() == "basic":
        try:
            _, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return password or None
    return None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
