"""Takes credentials out of the URIs of requests; every search takes linear time on any text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from .commands import clean_command
from .forms import REDACTED
from .names import clean_named, is_secret_name

# A URI without any of these signs, in lower case, holds no credential. The signs are a word from above, or an escape of a letter or
# of a percent sign.
_URI_SIGNS = re.compile(
    rb"token|bearer|auth|pass|pwd|secret|credential|key|sig|jwt|session|sas|otp|cookie|eyj|command=|cmd=|csrf|xsrf|psk|creds|refresh|basic|[@_]|://|%[4-7]|%25"
    rb"|/webhooks/|glpat-|xox|hv[sbr]\.|ya29\.|private|aiza|akia|asia|sk-|code=|state=|assertion=|saml|ticket=|nonce=|pin=|sid=|hmac|verifier=|(?:[?&]|u0026)p="
    rb"|\\(?!u0026)"
)
# A URI of only these bytes has no parameter, no escape and no user.
_URI_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-.~:,"
# Without one of these, such a URI holds nothing that `may_hold_by_form` looks for.
_PLAIN_URI_SIGNS = re.compile(rb"/webhooks/|J|glpat-|xox|hv[sbr]\.|ya29\.|AIza|A[KS]IA|sk-[\w-]*[A-Z]")
_BUILD_SECRET = re.compile(r"(?<=/webhooks/)[^/]++(?=/)")
# `services/USER:PASSWORD@NAME/proxy`: tools put the user information of a URL there.
_SEGMENT_USER = re.compile(r"(?<=/)[^/:@?\s]++:[^/@?\s]++@")
_BETWEEN_PARAMETERS = re.compile(r"([?&;#])")
# The parameters of OAuth, OpenID Connect, SAML and CAS that give access, and short names that are common for such values.
_SECRET_PARAMETERS = frozenset(
    (
        *("code", "state", "nonce", "assertion", "client_assertion", "samlresponse", "samlrequest", "ticket", "device_code"),
        *("user_code", "code_verifier", "oauth_verifier", "pin", "sid", "phpsessid", "connect.sid"),
    )
)
_COMMANDS = ("command", "cmd")  # the second is that of a kubelet's `/run`
# Their values are names and labels, or values that the API server itself made.
_PLAIN_PARAMETERS = frozenset(("labelSelector", "fieldSelector", "continue"))
# A proxy encodes its input once more; a text that is encoded more often was made to hide something.
_ENCODINGS_MAX = 5
_KEPT_CHARACTERS = "/:=@,~+!$'()*[]{}\"<>|^`\\"


def uri_needs_a_look(uri: bytes) -> bool:
    """Whether a URI, as JSON writes it, may hold a credential; cheap. It is true wherever `clean_uri` changes something."""
    if uri.translate(None, _URI_PLAIN):
        return _URI_SIGNS.search(uri.lower()) is not None
    return _PLAIN_URI_SIGNS.search(uri) is not None


def clean_uri(uri: str) -> str:
    """A request's URI without credentials in its path, its parameters and the arguments of a command in it."""
    path, mark, query = uri.partition("?")
    # OpenShift's webhooks of a build have their secret in the path (openshift/api build/v1, WebHookTrigger).
    cleaned = _SEGMENT_USER.sub(f"{REDACTED}@", _BUILD_SECRET.sub(REDACTED, _clean_part(path, "", "/")))
    if not mark:
        return cleaned
    pieces = _BETWEEN_PARAMETERS.split(query)  # parameters, and at odd indexes the separators between two
    has_user = any(piece.startswith("u=") for piece in pieces)  # InfluxDB's API names user and password `u` and `p`
    arguments: list[int] = []
    for at in range(0, len(pieces), 2):
        name, equals, value = pieces[at].partition("=")
        if not equals:
            pieces[at] = _clean_part(name, "", "")
            continue
        plain = _decoded(name)
        if value and (plain is None or _is_secret(plain) or (has_user and plain == "p")):
            pieces[at] = f"{name if plain == name else quote(plain or REDACTED, safe='')}={REDACTED}"
        elif plain in _COMMANDS:
            arguments.append(at)
        elif plain not in _PLAIN_PARAMETERS:
            pieces[at] = name + equals + _clean_part(value, "+", "")
    _clean_arguments(pieces, arguments)
    return f"{cleaned}?{''.join(pieces)}"


def _is_secret(parameter: str) -> bool:
    return parameter.lower() in _SECRET_PARAMETERS or is_secret_name(parameter)


def _clean_arguments(pieces: list[str], places: Sequence[int]) -> None:
    decoded = [_decoded(pieces[at].partition("=")[2], "+") for at in places]
    for at, before, after in zip(places, decoded, clean_command([text or "" for text in decoded]), strict=True):
        if before is None or before != after:
            pieces[at] = f"{pieces[at].partition('=')[0]}={REDACTED if before is None else quote(after, safe=_KEPT_CHARACTERS)}"


def _clean_part(text: str, space: str, safe: str) -> str:
    """A part of a URI without credentials; the same text where it holds none worth removing."""
    decoded = _decoded(text, space)
    if decoded is None:
        return safe + REDACTED
    cleaned = clean_named(decoded)
    return text if cleaned == decoded else quote(cleaned, safe=_KEPT_CHARACTERS + ("?&;#" if safe else ""))


def _decoded(text: str, space: str = "") -> str | None:
    """The text after all percent-decoding; None where it is encoded too many times."""
    if space:
        text = text.replace(space, " ")
    for _ in range(_ENCODINGS_MAX):
        if "%" not in text or (decoded := unquote(text)) == text:
            return text
        text = decoded
    return None if "%" in text and unquote(text) != text else text
