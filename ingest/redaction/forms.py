"""The forms of credentials: a JSON web token, a private key, the tokens of well-known issuers, the password of a URL.

This is the one list of forms. What enters the lake, and what later reaches a CI log or an explanation, is searched for all of them.
Every search takes linear time on any text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error

import re2

REDACTED = "REDACTED"

# Without one of these, in any letter case, no text holds a credential by its form.
_TEXT_SIGNS = (
    rb"eyj|private key|(?:bearer|basic)[ \\\t\n]|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hv[sbr]\."
    rb"|ya29\.|://[^/@]*@|aiza[\w-]{30}|(?:akia|asia)[a-z0-9]{16}|npm_\w{20}|(?:^|[^a-z0-9_-])sk[-_][\w-]{20}"
    rb"|://[^\s\"\\]*/admission/"
    rb"|(?:[?&;]|\\u0026)[\w.%-]*(?:token|passw|secret|signature|sig|code|key|credential|jwt|assertion)[\w.%-]*="
)
PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)")
# The pattern matches at the beginning of a word only: a search at every `eyJ` inside a word would take quadratic time on a hostile
# text.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?")
_USERINFO = re.compile(r"(?<=://)([^\s/@:?#\"'\\]*+)(:[^\s/@?#\"'\\]*+)?@")
# Tokens that begin with a prefix of their issuer: github.com, gitlab.com, Slack, HashiCorp Vault, Google, AWS, npm, and those that
# begin with `sk-`, as the keys of OpenAI and of Stripe do. Names of Kubernetes have no capitals, and may begin so.
ISSUED = re.compile(
    r"(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+|xox[abprs]-[\w-]{10,}+"
    r"|hv[sbr]\.[\w-]{20,}+|ya29\.[\w-]{20,}+|AIza[\w-]{30,}+|(?:AKIA|ASIA)[A-Z0-9]{16}+(?![A-Z0-9])|npm_\w{20,}+"
    r"|sk[-_](?=[\w-]*[A-Z])[\w-]{20,}+)"
)
# What the name of a URL's parameter holds whose value is a credential.
PARAMETER_WORDS = r"(?:token|passw|secret|signature|api[_.-]?key|access[_.-]?key|credential|jwt|assertion)"
# The parameter of a URL that a message quotes.
_PARAMETER = re.compile(rf"(?i)([?&;](?=[\w.%-]{{0,80}}{PARAMETER_WORDS}|(?:sig|code|key)=)[\w.%-]++=)[^&;#\s\"'\\]++")
# What stands below it is the token of Hindcast's own recorder. A server's message about a webhook quotes the whole URL. (Early
# releases of Python 3.11 match a possessive group wrongly, if there is anything to try again in it: python/cpython#106052.)
_ADMISSION = re.compile(r"(?<=://)([^\s\"'\\?#]{1,300}?/admission/)[^\s\"'\\?#]++")
_SCHEME = re.compile(r"(?i)(?<!\w)(bearer|basic)(\s++)([\w.~+/=-]++)")


def clean_text(text: str) -> str:
    """A text without values that are credentials by their form."""
    text = PEM.sub(REDACTED, text)
    text = _JWT.sub(REDACTED, text)
    text = ISSUED.sub(REDACTED, text)
    text = clean_userinfo(_PARAMETER.sub(rf"\g<1>{REDACTED}", text))
    text = _ADMISSION.sub(rf"\g<1>{REDACTED}", text)
    return _SCHEME.sub(_without_scheme_value, text)


def clean_userinfo(text: str) -> str:
    """A text without the user and password before the host of a URL. A short name of a user without a password stays."""
    return _USERINFO.sub(_without_user, text)


def byte_options() -> re2.Options:
    """RE2 over bytes; it only says whether there is a match."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return options


def _set_of(pattern: bytes) -> re2.Set:
    """One pattern over bytes, ignoring case. RE2 searches in linear time; calling its `Set` costs least."""
    options = byte_options()
    options.case_sensitive = False
    found = re2.Set.SearchSet(options)
    found.Add(pattern)
    found.Compile()
    return found


_text_signs = _set_of(_TEXT_SIGNS)


def may_hold_by_form(data: bytes) -> bool:
    """Whether `clean_text` may change a text of these bytes; they may also be JSON with such texts."""
    return bool(_text_signs.Match(data))


def _without_user(match: re.Match[str]) -> str:
    user, password = match[1], match[2]
    # A long user name without a password is a token: some hosts accept a token alone.
    return match[0] if not password and len(user) < 20 else f"{REDACTED}@"


def _without_scheme_value(match: re.Match[str]) -> str:
    """`bearer` and `basic` are English words as well; only the form of the next text tells whether it is a credential."""
    value = match[3]
    if match[1].lower() == "bearer":
        is_credential = len(value) >= 16 and any(letter.isdigit() for letter in value)
    else:
        is_credential = _is_basic(value)
    return f"{match[1]}{match[2]}{REDACTED}" if is_credential else match[0]


def _is_basic(value: str) -> bool:
    """USER:PASSWORD in Base64, RFC 7617."""
    try:
        return b":" in b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (Base64Error, ValueError):
        return False
