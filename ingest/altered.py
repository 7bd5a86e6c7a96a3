"""Evidence that a pipeline changed between the API server and Hindcast: bodies that no server writes, and keys under other names.

An API server records the object that it encoded: with kind, apiVersion and metadata (kubernetes/apiserver pkg/audit/request.go,
encodeObject; no exception in 241,282 recorded bodies of 1.33 and 1.36). Tables print `{}` for no body; Elastic's Kubernetes
integration takes the metadata out; filters such as Fluent Bit's Replace_Dots rename keys. Of such a body nothing is known that a
rule may read, so it is no body. The note `altered` says of each why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .event import ABSENT, VALIDATION_FAILURE

ALTERED = "altered"
# Why Hindcast does not use a body.
EMPTY, NO_KIND, NO_METADATA, RENAMED = "empty", "kind", "metadata", "keys"

# Why Hindcast does not use a URI: objectRef names another resource.
OTHER_RESOURCE = "resource"
# The same as a sentence, for people.
ALTERED_WORDS = {
    EMPTY: "the log has {} for its body, which no API server writes: the pipeline to this log took the body out",
    NO_KIND: "its body in the log lacks kind or apiVersion, which an API server always writes: the pipeline to this log changed it",
    NO_METADATA: "its body in the log lacks metadata, as Elastic's Kubernetes integration leaves it: keep event.original there",
    RENAMED: "keys of its body may have other names in the log, because a filter replaced the dots in keys: turn that filter off",
}

# The head of nearly all bodies, as servers write it.
_HEAD = re.compile(rb'\s*\{\s*"kind"\s*:\s*"[^"]+"\s*,\s*"apiVersion"\s*:\s*"[^"]+"\s*,\s*"metadata"\s*:\s*\{')
_NOTHING = re.compile(rb"\s*\{\s*\}\s*")
# A key that a filter may have renamed; one with an escape may hold anything.
_DOUBTFUL_KEY = re.compile(rb'"(?:[^"\\]*_[^"\\]*|[^"\\]*(?:\\.[^"\\]*)+)"\s*:')
# The bodies that are objects; the body of a patch is a patch, and that of a delete its options.
_OBJECTS = {"requestObject": frozenset(("create", "update")), "responseObject": frozenset(("create", "update", "patch"))}
_UNRECORDED = frozenset(("None", "Metadata"))
# Annotations of an API server whose names are known as a whole: they are found where a filter renamed the slash as well.
_KNOWN = {
    re.sub("[^a-z0-9]", "", name): name
    for name in (
        VALIDATION_FAILURE,
        "authorization.k8s.io/decision",
        "authorization.k8s.io/reason",
        "audit.k8s.io/truncated",
        "k8s.io/deprecated",
        "k8s.io/removed-release",
        "mutation.webhook.admission.k8s.io/round_0_index_0",
        "pod-security.kubernetes.io/audit-violations",
        "pod-security.kubernetes.io/enforce-policy",
        "pod-security.kubernetes.io/exempt",
    )
}


# A filter renames all keys or none.
_ON_NEARLY_ALL = "authorization.k8s.io/decision"


class _Head(msgspec.Struct, rename="camel"):
    kind: msgspec.Raw = ABSENT
    api_version: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT


_head = msgspec.json.Decoder(_Head)
_no_values = (b"", b"null", b'""')


def restored(annotations: dict[str, str], separator: str) -> dict[str, str]:
    """Annotations under the names that a server gives them, with what `renamed_with` said of them."""
    if not separator:
        return annotations
    return {_restored(key): text for key, text in annotations.items()}


def renamed_with(annotations: Mapping[str, str]) -> str:
    """What stands for dots in the keys of an event, as its annotations show; empty where none was renamed."""
    if _ON_NEARLY_ALL in annotations:
        return ""
    for key in annotations:
        prefix, slash, _ = key.partition("/")
        if slash and "_" in prefix:
            return "_"  # that part is the name of a domain, which has no underscore
        if "." not in prefix and (known := _KNOWN.get(_bare(key))) is not None:
            return key[known.index(".")] if len(key) == len(known) else "?"
    return ""


def _restored(key: str) -> str:
    prefix, slash, name = key.partition("/")
    if "." not in prefix and (known := _KNOWN.get(_bare(key))) is not None:
        return known
    return prefix.replace("_", ".") + slash + name if slash else key


def _bare(key: str) -> str:
    return re.sub("[^a-z0-9]", "", key)


def altered_bodies(notes: Mapping[str, str]) -> dict[str, str]:
    """The bodies of an event that do not count, because a pipeline changed them: the field, and why."""
    told = (each.partition("=") for each in notes.get(ALTERED, "").split(",") if each)
    return {field: why for field, _, why in told if why in ALTERED_WORDS}


def why_no_body(field: str, verb: str | None, level: str | None, body: bytes, separator: str) -> str | None:
    """Why a body does not count; an empty text for an empty body that stands for "not recorded", and None for a body.

    `separator` is what stands for dots in the keys of the event: see `renamed_with`.
    """
    if not separator and _HEAD.match(body):
        return None
    if _NOTHING.fullmatch(body) and not (field == "requestObject" and verb == "patch"):
        return EMPTY if verb in _OBJECTS[field] and level not in _UNRECORDED else ""
    if separator and (separator != "_" or _DOUBTFUL_KEY.search(body)):
        return RENAMED
    if verb not in _OBJECTS[field] or _HEAD.match(body):
        return None
    try:
        head = _head.decode(body)
    except (ValueError, RecursionError):
        return None  # no JSON object: whoever reads it says so
    if bytes(head.kind) in _no_values or bytes(head.api_version) in _no_values:
        return NO_KIND
    kind = bytes(head.kind).strip(b'"')
    has_none = kind == b"Status" or kind.endswith((b"List", b"Options"))
    return NO_METADATA if bytes(head.metadata) in _no_values and not has_none else None
