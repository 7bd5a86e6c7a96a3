"""The resource that the path of a URL names, as kubernetes/apiserver pkg/endpoints/request/requestinfo.go reads it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

_PREFIXES = ("api", "apis")
# Verbs that old URLs have in their path: /api/v1/watch/pods.
_PATH_VERBS = ("proxy", "watch")
# Path parts that follow a namespace's name and are not namespaced resources.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class ResourcePath(NamedTuple):
    """The parts of a path that names a resource; `verb` is that of an old URL. Texts are empty where the path lacks them.

    Without a resource, the server cannot read the path.
    """

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str


def resource_path(uri: str) -> ResourcePath | None:
    """The resource of a URI, or None if its path names none."""
    stripped = unquote(uri.partition("?")[0]).strip("/")
    parts = stripped.split("/") if stripped else []
    if len(parts) < 3 or parts[0] not in _PREFIXES:
        return None
    group = ""
    if parts[0] == "apis":
        if len(parts) < 4:
            return None
        group = parts.pop(1)
    version, *parts = parts[1:]
    verb = ""
    if parts[0] in _PATH_VERBS:
        verb, *parts = [*parts, ""] if len(parts) == 1 else parts
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        # To authorizers, a Namespace is in the namespace of its own name.
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and verb != "proxy" else ""
    return ResourcePath(verb, group, version, parts[0], subresource, namespace, name)
