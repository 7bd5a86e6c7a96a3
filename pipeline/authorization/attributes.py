"""The authorization question of a request, read from its URL as the server does.

Follows kubernetes/apiserver pkg/endpoints/request/requestinfo.go and pkg/endpoints/filters/authorization.go. objectRef of an audit
event cannot replace it: the server completes objectRef from bodies, which no authorizer sees. The name of a create is empty here.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from ..cel.library.authorizer import Attributes
from ..matching.field_text import parse_field_selector
from ..matching.selectors import SelectorError

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
_PREFIXES = ("api", "apis")
# Verbs that old URLs have in their path: /api/v1/watch/pods.
_PATH_VERBS = ("proxy", "watch")
# Path parts that follow a namespace's name and are not namespaced resources.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_SELECTING_VERBS = ("list", "watch", "deletecollection")
_INT64 = re.compile(r"[+-]?[0-9]+")

Query = dict[str, list[str]]


class RequestInfo(NamedTuple):
    """A URL as the server parses it. `path` is decoded; everything from `group` on is empty unless the URL names a resource."""

    verb: str
    path: str
    is_resource_request: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def attributes(self) -> Attributes:
        """The attributes that authorizers are asked about. The path counts only without a resource; the version never counts."""
        if not self.is_resource_request:
            return Attributes(self.verb, self.path)
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
        )


def request_info(method: str, uri: str) -> RequestInfo | None:
    """Parse a request. None for the few URLs that the server cannot parse: it answers those with 500, unaudited."""
    raw_path, _, raw_query = uri.partition("?")
    path = unquote(raw_path)
    other = RequestInfo(method.lower(), path)
    stripped = path.strip("/")
    parts = stripped.split("/") if stripped else []
    if len(parts) < 3 or parts[0] not in _PREFIXES:
        return other
    group = ""
    if parts[0] == "apis":
        if len(parts) < 4:
            return other
        group = parts.pop(1)
    version, *parts = parts[1:]
    return _resource_request(method, path, group, version, parts, parse_qs(raw_query, keep_blank_values=True))


def _resource_request(method: str, path: str, group: str, version: str, parts: list[str], query: Query) -> RequestInfo | None:
    verb = _METHOD_VERBS.get(method, "")
    has_path_verb = parts[0] in _PATH_VERBS
    if has_path_verb:
        if len(parts) < 2:
            return None
        verb, *parts = parts
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        # To authorizers, a Namespace is in the namespace of its own name.
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and verb != "proxy" else ""
    if not name and verb == "get":
        verb, name = _list_or_watch(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
    selects = verb in _SELECTING_VERBS and not has_path_verb
    return RequestInfo(
        verb,
        path,
        True,
        group,
        version,
        parts[0],
        subresource,
        namespace,
        name,
        query.get("fieldSelector", [""])[0] if selects else "",
        query.get("labelSelector", [""])[0] if selects else "",
    )


def recorded_attributes(verb: str, request_uri: str) -> Attributes | None:
    """The attributes of an audit event; None where the server cannot parse the URL."""
    info = request_info(METHODS.get(verb, verb.upper()), request_uri)
    if info is None:
        return None
    # The server authorized the recorded verb; the method is only a guess from it.
    return info.attributes._replace(verb=verb)


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
