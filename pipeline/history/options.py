"""The options of a request: CreateOptions, UpdateOptions, DeleteOptions, and the objects of CONNECT requests.

All of them come from the query of the URI; DeleteOptions also from a body, which then wins as a whole.
Follows kubernetes/apiserver pkg/endpoints/handlers/{create,update,patch,delete,rest}.go, and kubernetes/api core/v1 for types.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from ..request import GroupVersionKind, Object, Operation, Unknown
from .event import Event

OPTIONS_API_VERSION = "meta.k8s.io/v1"

_Query: TypeAlias = dict[str, list[str]]
_Type: TypeAlias = Literal["string", "strings", "bool", "int", "ints"]

_WRITE_FIELDS: tuple[tuple[str, _Type], ...] = (("dryRun", "strings"), ("fieldManager", "string"), ("fieldValidation", "string"))

# In the order of the Go struct. `preconditions` is a struct, which a query cannot hold.
_DELETE_FIELDS: tuple[tuple[str, _Type], ...] = (
    ("gracePeriodSeconds", "int"),
    ("orphanDependents", "bool"),
    ("propagationPolicy", "string"),
    ("dryRun", "strings"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "bool"),
)

# Fields of the CONNECT option types. All are omitempty but those in _NOT_OMITTED, which Go writes as null when they are empty.
_CONNECT_FIELDS: dict[str, tuple[tuple[str, _Type], ...]] = {
    "PodExecOptions": (
        ("stdin", "bool"),
        ("stdout", "bool"),
        ("stderr", "bool"),
        ("tty", "bool"),
        ("container", "string"),
        ("command", "strings"),
    ),
    "PodAttachOptions": (("stdin", "bool"), ("stdout", "bool"), ("stderr", "bool"), ("tty", "bool"), ("container", "string")),
    "PodPortForwardOptions": (("ports", "ints"),),
    "PodProxyOptions": (("path", "string"),),
    "ServiceProxyOptions": (("path", "string"),),
    "NodeProxyOptions": (("path", "string"),),
}
_NOT_OMITTED = {("PodExecOptions", "command")}


# GKE's entries and trimmed logs lack it.
NO_URI = Unknown("the URI of the request was not recorded")


def query_of(uri: str) -> _Query:
    """The query parameters of a request URI, repeated ones in order, empty ones kept."""
    return parse_qs(uri.partition("?")[2], keep_blank_values=True) if "?" in uri else {}


def asks_dry_run(uri: str) -> bool:
    """Whether the query of a request URI asks for a dry run."""
    return "?" in uri and _asks_dry_run(uri.partition("?")[2])


@lru_cache(maxsize=4096)
def _asks_dry_run(query: str) -> bool:
    return is_dry_run(parse_qs(query, keep_blank_values=True))  # clients send few distinct queries


def is_dry_run(query: _Query) -> bool:
    """Whether a query asks for a dry run: any non-empty dryRun list counts (kubernetes/apiserver pkg/util/dryrun)."""
    return bool([value for value in query.get("dryRun", []) if value])


def write_options(operation: Operation, query: _Query) -> Object:
    """CreateOptions or UpdateOptions as policies see them. A patch passes on neither `force` nor the default field manager."""
    kind = "CreateOptions" if operation is Operation.CREATE else "UpdateOptions"
    return {"kind": kind, "apiVersion": OPTIONS_API_VERSION, **_fields(query, _WRITE_FIELDS)}


def delete_options(query: _Query, body: Any) -> Object:
    """DeleteOptions as sent. The server logs a body under its internal version; policies see `meta.k8s.io/v1`.

    The fields that the server adds afterwards (the grace period of a pod) depend on the deleted object: see `deletion.py`.
    """
    if isinstance(body, dict):
        options = {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}
    else:
        options = _fields(query, _DELETE_FIELDS)
    return {"kind": "DeleteOptions", "apiVersion": OPTIONS_API_VERSION, **options}


def connect_object(kind: GroupVersionKind, event: Event) -> Object:
    """The options object that a CONNECT request hands to admission, with the zero values that Go writes."""
    query = query_of(event.request_uri)
    fields = _CONNECT_FIELDS.get(kind.kind, ())
    if any(name == "path" for name, _ in fields):
        query = {"path": [_proxied_path(event)]}
    values = _fields(query, fields)
    for name, _ in fields:
        if (kind.kind, name) in _NOT_OMITTED:
            values.setdefault(name, None)
    return {"kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}".lstrip("/"), **values}


def _proxied_path(event: Event) -> str:
    """The rest of the path after `/proxy`, which the server takes as the `path` option regardless of the query."""
    path = unquote(urlsplit(event.request_uri).path)
    head, found, tail = path.partition(f"/{event.resource.resource}/{event.name}/proxy")
    return tail if found and head else ""


def _fields(query: _Query, fields: Sequence[tuple[str, _Type]]) -> Object:
    result: Object = {}
    for name, kind in fields:
        if name in query and (value := _convert(query[name], kind)):
            result[name] = value
        elif name in query and kind == "int":
            result[name] = 0  # a pointer in Go: set to zero is not the same as absent
    return result


def _convert(values: list[str], kind: _Type) -> Any:
    """One parameter as kubernetes/apimachinery pkg/conversion/queryparams decodes it: the first of several for a scalar."""
    match kind:
        case "strings":
            return values
        case "bool":
            return values[0].lower() not in ("false", "0")
        case "int":
            return int(values[0]) if values[0].lstrip("-").isdigit() else 0
        case "ints":
            return [int(value) for value in values if value.lstrip("-").isdigit()]
        case _:
            return values[0]
