"""Redacts objects and messages before they reach a CI log: values that look like credentials, and configured paths.

The name of a field, the form of a value, or a path that the user configured decides. When in doubt, a value is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any

from ingest.redaction.forms import ISSUED, PEM

REDACTED = "[redacted]"

# Names of fields, environment variables and labels whose value is a credential, or may hold one.
_SECRET_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key|ssh[-_.]?key|encryption[-_.]?key"
    r"|client[-_.]?cert|\bauth\b|authorization|connection[-_.]?string|dsn\b|webhook[-_.]?url",
    re.IGNORECASE,
)
# Fields of the Kubernetes API that match although they only name an object or a method.
_PLAIN_NAMES = frozenset(
    ["secretName", "tokenExpirationSeconds", "automountServiceAccountToken", "secretNamespace", "secretKeyRef"]
)
_SECRET_VALUES = (
    PEM,
    ISSUED,
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.?[A-Za-z0-9_-]*"),  # JSON web tokens, and parts of them
    re.compile(r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\Z)"),  # certificates, too
    re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"),  # user:password@ of a URL
    re.compile(r"(?i)(?<=\bbearer )\S{8,}|(?<=\bbasic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?i)(?<=password=)[^\s&;,]+|(?<=token=)[^\s&;,]+|(?<=secret=)[^\s&;,]+"),
)
_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_DIGEST = re.compile(r"\bsha(?:256|512):[0-9a-f]+")
# Bits per character above which a long word counts as random: hexadecimal keys have 4, names of objects seldom 3.5.
_ENTROPY_MIN = 3.7
# Holds a whole earlier version of the object, credentials included.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Redaction:
    """Paths to remove in addition to apparent credentials, such as `spec.containers[*].env` or `metadata.annotations.note`.

    A name with dots in it is matched by its parts together; `[*]` is every element of a list, `*` every field.
    """

    paths: tuple[str, ...] = ()

    def object(self, value: Any) -> Any:
        """A copy of a JSON value with credentials and configured paths replaced; all other values stay the same."""
        is_secret = isinstance(value, Mapping) and value.get("kind") == "Secret"
        paths = [tuple(_steps(path)) for path in (*self.paths, *(("data", "stringData") if is_secret else ()))]
        return _redacted(value, paths)

    def text(self, text: str, original: Any = None) -> str:
        """A message without credentials, and without values redacted in the object `original`, which it may quote."""
        if original is not None:
            for word in sorted(_taken(original, self.object(original)), key=len, reverse=True):
                if len(word) > 3:
                    text = text.replace(word, REDACTED)
        return _plain(text)


def _steps(path: str) -> Iterator[str]:
    for part in path.replace("[*]", ".[]").split("."):
        if part:
            yield part


def _redacted(value: Any, paths: list[tuple[str, ...]], name: str = "") -> Any:
    if () in paths:
        return _blank(value)
    if isinstance(value, Mapping):
        found = {}
        for key, inner in value.items():
            below = [rest for path in paths if (rest := _after(path, key)) is not None]
            # An environment variable, and a header of a probe, have their name next to the value.
            known_as = str(value.get("name", "")) if key == "value" else str(key)
            found[key] = REDACTED if key == _LAST_APPLIED else _redacted(inner, below, known_as)
        return found
    if isinstance(value, list):
        below = [path[1:] if path[0] == "[]" else path for path in paths]
        return [_redacted(inner, below, name) for inner in value]
    if isinstance(value, str):
        return REDACTED if value and name not in _PLAIN_NAMES and _SECRET_NAME.search(name) else _plain(value)
    return value


def _after(path: tuple[str, ...], key: str) -> tuple[str, ...] | None:
    """The rest of a path below a key; a key with dots in it takes as many steps."""
    if path[0] == "*":
        return path[1:]
    size = len([part for part in key.split(".") if part])
    return path[size:] if ".".join(path[:size]) == key else None


def _blank(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _blank(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_blank(inner) for inner in value]
    return REDACTED if isinstance(value, str) else value


def _plain(text: str) -> str:
    for pattern in _SECRET_VALUES:
        text = pattern.sub(REDACTED, text)
    digests = {match.span() for match in _DIGEST.finditer(text)}

    def replaced(match: re.Match[str]) -> str:
        is_digest = any(start <= match.start() and match.end() <= end for start, end in digests)
        return match[0] if is_digest or not _is_random(match[0]) else REDACTED

    return _LONG_WORD.sub(replaced, text)


def _is_random(word: str) -> bool:
    """Whether a long word looks random: digits among its letters, and many bits per character."""
    if not (re.search(r"[0-9]", word) and re.search(r"[A-Za-z]", word)):
        return False
    shares = [word.count(letter) / len(word) for letter in set(word)]
    return -sum(share * log2(share) for share in shares) >= _ENTROPY_MIN


def _taken(before: Any, after: Any) -> Iterable[str]:
    """The strings of an object that were replaced."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, inner in before.items():
            yield from _taken(inner, after[key])
    elif isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=True):
            yield from _taken(old, new)
    elif isinstance(before, str) and before != after:
        yield before
