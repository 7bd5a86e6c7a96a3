"""Bodies that hold credentials, and tokens in URIs, are taken out of an event before it reaches any disk.

An audit policy should keep such bodies out of the log in the first place (level Metadata). This is the second lock: it is on by
default and works on the raw bytes of an event, at the door of the sink and of the file ingest. What it took out is written into the
annotation `hindcast/redacted` of the event, so that a replay can say why the object is not known.

    hindcast/redacted: "requestObject"                            mode drop
    hindcast/redacted: "requestObject:spec.token"             a configured path: only what lies there was replaced
    hindcast/redacted: "requestObject=blake2b:5f0c..,requestURI"  mode hash: equal bodies stay recognisable, with this lake's key
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import msgspec

from .errors import InputError, LakeError
from .redact_paths import BodyPath, clean_body, parse_body_path

ANNOTATION = "hindcast/redacted"
KEY_BYTES = 32

# Each entry is RESOURCE, RESOURCE.GROUP or either with /SUBRESOURCE. Without a group it matches every group; without a subresource
# it matches the resource and all of its subresources. The reason stands beside each.
DEFAULT_RESOURCES = (
    "secrets",  # data and stringData, also in lists and in last-applied-configuration
    "serviceaccounts/token",  # the response is a bearer token
    "tokenreviews",  # the request is a bearer token
    "certificatesigningrequests",  # request and issued certificate
    "oauthaccesstokens",  # OpenShift: the object's name is derived from the token, its body grants access
    "oauthauthorizetokens",
)

_BODIES = ("requestObject", "responseObject")
_REPLACEMENT = "REDACTED"
# As the API server writes it: keys in the order of the Go struct, nothing between the tokens.
_REF = b'"objectRef":{"resource":"'
_URI = b'"requestURI":"'
_RULE = re.compile(r"(?P<resource>[a-z0-9-]+)(?:\.(?P<group>[a-z0-9.-]+))?(?:/(?P<subresource>[a-z0-9*-]+))?")
_PARAMETER = re.compile(r"(?<=[?&;#])([^?&;#=]*+)=([^&;#]*)")
# A parameter whose name has one of these words opens a door with its value, whatever stands before it in the name.
_SECRET_NAME = re.compile(r"(?i)token|bearer|authorization|passw|api[_-]?key|client[_-]?secret")
_BEARER = re.compile(r"(?i)(bearer(?:\s|\+|%20)+)[^&;/?#\s]+")
# It begins a word: looking for one at every `eyJ` inside a word would take quadratic time on a URI made for that.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?")
# What must stand in a URI, on its raw bytes in lower case, for anything to be taken out: a word from above, or any escape.
_URI_SIGNS = re.compile(rb"token|bearer|authorization|passw|key|secret|eyj|%[4-7]|\\(?!u0026)")
# A URI of these bytes alone has no parameter and no escape.
_URI_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~:,@"
# In bytes that do not decode, any of these is taken as a sign that a credential may be inside.
_SUSPECT = (b"secret", b"token", b"bearer", b"password", b"certificatesigningrequest", b"authorization:")

Mode = Literal["drop", "hash"]


class _Ref(msgspec.Struct):
    resource: str | None = None
    subresource: str | None = None
    apiGroup: str | None = None  # noqa: N815  (the name on the wire)


class _Head(msgspec.Struct):
    objectRef: _Ref | None = None  # noqa: N815
    requestURI: str | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class _Rule:
    resource: str
    group: str | None
    subresource: str | None

    def matches(self, ref: _Ref) -> bool:
        return (
            ref.resource == self.resource
            and (self.group is None or self.group == (ref.apiGroup or ""))
            and (self.subresource is None or self.subresource == (ref.subresource or ""))
        )


_head_decoder = msgspec.json.Decoder(_Head)
_event_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_annotations_decoder = msgspec.json.Decoder(dict[str, str] | None)
_encoder = msgspec.json.Encoder()


def load_or_create_key(path: Path) -> bytes:
    """The key of this lake's hashes; made once, readable by its owner only. Raises LakeError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise LakeError(
                f"{path}: holds {len(key)} bytes, not a key of {KEY_BYTES}", "restore it, or remove it to begin a new one"
            ) from None
        return key
    except OSError as error:
        raise LakeError(f"{path}: the redaction key cannot be written: {error.strerror}", "fix the owner of the lake") from error
    key = secrets.token_bytes(KEY_BYTES)
    try:
        os.write(handle, key)
        os.fsync(handle)
    finally:
        os.close(handle)
    return key


class Redactor:
    """Takes credentials out of raw events; the same event always gives the same bytes, so a repeated event is still a duplicate.

    `resources` is a table like DEFAULT_RESOURCES, whose bodies go as a whole; `paths` name values in bodies (see redact_paths.py).
    Raises InputError for an entry that is none.
    """

    def __init__(
        self,
        resources: Iterable[str] = DEFAULT_RESOURCES,
        *,
        paths: Iterable[str] = (),
        mode: Mode = "drop",
        key: bytes = b"",
    ) -> None:
        if mode == "hash" and len(key) < KEY_BYTES:
            raise InputError(f"redaction by hash needs a key of {KEY_BYTES} bytes, got {len(key)}", "use load_or_create_key")
        rules = [_parse_rule(text) for text in resources]
        self._rules: dict[str, list[_Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.resource, []).append(rule)
        self._paths: dict[str, list[tuple[_Rule, BodyPath]]] = {}
        for path in map(parse_body_path, paths):
            rule = _parse_rule(path.resource)
            self._paths.setdefault(rule.resource, []).append((rule, path))
        self._names = frozenset(name.encode() for name in (*self._rules, *self._paths))
        self._suspect = _SUSPECT + tuple(name.removesuffix(b"s") for name in self._names)
        self._mode = mode
        self._key = key[:64]

    def apply(self, line: bytes) -> bytes:
        """The event as it may be written to disk; the very same object when nothing had to be taken out.

        Bytes that do not decode come back as they are, unless they may hold a credential: then as a JSON object that says how many
        bytes were withheld and that is no event.
        """
        # The patterns have quotes that are not escaped, so they are no part of a string; where no body stands before them, they are
        # the event's own fields. Whatever does not look like that is decoded.
        ref = line.find(_REF)
        uri = line.find(_URI, 0, ref)
        if ref < 0 or uri < 0 or line.find(b'Object":', 0, ref) >= 0:
            return self._apply_slowly(line)
        ref += len(_REF)
        uri += len(_URI)
        name = line[ref : line.find(b'"', ref)]
        if name in self._names or b"\\" in name or _uri_needs_a_look(line[uri : line.find(b'"', uri)]):
            return self._apply_slowly(line)
        return line

    def _apply_slowly(self, line: bytes) -> bytes:
        try:
            head = _head_decoder.decode(line)
        except (ValueError, RecursionError):
            return self._withhold(line) if self._may_hold_credential(line) else line
        ref = head.objectRef
        hides_bodies = ref is not None and any(rule.matches(ref) for rule in self._rules.get(ref.resource or "", ()))
        paths = [path for rule, path in self._paths.get(ref.resource or "", ()) if rule.matches(ref)] if ref is not None else []
        uri = head.requestURI or ""
        clean_uri = _clean_uri(uri) if _uri_needs_a_look(uri.encode("utf-8", "replace")) else uri
        if not hides_bodies and not paths and uri == clean_uri:
            return line
        return self._rewrite(line, hides_bodies=hides_bodies, paths=paths, uri=clean_uri if uri != clean_uri else None)

    def _rewrite(self, line: bytes, *, hides_bodies: bool, paths: list[BodyPath], uri: str | None) -> bytes:
        try:
            event = _event_decoder.decode(line)
            annotations = _annotations_decoder.decode(event.get("annotations", b"null")) or {}
        except (ValueError, RecursionError):
            return self._withhold(line)
        notes = []
        for field in _BODIES if hides_bodies or paths else ():
            body = bytes(event.get(field, b"null"))
            if body == b"null":
                continue
            cleaned, found = (None, []) if hides_bodies else clean_body(body, paths, self._replacement)
            if cleaned is None:
                del event[field]
                notes.append(field if self._mode == "drop" else f"{field}={self._hash(body)}")
            elif found:
                event[field] = msgspec.Raw(cleaned)
                notes += [f"{field}:{path}" for path in found]
        if uri is not None:
            event["requestURI"] = msgspec.Raw(_encoder.encode(uri))
            notes.append("requestURI")
        if not notes:
            return line
        annotations[ANNOTATION] = ",".join(notes)
        event["annotations"] = msgspec.Raw(_encoder.encode(annotations))
        return _encoder.encode(event)

    def _replacement(self, value: bytes) -> bytes:
        return _encoder.encode(_REPLACEMENT if self._mode == "drop" else self._hash(value))

    def _hash(self, data: bytes) -> str:
        return "blake2b:" + hashlib.blake2b(data, key=self._key, digest_size=32).hexdigest()

    def _may_hold_credential(self, line: bytes) -> bool:
        lowered = line.lower()
        return any(sign in lowered for sign in self._suspect) or b"eyJ" in line

    def _withhold(self, line: bytes) -> bytes:
        return _encoder.encode({ANNOTATION: f"undecodable record of {len(line)} bytes withheld: it may hold a credential"})


def _parse_rule(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} names no resource to redact",
            "write RESOURCE, RESOURCE.GROUP, RESOURCE/SUBRESOURCE, e.g. secrets or tokens.example.com",
        )
    return _Rule(match["resource"], match["group"], match["subresource"])


def _uri_needs_a_look(uri: bytes) -> bool:
    """Whether anything in a URI may have to be taken out; cheap, and never no where `_clean_uri` would change something."""
    if uri.translate(None, _URI_PLAIN) or b"eyJ" in uri:
        return _URI_SIGNS.search(uri.lower()) is not None
    return False


def _clean_uri(uri: str, encodings: int = 3) -> str:
    cleaned = _PARAMETER.sub(_clean_parameter, uri)
    cleaned = _BEARER.sub(rf"\g<1>{_REPLACEMENT}", cleaned)
    cleaned = _JWT.sub(_REPLACEMENT, cleaned)
    if cleaned == uri and encodings and "%" in uri and (decoded := unquote(uri)) != uri:
        # A parameter name may be percent-encoded, and again behind a proxy. Then the decoded form is kept: only that was cleaned.
        cleaned_decoded = _clean_uri(decoded, encodings - 1)
        return cleaned_decoded if cleaned_decoded != decoded else uri
    return cleaned


def _clean_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={_REPLACEMENT}" if match[2] and _SECRET_NAME.search(match[1]) else match[0]
