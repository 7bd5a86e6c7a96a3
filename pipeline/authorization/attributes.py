"""The authorization question of a request, read from its URL as the server does, or from its objectRef if the URL is missing.

Follows kubernetes/apiserver pkg/endpoints/request/requestinfo.go and pkg/endpoints/filters/authorization.go. The server completes
objectRef from bodies, which no authorizer sees (pkg/audit/request.go, LogRequestObject). So objectRef says less than a URL does:
see `info_of`. The name of a create is empty here.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from ingest.notes import REDACTED
from ingest.server.paths import resource_path

from ..cel.library.authorizer import Attributes
from ..history.event import Event
from ..history.kinds import by_resource
from ..matching.field_text import parse_field_selector
from ..matching.selectors import SelectorError
from ..request import GroupVersionResource, Unknown
from ..withheld import hides_names, holds_placeholder

_METHOD_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# The method of a recorded verb. A read may have been HEAD as well, which makes no difference.
METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "list": "GET",
    "watch": "GET",
}
_SELECTING_VERBS = ("list", "watch", "deletecollection")
_INT64 = re.compile(r"[+-]?[0-9]+")

Query = dict[str, list[str]]


class RequestInfo(NamedTuple):
    """A URL as the server parses it. `path` is decoded; everything from `group` on is empty unless the URL names a resource.

    A selector is None where the log does not show it. `is_redacted`: redaction replaced the name, or a part of the path.
    """

    verb: str
    path: str
    is_resource_request: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str | None = ""
    label_selector: str | None = ""
    is_redacted: bool = False

    @property
    def attributes(self) -> Attributes:
        """The attributes that authorizers are asked about. The path counts only without a resource; the version never counts."""
        if not self.is_resource_request:
            return Attributes(self.verb, self.path, is_redacted=self.is_redacted)
        return Attributes(
            self.verb,
            "",
            self.group,
            self.resource,
            self.subresource,
            self.namespace,
            self.name,
            self.field_selector,
            self.label_selector,
            is_redacted=self.is_redacted,
        )


def request_info(method: str, uri: str) -> RequestInfo | None:
    """Parse a request. None for the few URLs that the server cannot parse: it answers those with 500, unaudited."""
    raw_path, _, raw_query = uri.partition("?")
    path = unquote(raw_path)
    found = resource_path(uri)
    if found is None:
        return RequestInfo(method.lower(), path)
    if not found.resource:
        return None
    query = parse_qs(raw_query, keep_blank_values=True)
    verb, name = found.verb or _METHOD_VERBS.get(method, ""), found.name
    if not name and verb == "get":
        verb, name = _list_or_watch(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
    selects = verb in _SELECTING_VERBS and not found.verb
    return RequestInfo(
        verb,
        path,
        True,
        *found[1:6],
        name,
        query.get("fieldSelector", [""])[0] if selects else "",
        query.get("labelSelector", [""])[0] if selects else "",
    )


class Recorded(NamedTuple):
    """What an audit event has of the question: its verb, its URL, its objectRef, and whether an authorizer refused the request.

    `uri` is empty where the log has no requestURI, `resource` where it has no objectRef. `is_redacted`: redaction replaced a part
    of one of them.
    """

    verb: str
    uri: str = ""
    resource: GroupVersionResource = GroupVersionResource("", "", "")
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    is_forbidden: bool = False
    is_redacted: bool = False


def info_of(recorded: Recorded) -> RequestInfo | Unknown:
    """The request as the server parsed it, or why the log does not tell.

    Without a requestURI, as in every entry of GKE, the verb and objectRef tell it. API group, resource and subresource are exact.
    Namespace and name are those of the URL, but for a create: there the server completes both from the body. So the name of a
    create without subresource is left out, and the namespace of one on a resource that has none. Selectors are unknown, and so is
    the path of a request for no resource. Where redaction replaced a part of the path, objectRef tells the same.
    """
    is_hidden = recorded.is_redacted and holds_placeholder(recorded.uri.partition("?")[0])
    # The verb says nothing here: that of a request by a method of no verb, such as OPTIONS, is empty.
    if recorded.uri and not (is_hidden and recorded.resource.resource):
        info = request_info(METHODS.get(recorded.verb, recorded.verb.upper()), recorded.uri)
        if info is None:
            return Unknown("the server cannot parse this URL")
        # The server authorized the recorded verb; the method is only a guess from it.
        return info._replace(verb=recorded.verb, is_redacted=is_hidden)
    if not recorded.resource.resource:
        return Unknown("the log has neither the URI of the request nor its resource")
    return _referred(recorded) if recorded.verb else Unknown("the log has neither the URI of the request nor its verb")


def _referred(recorded: Recorded) -> RequestInfo:
    """The request that an objectRef names."""
    group, version, resource = recorded.resource.group, recorded.resource.version, recorded.resource.resource
    selector = None if recorded.verb in _SELECTING_VERBS else ""
    info = RequestInfo(
        recorded.verb,
        "",
        True,
        group,
        version,
        resource,
        recorded.subresource,
        recorded.namespace,
        recorded.name,
        selector,
        selector,
        recorded.is_redacted and holds_placeholder(recorded.name),
    )
    # The server reads no body of a request that an authorizer refuses, so there objectRef is as the URL was.
    if recorded.verb != "create" or recorded.is_forbidden:
        return info
    kind = by_resource(group, resource)
    is_global = kind is not None and not kind.namespaced
    name = info.name if recorded.subresource else ""
    return info._replace(namespace="" if is_global else info.namespace, name=name, is_redacted=bool(name) and info.is_redacted)


def recorded_of_event(event: Event) -> Recorded:
    """What an audit event has of its question."""
    return Recorded(
        event.verb,
        event.request_uri,
        event.resource,
        event.subresource,
        event.namespace,
        event.name,
        event.annotations.get("authorization.k8s.io/decision") == "forbid",
        hides_names(event.notes.get(REDACTED, "")),
    )


def attributes_of(event: Event) -> Attributes | Unknown:
    """The attributes about which the server asked its authorizers for an audit event, or why the log does not tell: see info_of."""
    info = info_of(recorded_of_event(event))
    return info if isinstance(info, Unknown) else info.attributes


def _list_or_watch(query: Query) -> tuple[str, str]:
    """The verb of a GET without a name, and the name that a field selector asks for."""
    # Every value that does not mean no means yes: apimachinery pkg/runtime/conversion.go.
    verb = "watch" if "watch" in query and query["watch"][0].lower() not in ("false", "0") else "list"
    # Options that cannot be parsed lose the name. So does a bad label selector, which is not checked here: the server answers it
    # with 400.
    if not all(_is_int64(query[option][0]) for option in ("limit", "timeoutSeconds") if option in query):
        return verb, ""
    name = _selected_name(query.get("fieldSelector", [""])[0])
    # apimachinery pkg/api/validate/content/path.go
    is_segment = name not in (".", "..") and "/" not in name and "%" not in name
    return verb, name if is_segment else ""


def _is_int64(text: str) -> bool:
    return bool(_INT64.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _selected_name(selector: str) -> str:
    """The one value of metadata.name that a field selector allows, or "". Follows apimachinery pkg/fields/selector.go."""
    try:
        terms = parse_field_selector(selector)
    except SelectorError:
        return ""
    return next((term.value for term in terms if term.field == "metadata.name" and not term.negated), "")
