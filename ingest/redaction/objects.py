"""Objects that are credentials, anywhere in JSON: whole Secrets inside other objects, and inside texts that are JSON themselves.

Tools that carry manifests to other clusters (Work, ManifestWork, Bundle, ResourceBinding) hold Secrets as they are. So do kubectl's
last-applied-configuration of such objects and the patches of webhooks. References to Secrets, and sealed or external Secrets, hold
no value and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import re2

from .credentials import REDACTED, byte_options

# A Secret inside an object, and inside a text in it.
_EMBEDDED_SIGN = re.compile(rb'Secret(?:(?<="Secret)"|List(?<="SecretList)"|(?:List)?\\")')
# RE2 finds the word many times faster than the pattern, not counting the call; few long events have the word.
_secret_word = re2.compile(b"Secret", byte_options())
_LONG_BYTES = 2_500
_VALUES = ("data", "stringData")
_TEXT_DEPTH_MAX = 4

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def resources_of(kind: str) -> tuple[str, ...]:
    """The names that a kind's resource may have, by Kubernetes' rule for plurals; also for a list of that kind."""
    name = kind.removesuffix("List").lower()
    return (f"{name}s", f"{name}es", f"{name[:-1]}ies")


def may_embed_secret(data: bytes) -> bool:
    """Whether JSON bytes may hold a Secret with values; cheap, because most bodies lack the word."""
    return (len(data) < _LONG_BYTES or _secret_word.search(data) is not None) and _EMBEDDED_SIGN.search(data) is not None


def clean_embedded(document: bytes) -> bytes:
    """JSON without the values of the Secrets in it; the same object if it has no Secret. Raises ValueError, RecursionError."""
    if not may_embed_secret(document):
        return document
    value = _decoder.decode(document)
    cleaned = _clean(value, _TEXT_DEPTH_MAX)
    return document if cleaned is value else _encoder.encode(cleaned)


def clean_texts(document: bytes, clean: Callable[[str, str], str]) -> bytes:
    """JSON with each text replaced by the result of `clean`(its field's name, the text); the same object where nothing changes.

    Raises ValueError, RecursionError.
    """
    value = _decoder.decode(document)
    cleaned = _map(value, "", clean)
    return document if cleaned == value else _encoder.encode(cleaned)


def _map(value: Any, name: str, clean: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return clean(name, value)
    if isinstance(value, dict):
        return {key: _map(inner, key, clean) for key, inner in value.items()}
    return [_map(inner, name, clean) for inner in value] if isinstance(value, list) else value


def _clean(value: Any, depth: int, is_secret: bool = False) -> Any:
    """The value without the values of Secrets; the same object where it holds no Secret. `is_secret`: its list says that it is
    one."""
    if isinstance(value, str):
        return _clean_text(value, depth)
    if isinstance(value, list):
        elements = [_clean(element, depth, is_secret) for element in value]
        return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    is_secret = is_secret or kind == "Secret"
    changed = {}
    for name, inner in value.items():
        if is_secret and name in _VALUES and inner:
            changed[name] = _blank(inner)
        elif (new := _clean(inner, depth, kind == "SecretList" and name == "items")) is not inner:
            changed[name] = new
    return value | changed if changed else value


def _blank(value: Any) -> Any:
    """The names of a Secret's values are not credentials, and policies read them."""
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED


def _clean_text(text: str, depth: int) -> str:
    if not depth or text[:1] not in ("{", "[") or "Secret" not in text:
        return text
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError):
        return text
    cleaned = _clean(value, depth - 1)
    return text if cleaned is value else _encoder.encode(cleaned).decode()
