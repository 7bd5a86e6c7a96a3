"""Credentials are taken out of an event before it reaches any disk: bodies of Secrets and all texts that quote them, tokens,
passwords.

An audit policy should keep such bodies out of the log in the first place (level Metadata). This is the second protection. It is on
by default, and works on the raw bytes of sealed events (ingest/notes.py) as they enter the sink and the file ingest. The event's
note `redacted` lists the removed parts, so that a replay can say why the object is unknown.

    redacted: "requestObject"                            mode drop
    redacted: "requestObject:spec.token"                 a configured path: only what lies there was replaced
    redacted: "requestObject=blake2b:5f0c..,requestURI"  mode hash: equal bodies stay recognisable, with this lake's key

This module decides which events must be decoded, and whether their object is a credential; redact_event.py cleans the fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from ..errors import InputError
from ..notes import PREFIX, REDACTED
from .configs import clean_configs, may_hold_config
from .event import REVIEWS, TEXT_NOTES, EventCleaning, may_name_password, person_needs_a_look
from .forms import may_hold_by_form
from .key import KEY_BYTES
from .objects import clean_embedded, may_embed_secret, resources_of
from .paths import BodyPath, clean_body, parse_body_path
from .rules import DEFAULT_PATHS, DEFAULT_RESOURCES, NAMED_BY_TOKEN, Reference, Rule, parse_rule
from .uris import uri_needs_a_look
from .urls import clean_urls, may_hold_url

__all__ = ["DEFAULT_RESOURCES", "Redactor", "is_withheld", "tells_of_request"]

_NOTE = PREFIX + REDACTED

_REPLACEMENT = "REDACTED"
_HASHED = "blake2b:"
# As the API server writes it: keys in the order of the Go struct, nothing between the tokens. A quote after a backslash may be part
# of a text, so no text of the head may end in a backslash.
_HEAD = re.compile(
    rb'\{(?:"kind":"Event","apiVersion":"audit\.k8s\.io/v1",)?"level":"[^"]*+(?<!\\)","auditID":"[^"]*+(?<!\\)",'
    rb'"stage":"[^"]*+(?<!\\)","requestURI":"([^"]*+)(?<!\\)","verb":"[a-z]*+",(?="user":)'
)
_REF, _REF_KEY = b'"objectRef":{"resource":"', b'Ref":{"'  # short patterns of rare letters are found in half the time
_SUBRESOURCE, _EXEC = b'"subresource":"', b'"subresource":"exec"'
_NO_MESSAGE, _NO_MESSAGE_BYTES = b'},"responseStatus":{"metadata":{},"code":', 60  # to the end of `"requestObject`
_BODY = b'Object":'  # the end of `requestObject` and `responseObject`
_AFTER_BODIES = b'"requestReceivedTimestamp":'
_DIGITS = b"0123456789"
_TIMES = b'"requestReceivedTimestamp":"--T::.Z","stageTimestamp":"--T::.Z"'  # without the digits
_TIMES_BYTES = len(_TIMES) + 2 * len("20260101000000000000")
_NOT_OF_PERSONS = (_BODY, b'"objectRef":')
# How many credential-free parts of events of each kind are remembered: 8 MB at most.
_PLAIN_PARTS_MAX = 2_048
_PLAIN_PART_BYTES_MAX = 2_000
# Here only the answer is a credential, and admission never sees the answer: kubernetes
# pkg/registry/core/serviceaccount/storage/token.go.
_ANSWERS_ONLY = frozenset((("serviceaccounts", "token"),))
_WITH_FILES = frozenset((b"configmaps",))  # their values are files of programs
_REVIEWS = frozenset(name.encode() for name in REVIEWS)
# Kinds of bodies that are credentials, for events that do not name their resource.
_KINDS = {"TokenRequest": ("serviceaccounts", "token")}
# In bytes that are not an event, any of these words means that a credential may be inside.
_SUSPECT = (
    *(b"secret", b"token", b"bearer", b"passw", b"pwd", b"certificatesigningrequest", b"authorization", b"basic ", b"private key"),
    *(b"credential", b"apikey", b"api_key", b"api-key", b"sig=", b"auth=", b"stringdata", b'"data"', b"ls0tls1crudjti", b"eyj"),
)
# JSON may write any letter as an escape, JSON inside a text may escape it again, and a URI has its own escapes.
_ESCAPED = re.compile(rb"(?<!\\)\\++u00([0-7][0-9a-fA-F])|%(?:25)*+([0-7][0-9a-fA-F])")

Mode = Literal["drop", "hash"]


class _Kind(msgspec.Struct):
    kind: str | None = None


class _Head(msgspec.Struct):
    auditID: str | None = None  # noqa: N815
    objectRef: Reference | None = None  # noqa: N815
    requestURI: str | None = None  # noqa: N815


class _Kinds(msgspec.Struct):
    requestObject: _Kind | None = None  # noqa: N815
    responseObject: _Kind | None = None  # noqa: N815


_head_decoder = msgspec.json.Decoder(_Head)
_kinds_decoder = msgspec.json.Decoder(_Kinds)
_event_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_annotations_decoder = msgspec.json.Decoder(dict[str, str] | None)
_encoder = msgspec.json.Encoder()


def tells_of_request(notes: str) -> bool:
    """Whether an event's note on its redaction says that a part of the request or of its answer's object is missing.

    Otherwise only texts about the request were removed; a replay does not need these.
    """
    return any(note not in TEXT_NOTES for note in notes.split(","))


def is_withheld(text: str) -> bool:
    """Whether a text is the placeholder of a removed one."""
    return text == _REPLACEMENT or text.startswith(_HASHED)


class Redactor:
    """Takes credentials out of raw events; the same event always gives the same bytes, so a repeated event still counts as a
    duplicate.

    `resources` is a table like DEFAULT_RESOURCES, whose bodies are removed whole. `paths` name values in bodies (see
    redact_paths.py), in addition to DEFAULT_PATHS. Raises InputError for an invalid entry.
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
        rules = [parse_rule(text) for text in resources]
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.resource, []).append(rule)
        self._paths: dict[str, list[tuple[Rule, BodyPath]]] = {}
        for path in map(parse_body_path, (*DEFAULT_PATHS, *paths)):
            rule = parse_rule(path.resource)
            self._paths.setdefault(rule.resource, []).append((rule, path))
        self._names = frozenset(name.encode() for name in (*self._rules, *self._paths))
        self._suspect = _SUSPECT + tuple(name.removesuffix(b"s").lower() for name in self._names)
        # The body of such a request is never a credential; without an answer the event is like any other.
        self._answers_only = frozenset(
            name.encode()
            for name, named in self._rules.items()
            if name not in self._paths and all((rule.resource, rule.subresource) in _ANSWERS_ONLY for rule in named)
        )
        self._plain_uris: set[bytes] = set()
        self._plain_persons: set[bytes] = set()
        self._plain_ends: set[bytes] = set()
        self._mode = mode
        self._key = key[:64]

    def apply(self, line: bytes) -> bytes:
        """The event as it may be written to disk; the same object when nothing had to be removed.

        Bytes that do not decode are returned unchanged, unless they may hold a credential. Then a JSON object that is not an event
        takes their place and says how many bytes were withheld.
        """
        return self._apply_slowly(line) if self._needs_a_look(line) else line

    def _needs_a_look(self, line: bytes) -> bool:
        """Whether an event must be decoded: it does not look as the API server writes it, or it may hold a credential.

        Its fields come in this order: the URI, who asked, the reference, the answer, the bodies, then times and annotations. The
        patterns have quotes that are not escaped, so they are not part of a string.
        """
        head = _HEAD.match(line)
        if head is None or may_embed_secret(line) or ((b"://" in line or b"\\" in line) and may_hold_url(line)):
            return True
        who, uri = head.end(), head[1]
        end = line.rfind(_AFTER_BODIES, who)
        last_start = end + _TIMES_BYTES
        if end < 0 or line[end:last_start].translate(None, _DIGITS) != _TIMES:
            return True
        # The URI, the user and the reason of the authorization mostly repeat those of another event.
        if uri not in self._plain_uris and not self._is_plain_uri(uri):
            return True
        ref = line.find(_REF_KEY, who, end) - len('"object')
        if ref >= 0:
            if not line.startswith(_REF, ref) or self._object_needs_a_look(line, ref + len(_REF), end):
                return True
        else:
            # Without a reference the URI names the resource.
            ref = end
            if any(name in uri for name in self._names):
                return True
        person, last = line[who:ref], line[last_start:]
        return not (
            (person in self._plain_persons or self._is_plain_person(person))
            and (last in self._plain_ends or self._is_plain_end(last))
        )

    def _object_needs_a_look(self, line: bytes, name_start: int, end: int) -> bool:
        """The same for the part of an event from its resource's name to its bodies."""
        name = line[name_start : line.find(b'"', name_start)]
        body = line.find(_BODY, name_start, end)
        before_body = body if body >= 0 else end
        if name in self._names and (
            name not in self._answers_only or (body >= 0 and line.find(_SUBRESOURCE, name_start, before_body) >= 0)
        ):
            return True
        if not name or b"\\" in name or (name == b"pods" and body >= 0 and line.find(_EXEC, name_start, before_body) >= 0):
            return True
        if body >= 0 and name in _WITH_FILES and may_hold_config(line[body:end]):
            return True
        if body >= 0 and name in _REVIEWS and person_needs_a_look(line[body:end]):
            return True
        is_plain_status = line.find(_NO_MESSAGE, before_body - _NO_MESSAGE_BYTES, before_body) >= 0
        told = line[name_start:before_body]
        return not is_plain_status and (may_hold_by_form(told) or may_name_password(told))

    def _is_plain_uri(self, uri: bytes) -> bool:
        """Whether a URI holds no credential; if so, it is remembered."""
        if uri_needs_a_look(uri):
            return False
        _remember(self._plain_uris, uri)
        return True

    def _is_plain_person(self, part: bytes) -> bool:
        """Whether the part between an event's verb and its reference is free of credentials."""
        if any(name in part for name in _NOT_OF_PERSONS) or person_needs_a_look(part):
            return False
        _remember(self._plain_persons, part)
        return True

    def _is_plain_end(self, part: bytes) -> bool:
        """The same for the part after an event's times. A field about users is elsewhere in an API server's event."""
        if _BODY in part or b'ser":' in part or may_hold_by_form(part) or may_name_password(part) or may_hold_config(part):
            return False
        _remember(self._plain_ends, part)
        return True

    def withholds_kind(self, kind: str, api_version: str) -> bool:
        """Whether every object of a kind as a whole is a credential, as Secrets are."""
        group = api_version.rpartition("/")[0]
        return any(
            rule.group in (None, group) and rule.subresource is None
            for name in resources_of(kind)
            for rule in self._rules.get(name, ())
        )

    def clean_object(self, raw: bytes, kind: str, api_version: str) -> bytes:
        """An object of a snapshot without the values at the configured paths, and without the values of Secrets inside it.

        Raises ValueError or RecursionError for bytes that do not decode.
        """
        ref = Reference(apiGroup=api_version.rpartition("/")[0])
        names = resources_of(kind)
        paths = [path for name in names for rule, path in self._paths.get(name, ()) if rule.covers_object(ref)]
        cleaned, _ = clean_body(clean_configs(clean_urls(clean_embedded(raw))), paths, self._replacement)
        return raw if cleaned is None else cleaned

    def _apply_slowly(self, line: bytes) -> bytes:
        try:
            head = _head_decoder.decode(line)
            ref = head.objectRef
            hides = self._hides(ref) if ref is not None and ref.resource else self._hides_unnamed(line, head.requestURI or "")
            event = _event_decoder.decode(line)
        except (ValueError, RecursionError):
            return self._withhold(line) if self._may_hold_credential(line) else line
        if head.auditID is None and self._may_hold_credential(line):
            return self._withhold(line)
        paths = [path for rule, path in self._paths.get(ref.resource or "", ()) if rule.matches(ref)] if ref is not None else []
        texts = hides and (ref is None or (ref.resource, ref.subresource) not in _ANSWERS_ONLY)
        cleaning = EventCleaning(
            event,
            hides=hides,
            hides_texts=texts,
            hides_name=hides and ref is not None and ref.resource in NAMED_BY_TOKEN,
            paths=paths,
            replace=self._replacement,
            body_note=self._body_note,
        )
        try:
            return self._cleaned(line, cleaning)
        except (ValueError, RecursionError):
            return self._withhold(line) if hides or paths or cleaning.notes or self._may_hold_credential(line) else line

    def _cleaned(self, line: bytes, cleaning: EventCleaning) -> bytes:
        annotations = _annotations_decoder.decode(cleaning.fields.get("annotations", b"null")) or {}
        cleaning.clean(annotations)
        if not cleaning.notes:
            return line
        # The notes of an earlier redaction stay.
        before = [note for note in annotations.get(_NOTE, "").split(",") if note]
        annotations[_NOTE] = ",".join(dict.fromkeys((*before, *cleaning.notes)))
        cleaning.fields["annotations"] = msgspec.Raw(_encoder.encode(annotations))
        return _encoder.encode(cleaning.fields)

    def _hides(self, ref: Reference) -> bool:
        return any(rule.matches(ref) for rule in self._rules.get(ref.resource or "", ()))

    def _hides_unnamed(self, line: bytes, uri: str) -> bool:
        """The same for an event that names no resource, by its URI or by the kinds of its bodies."""
        segments = uri.partition("?")[0].split("/")
        for at, segment in enumerate(segments):
            if any(rule.subresource in (None, *segments[at + 1 :]) for rule in self._rules.get(segment, ())):
                return True
        try:
            bodies = _kinds_decoder.decode(line)
        except ValueError:
            return False
        kinds = [body.kind for body in (bodies.requestObject, bodies.responseObject) if body is not None and body.kind]
        return any(self._hides(Reference(name, subresource)) for kind in kinds for name, subresource in _places_of(kind))

    def _body_note(self, field: str, body: bytes) -> str:
        return field if self._mode == "drop" else f"{field}={self._hash(body)}"

    def _replacement(self, value: bytes) -> bytes:
        return _encoder.encode(_REPLACEMENT if self._mode == "drop" else self._hash(value))

    def _hash(self, data: bytes) -> str:
        return _HASHED + hashlib.blake2b(data, key=self._key, digest_size=32).hexdigest()

    def _may_hold_credential(self, line: bytes) -> bool:
        plain = line.replace(b"\0", b"")
        for _ in range(2):
            lowered = plain.lower()
            if any(sign in lowered for sign in self._suspect):
                return True
            plain = _ESCAPED.sub(_unescaped, plain)
        return False

    def _withhold(self, line: bytes) -> bytes:
        return _encoder.encode({_NOTE: f"undecodable record of {len(line)} bytes withheld: it may hold a credential"})


def _remember(parts: set[bytes], part: bytes) -> None:
    if len(part) <= _PLAIN_PART_BYTES_MAX:
        if len(parts) >= _PLAIN_PARTS_MAX:
            parts.clear()
        parts.add(part)


def _places_of(kind: str) -> Iterator[tuple[str, str | None]]:
    """The resources, with their subresource, whose bodies may be of a kind."""
    if kind in _KINDS:
        yield _KINDS[kind]
    yield from ((name, None) for name in resources_of(kind))


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1] or match[2], 16),))
