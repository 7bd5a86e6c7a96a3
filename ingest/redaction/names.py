"""Names whose values are credentials: `access_token=`, `PGPASSWORD=`, `Authorization: Basic X`.

Names decide in URIs, commands and user agents alone: elsewhere, `token=` may be the text of a policy.
"""

from __future__ import annotations

import re

from .forms import REDACTED, clean_text

# In a URI, the text after the word is always a token.
_BEARER = re.compile(r"(?i)(?<!\w)(bearer\s++)[^&;/?#\s\"']++")

# The value of a parameter, variable or option is a credential if its name has one of these words anywhere. The shorter words count
# only as whole words.
_SECRET_NAME = re.compile(
    r"(?i)token|bearer|authorization|passw|passphrase|passcode|pwd|secret|credential|signature|jwt|hmac|preshared"
    r"|api[_.-]?key|access[_.-]?key|private[_.-]?key|encryption[_.-]?key|certificate[_.-]?key|session[_.-]?id|auth[_.-]?key"
    r"|(?:store|key|require)pass|masterauth"
    r"|(?:^|[_.-])(?:auth|sig|pass|sas|otp|cookie|session|refresh|csrf|xsrf|psk|creds)(?=$|[_.-])|^key$"
)
_PLAIN_NAME = re.compile(r"(?i)[_.-](?:file|path|dir)$|key[_.-]id$|secret[_.-]?name(?:space)?$")
_VALUE_TEXT = r"""(?:\$(?=["']))?+"""
_VALUE_TEXT += r"""(?:(?:basic|bearer|digest|token|negotiate|apikey)\s++)?+(?:"(?:[^"\\]|\\.)*+"?+|'[^']*+'?+|[^\s&;|,"')]++)"""
_VALUE = re.compile(_VALUE_TEXT, re.IGNORECASE)
# NAME=VALUE anywhere; NAME = "VALUE" and ["NAME"] = "VALUE" as in programs; NAME: VALUE as in a header or in JSON, where a port or
# a path would have no space or quote.
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])([\w.-]++)(?:=|[\"']?+\]?+[ \t]*+=[ \t]*+(?=[\"'])|[\"']?+:[ \t]++|[\"']\s*+:\s*+|:(?=[\"']))"
)


def is_secret_name(name: str) -> bool:
    """Whether the value of this name is a credential."""
    return _SECRET_NAME.search(name) is not None and _PLAIN_NAME.search(name) is None


def without_assigned(text: str) -> str:
    """A text without the values assigned to names of credentials."""
    kept: list[str] = []
    end = at = 0
    while match := _ASSIGNMENT.search(text, at):
        at = match.end()
        # The value of another name may itself hold such an assignment, so the search does not skip it.
        if is_secret_name(match[1]) and (value := _VALUE.match(text, at)):
            kept += (text[end:at], REDACTED)
            end = at = value.end()
    return "".join((*kept, text[end:])) if kept else text


def clean_named(text: str) -> str:
    """A text without the values that names announce as credentials, and without those of a known form."""
    return clean_text(_BEARER.sub(rf"\g<1>{REDACTED}", without_assigned(text)))
