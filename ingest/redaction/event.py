"""Removes credentials from the fields of one event, once the caller knows whether its object is a credential.

An event on a Secret loses everything that comes from the object: bodies, patches of webhooks and audit annotations of policies. In
failures it loses the words that the server did not write. A replay needs the names of policies, bindings and webhooks, the index of
an expression and the code, so these stay. Any other event loses only values that are credentials by their form or name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ..event import FIELDS, VALIDATION_FAILURE
from ..notes import FOREIGN, PREFIX, SIGNER, WORDING
from ..server.wordings import wording_note
from ..server.words import REASONS, REDACTED, server_words
from ..sources.reviews import FIELD as REVIEW
from ..sources.reviews import OBJECT, OLD_OBJECT
from .commands import clean_command
from .configs import clean_config_text, clean_configs
from .forms import clean_text, may_hold_by_form
from .names import clean_named, is_secret_name
from .objects import clean_embedded, clean_manifest, clean_texts
from .paths import BodyPath, clean_body, clean_patch
from .uris import clean_uri, uri_needs_a_look
from .urls import clean_urls

_SIGNER_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9._:-]{1,317}")
DECISION = "authorization.k8s.io/decision"
PATCH = "patch.webhook.admission.k8s.io/"
# kube-apiserver makes the values of these annotations without reading the object; queries/macros/server_annotation.sql cites each.
_SERVER_ANNOTATIONS = frozenset(
    (
        *("apiserver.k8s.io", "apiserver.latency.k8s.io", "audit.k8s.io", "authentication.k8s.io", "authentication.kubernetes.io"),
        *("authorization.k8s.io", "insecure-sha1.invalid-cert.kubernetes.io", "k8s.io", "missing-san.invalid-cert.kubernetes.io"),
        *("mutation.webhook.admission.k8s.io", "failed-open.mutation.webhook.admission.k8s.io", "hindcast"),
        *("failed-open.validating.webhook.admission.k8s.io", "failed-open.validation.webhook.admission.k8s.io"),
    )
)
# The content of an unknown field may come from anywhere; these are known, from the older versions of an event and from GKE's
# entries.
_KNOWN_FIELDS = FIELDS | {"metadata", "timestamp", "logEntry", REVIEW}
_KNOWN_DETAILS = frozenset(("name", "group", "kind", "uid", "retryAfterSeconds"))
_KNOWN_STATUS = frozenset(("code", "reason", "message", "details", "status", "metadata", "kind", "apiVersion"))
# Reviews name a user with all that an authenticator says of it. The review of a token is removed as a whole.
REVIEWS = frozenset(
    (
        *("selfsubjectreviews", "subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews"),
        *("selfsubjectrulesreviews", "subjectrulesreviews", "resourceaccessreviews", "localresourceaccessreviews"),
    )
)
_BODIES = ("requestObject", "responseObject", OBJECT, OLD_OBJECT)
# The notes on removed texts about a request; a replay does not need these texts.
TEXT_NOTES = frozenset(("annotations", "responseStatus", "userAgent", "user", "impersonatedUser", "fields"))
# A shorter text occurs in many messages by chance.
_QUOTED_LENGTH_MIN = 3
# A value after the name of a credential, as a user agent may have it.
_ASSIGNED = re.compile(
    rb"(?i)(?:key|token|passw?|pwd|secret|auth|credential|sig|jwt|session|bearer|sas|otp|cookie)[\w.-]{0,64}+(?:=|:[ \t])"
)
# A password with its value, as the text of a webhook may quote it.
_PASSWORD = re.compile(r"(?i)((?<![\w.-])[\w.-]{0,40}(?:password|passwd|passphrase|pwd)[\"']?=[\"']?)[^\s\"'&;,]{4,}+")
_PASSWORD_SIGN = re.compile(rb"(?i)(?:password|passwd|passphrase|pwd)[\"'\\]*+=")
_OF_WEBHOOK = "admission webhook "
_MEMBER_NAME = re.compile(rb'"([^"]*+)"\s*+:')


class _Metadata(msgspec.Struct, omit_defaults=True):
    impersonationConstraint: str = ""  # noqa: N815


class _SignedSpec(msgspec.Struct):
    signerName: str = ""  # noqa: N815


class _Signed(msgspec.Struct):
    spec: _SignedSpec = msgspec.field(default_factory=_SignedSpec)


class _Named(msgspec.Struct):
    name: str | None = None
    resource: str | None = None
    subresource: str | None = None


_texts = msgspec.json.Decoder(dict[str, str] | None)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_reference = msgspec.json.Decoder(_Named | None)
_signed = msgspec.json.Decoder(_Signed)
_metadata = msgspec.json.Decoder(_Metadata | None)
_anything = msgspec.json.Decoder()
_text = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()

Fields = dict[str, msgspec.Raw]


class EventCleaning:
    """The cleaning of one event, whose `fields` it changes; `notes` list the removed parts, in the words of the annotation.

    `hides`: a body is a credential. `hides_texts`: admission saw that body, so texts may quote it. `hides_name`: the object's name
    is a credential, too. `paths` name values in a body. `replace` returns the replacement of a JSON value. `body_note` makes the
    note on a body that was removed whole. `clean` raises ValueError or RecursionError for bytes that do not decode.
    """

    def __init__(
        self,
        fields: Fields,
        *,
        hides: bool,
        hides_texts: bool,
        hides_name: bool,
        paths: Sequence[BodyPath],
        replace: Callable[[bytes], bytes],
        body_note: Callable[[str, bytes], str],
    ) -> None:
        self.fields = fields
        self.notes: list[str] = []
        self._hides = hides
        self._hides_texts = hides_texts
        self._hides_name = hides_name
        self._paths = paths
        self._replace = replace
        self._body_note = body_note
        self._removed: list[bytes] = []  # the values at paths, as JSON
        # Whether texts may quote removed values of the object in an unknown form.
        self._withholds_texts = hides_texts or bool(paths)

    def clean(self, annotations: dict[str, str]) -> None:
        """Clean all fields; `annotations` are the event's own, and are changed like the other fields."""
        self._bodies(annotations)
        self._annotations(annotations)
        self._status(annotations)
        self._uri()
        self._others()
        if self._hides_name:
            self._name(annotations)

    def _bodies(self, annotations: dict[str, str]) -> None:
        if not self._hides and self._paths:
            # If a request's body is here, it shows the values that its messages may quote.
            self._withholds_texts = bytes(self.fields.get("requestObject", b"null")) == b"null"
        for field in _BODIES:
            body = bytes(self.fields.get(field, b"null"))
            if body == b"null":
                continue
            if self._hides:
                if (signer := _signer_of(body)) is not None:
                    annotations[PREFIX + SIGNER] = signer
                self._drop(field, body)
            else:
                self._body(field, body)

    def _body(self, field: str, body: bytes) -> None:
        if body[:1] == b"{" and self._is_exec() and (commanded := _clean_exec(body)) is not body:
            self.notes.append(f"{field}:command")
            self.fields[field] = msgspec.Raw(commanded)
            body = commanded
        if (reviewed := self._reviewed(body)) is not body:
            self.notes.append(f"{field}:extra")
            self.fields[field] = msgspec.Raw(reviewed)
            body = reviewed
        embedded = clean_embedded(body)
        located = self._addressed(clean_urls(embedded))
        configured = clean_configs(located)
        cleaned, found = clean_body(configured, self._paths, self._take) if self._paths else (configured, [])
        if cleaned is None:
            self._withholds_texts = True
            self._drop(field, body)
            return
        if embedded is not body:
            self._withholds_texts = True
            self.notes.append(f"{field}:Secret")
        if located is not embedded:
            self.notes.append(f"{field}:url")
        if configured is not located:
            self.notes.append(f"{field}:config")
        if cleaned is not body:
            self.fields[field] = msgspec.Raw(cleaned)
        self.notes += [f"{field}:{path}" for path in found]

    def _addressed(self, body: bytes) -> bytes:
        """The options of a proxied request without the credentials in their path, which repeats the URI."""
        if self._place().subresource != "proxy" or b'"path"' not in body or not uri_needs_a_look(body):
            return body
        return clean_texts(body, lambda name, text: clean_uri(text) if name == "path" else text)

    def _place(self) -> _Named:
        return _reference.decode(self.fields.get("objectRef", b"{}")) or _Named()

    def _is_exec(self) -> bool:
        place = self._place()
        return (place.resource, place.subresource) == ("pods", "exec")

    def _reviewed(self, body: bytes) -> bytes:
        """The body of a review without the credentials in the `extra` of the user that it is about."""
        if self._place().resource not in REVIEWS or not person_needs_a_look(body):
            return body
        return clean_texts(body, _named_text, within="extra")

    def _name(self, annotations: dict[str, str]) -> None:
        """The name is in the reference, in the URI and in the server's words about the object."""
        name = self._place().name
        if not name or name == REDACTED:
            return
        changed = False
        for text in sorted({name, quote(name, safe=""), quote(name)}, key=len, reverse=True):
            inside = _encoder.encode(text)[1:-1]
            for field in ("objectRef", "requestURI", "responseStatus", "logEntry"):
                raw = bytes(self.fields.get(field, b""))
                if inside in raw:
                    self.fields[field] = msgspec.Raw(raw.replace(inside, REDACTED.encode()))
                    changed = True
            for key, value in annotations.items():
                if text in value:
                    annotations[key] = value.replace(text, REDACTED)
                    changed = True
        if changed:
            self.notes.append("objectRef")

    def _drop(self, field: str, body: bytes) -> None:
        del self.fields[field]
        self.notes.append(self._body_note(field, body))

    def _take(self, value: bytes) -> bytes:
        self._removed.append(value)
        return self._replace(value)

    def _annotations(self, annotations: dict[str, str]) -> None:
        changed = False
        # Patches first: they bring values that the failures may quote.
        for key in sorted(annotations, key=lambda key: not key.startswith(PATCH)):
            before = annotations[key]
            after = self._annotation(key, before)
            if after != before:
                annotations[key] = after
                changed = True
        if changed:
            self.notes.append("annotations")

    def _annotation(self, key: str, value: str) -> str:
        if key.startswith(PATCH):
            return self._patch(value)
        if key == VALIDATION_FAILURE:
            return self._failures(value)
        is_ours = key.partition("/")[0] in _SERVER_ANNOTATIONS and not key.startswith(FOREIGN)
        if not is_ours and self._may_quote(value):
            return value if value == REDACTED else str(_text.decode(self._replace(_encoder.encode(value))))
        return _clean(value) if is_ours else _clean_foreign(value)

    def _patch(self, value: str) -> str:
        """The webhook's name stays and its changes are removed; at configured paths and in embedded Secrets, only the values are
        removed."""
        if not self._hides_texts:
            document = value.encode()
            cleaned = clean_patch(clean_urls(clean_embedded(document)), self._paths, self._take)
            return value if cleaned == document else cleaned.decode()
        if not value.startswith("{"):
            return REDACTED
        told = _fields.decode(value)
        kept = {name: told[name] for name in ("configuration", "webhook", "patchType") if name in told}
        return _encoder.encode(kept).decode() if len(kept) != len(told) else value

    def _failures(self, value: str) -> str:
        """The text of the annotation that policies write: a list of failures. Only their messages quote the object."""
        if not self._may_quote(value):
            return _clean(value)
        try:
            return clean_texts(value.encode(), _failure_text).decode()
        except ValueError:
            return REDACTED

    def _status(self, annotations: dict[str, str]) -> None:
        raw = bytes(self.fields.get("responseStatus", b"null"))
        if raw == b"null" or not (self._withholds_texts or self._removed or may_hold_by_form(raw) or may_name_password(raw)):
            return
        status = _anything.decode(raw)
        if not isinstance(status, dict):
            raise ValueError("responseStatus is not an object")
        cleaned = self._cleaned_status(status, annotations.get(DECISION) == "forbid")
        if cleaned != status:
            if cleaned.get("message") != status.get("message"):
                # Redacted again, a text no longer has all of its wordings.
                annotations.setdefault(PREFIX + WORDING, wording_note(str(status["message"])))
            self.fields["responseStatus"] = msgspec.Raw(_encoder.encode(cleaned))
            self.notes.append("responseStatus")

    def _cleaned_status(self, status: dict[str, Any], is_unread: bool) -> dict[str, Any]:
        """`is_unread`: the authorizer refused the request before anything read its body."""
        if is_unread or not self._may_quote(_encoder.encode(status).decode()):
            told = {name: _clean(value) if isinstance(value, str) else value for name, value in status.items()}
            if str(told.get("message", "")).startswith(_OF_WEBHOOK):
                told["message"] = _PASSWORD.sub(rf"\g<1>{REDACTED}", str(told["message"]))
            return told
        kept = {name: value for name, value in status.items() if name in _KNOWN_STATUS}
        if "message" in kept:
            kept["message"] = server_words(str(kept["message"]))
        if kept.get("reason") not in (None, "", *REASONS):
            kept["reason"] = REDACTED
        details = kept.get("details")
        if isinstance(details, dict):
            kept["details"] = {name: value for name, value in details.items() if name in _KNOWN_DETAILS}
        return kept

    def _may_quote(self, text: str) -> bool:
        """Whether a text may hold a removed value of the object."""
        if self._withholds_texts:
            return True
        return any(word in text or word in _unescaped(text) for value in self._removed for word in _words(_anything.decode(value)))

    def _uri(self) -> None:
        raw = bytes(self.fields.get("requestURI", b""))
        if raw[:1] == b'"' and uri_needs_a_look(raw[1:-1]):
            uri = _text.decode(raw)
            cleaned = clean_uri(uri)
            if cleaned != uri:
                self.fields["requestURI"] = msgspec.Raw(_encoder.encode(cleaned))
                self.notes.append("requestURI")

    def _others(self) -> None:
        """The user, the user agent, and unknown fields."""
        for name in list(self.fields):
            raw = bytes(self.fields[name])
            if self._hides_texts and name == "authenticationMetadata":
                # The server wrote the verb by which an impersonation was allowed.
                self.fields[name] = msgspec.Raw(_encoder.encode(_metadata.decode(raw)))
            elif self._hides_texts and name not in _KNOWN_FIELDS:
                del self.fields[name]
                self.notes.append("fields")
            elif name not in _CLEANED_ELSEWHERE and may_hold_by_form(raw) | (name in _PERSONS) | (name == "userAgent"):
                cleaned = clean_texts(raw, _CLEANERS.get(name, _any_text))
                if cleaned is not raw:
                    self.fields[name] = msgspec.Raw(cleaned)
                    self.notes.append(name)


_PERSONS = ("user", "impersonatedUser")
_CLEANED_ELSEWHERE = frozenset((*_BODIES, "requestURI", "responseStatus", "annotations", "auditID", "level", "stage", "objectRef"))


def _signer_of(body: bytes) -> str | None:
    """The signer of a certificate's request: its name is not a credential, and rights on it decide who may approve."""
    if b'"signerName"' not in body:
        return None
    try:
        name = _signed.decode(body).spec.signerName
    except ValueError:
        return None
    return name if _SIGNER_NAME.fullmatch(name) else None


def _clean_exec(body: bytes) -> bytes:
    """PodExecOptions without the credentials in its command, as a managed cluster logs it; the same object without any."""
    options = _anything.decode(body)
    command = options.get("command")
    if not isinstance(command, list):
        return body
    cleaned = clean_command([argument if isinstance(argument, str) else str(argument) for argument in command])
    return body if cleaned == command else _encoder.encode(options | {"command": cleaned})


def _clean(text: str) -> str:
    return clean_text(text) if may_hold_by_form(text.encode("utf-8", "replace")) else text


def _clean_foreign(text: str) -> str:
    """An annotation that a policy or a webhook wrote: it may quote an object, or name a password with its value."""
    return _PASSWORD.sub(rf"\g<1>{REDACTED}", clean_config_text(_clean(clean_manifest(text))))


def _any_text(name: str, text: str) -> str:
    return clean_text(text)


def _named_text(name: str, text: str) -> str:
    """A value of a user's `extra`: an authenticator may put the token itself there."""
    return REDACTED if text and _announces_credential(name) else clean_text(text)


def _agent_text(name: str, text: str) -> str:
    return clean_named(text)


_CLEANERS = {"user": _named_text, "impersonatedUser": _named_text, "userAgent": _agent_text}


def _announces_credential(name: str) -> bool:
    plain = name.endswith("credential-id") or name in ("username", "uid", "groups", "scopes.authorization.openshift.io")
    return not plain and is_secret_name(name.rpartition("/")[2])


def may_name_password(data: bytes) -> bool:
    """Whether a text of these bytes may name a password with its value."""
    return _PASSWORD_SIGN.search(data) is not None


def person_needs_a_look(fields: bytes) -> bool:
    """Whether fields about the user, as JSON writes them, may hold a credential."""
    return (
        may_hold_by_form(fields)
        or _ASSIGNED.search(fields) is not None
        or any(b"\\" in name or _announces_credential(name.decode("utf-8", "replace")) for name in _MEMBER_NAME.findall(fields))
    )


def _failure_text(name: str, text: str) -> str:
    """A failure's field; an unknown field is treated like its message."""
    return text if name in ("policy", "binding", "expressionIndex", "validationActions") else server_words(text)


def _words(value: Any) -> Iterator[str]:
    """The texts in a removed value, and its numbers as texts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and len(str(value)) >= _QUOTED_LENGTH_MIN:
        yield str(value)


def _unescaped(text: str) -> str:
    """The text without the escapes that quoting adds: a message may quote a value with %q, inside another quoted text."""
    return text.replace("\\\\", "\\").replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")
