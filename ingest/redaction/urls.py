"""URLs in bodies that grant access: a password before the host, a token in a parameter, and the address of a webhook.

The configuration of a webhook shows its whole URL to everyone who may read it, and so does the audit log. What stands below
`/admission/` is the token of Hindcast's own recorder. Of other webhooks a part of the path that looks like a token is one.

The search works on JSON as it is written, at any depth of texts in texts, so that everything around a URL stays byte for byte.
"""

from __future__ import annotations

import re
from typing import Final

import re2

from .forms import PARAMETER_WORDS, REDACTED, byte_options, clean_userinfo
from .objects import clean_texts

# A slash and an ampersand may be escaped, once for each text around.
_SLASH: Final = r"(?:\\*+/|\\++u002[fF])"
_PARAMETER_NAME: Final = rf"(?:[\w.%-]{{0,80}}?{PARAMETER_WORDS}[\w.%-]*+|sig|code|key)"
_SIGNS: Final = (
    rb"(?::|u003a)(?:\\*(?:/|u002f)){2}(?:[^\s\"/?#\\]*@|[^\s\"]*(?:/admission\\*/|(?:[?&;]|u0026)"
    rb"(?:[\w.%-]*" + PARAMETER_WORDS.encode() + rb"|sig=|code=|key=)))|clientConfig"
)
_URL: Final = re.compile(rf"((?::|\\++u003[aA]){_SLASH}{_SLASH})((?:[^\s\"'<>\\]++|\\++(?:/|u0026))+)")
_USER: Final = re.compile(r"\A[^\s/@:?#\"'\\]*+(?::[^\s/@?#\"'\\]*+)?@")
_PARAMETER: Final = re.compile(rf"(?i)((?:[?&;]|\\++u0026){_PARAMETER_NAME}=)[^&;#\s\"'\\]++")
_ADMISSION: Final = re.compile(rf"(?<=/admission)({_SLASH})(?:[^\s\"'?#\\]++|\\++/)+")
# The member `url` of a client's configuration, in JSON at any depth and in YAML.
_KEY: Final = re.compile(r"\burl\\*+[\"']?\s*+:\s*+\\*+[\"']?https?\Z")
_KEY_LENGTH_MAX: Final = 80
_PATH_PART: Final = re.compile(r"(?<=/)[A-Za-z0-9_%.~+=-]{16,}+")
_HEX: Final = re.compile(r"(?i)[0-9a-f-]+")
# No API server writes another character as such an escape.
_ESCAPES: Final = re.compile(rb"\\u00(?!26|3[ce])[0-7][0-9a-fA-F]", re.IGNORECASE)


def _options() -> re2.Options:
    options = byte_options()
    options.case_sensitive = False
    return options


_signs = re2.compile(_SIGNS, _options())


def may_hold_url(data: bytes) -> bool:
    """Whether these bytes may hold such a URL; cheap, because most bodies have no URL."""
    if b"://" not in data:
        # No API server escapes a slash or a colon; whoever does may hide a URL.
        first = data.find(b"\\")
        if first < 0 or not (data.find(b":\\", first - 1) >= 0 or data.find(b"u003", first) >= 0):
            return False
    return _signs.search(data) is not None


def clean_urls(document: bytes) -> bytes:
    """JSON without what gives access in its URLs; the same object without any. Raises ValueError, RecursionError."""
    if b"\\u00" in document and _ESCAPES.search(document) is not None:
        is_webhook = b"clientConfig" in document
        return clean_texts(document, lambda name, text: clean_url_text(text, is_webhook=is_webhook, name=name))
    if not may_hold_url(document):
        return document
    text = document.decode("utf-8", "surrogateescape")
    cleaned = clean_url_text(text)
    return document if cleaned == text else cleaned.encode("utf-8", "surrogateescape")


def clean_url_text(text: str, *, is_webhook: bool = False, name: str = "") -> str:
    """A text without what gives access in its URLs. `name` is that of its member, if it is the whole value of one."""
    is_webhook = is_webhook or "clientConfig" in text

    def cleaned(match: re.Match[str]) -> str:
        found = _PARAMETER.sub(rf"\g<1>{REDACTED}", _USER.sub(lambda user: clean_userinfo(f"://{user[0]}")[3:], match[2]))
        found = _ADMISSION.sub(rf"\g<1>{REDACTED}", found)
        before = text[max(0, match.start() - _KEY_LENGTH_MAX) : match.start()]
        is_address = name == "url" or _KEY.search(before) is not None
        return match[1] + (_without_tokens(found) if is_webhook and is_address else found)

    return _URL.sub(cleaned, text)


def _without_tokens(url: str) -> str:
    """The address of a webhook without the parts of its path that look like tokens."""
    path, mark, query = url.partition("?")
    return _PATH_PART.sub(lambda part: REDACTED if looks_like_token(part[0]) else part[0], path) + mark + query


def looks_like_token(word: str) -> bool:
    """Whether a part of a path looks like a random value, and not like a name."""
    digits = sum(letter.isdigit() for letter in word)
    if _HEX.fullmatch(word) and digits >= 4:
        return True
    has_cases = any(letter.isupper() for letter in word) and any(letter.islower() for letter in word)
    return digits >= 2 if has_cases else digits >= 4 and len(word) >= 20 and word.count("-") <= 1
