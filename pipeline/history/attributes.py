"""The attributes of a request: kind, name and namespace as validating admission saw them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Protocol

from ingest.redaction.redact import is_withheld

from ..request import Evidence, Grade, GroupVersionKind, GroupVersionResource, Known, Unknown
from .event import BodyKind, Event, body_kind, head_of
from .kinds import by_resource, kind_of
from .reviewed import SOURCE as REVIEW
from .scale import BUILT_IN_PATHS, ScalePaths
from .writes import metadata_head

_DENIED_NAME = re.compile(r'^\S+ "([^"]+)" is forbidden: ')


class Discovery(Protocol):
    """The custom resources that the cluster served at a time, and whether policies may have changed objects without a trace."""

    def custom_kind(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> GroupVersionKind | None:
        """The kind of a custom resource, or None if no CRD is known for it."""
        ...

    def scale_paths(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> ScalePaths | None:
        """Where a custom resource keeps its scale, or None if no CRD is known to say so."""
        ...

    def sets_defaults(self, cluster: str, resource: GroupVersionResource, moment: datetime) -> bool:
        """Whether the schema of a custom resource has defaults; also True if no CRD is known for it."""
        ...

    def lists_all(self, event: Event, moment: datetime) -> bool:
        """Whether every object of the request's resource and namespace that existed at a moment is in the record, by name."""
        ...

    def has_mutating_policies(self, cluster: str) -> bool:
        """Whether the record shows any binding of a MutatingAdmissionPolicy. Such a policy leaves no trace in the log."""
        ...


def kind_of_request(event: Event, discovery: Discovery | None) -> Evidence[GroupVersionKind]:
    """The kind of the object in the request: from the table for a built-in resource, else from a body or a definition."""
    kind = kind_of(event.resource, event.subresource)
    if kind is not None:
        return Known(kind, "built-in resources")
    if event.review is not None:
        return Known(event.review.kind, REVIEW)
    for raw, source in ((event.response_raw, "responseObject"), (event.request_raw, "requestObject")):
        head = head_of(raw)
        if body_kind(head, raw) is BodyKind.OBJECT and head.kind != "DeleteOptions":
            return Known(GroupVersionKind(event.resource.group, event.resource.version, head.kind), source)
    custom = discovery.custom_kind(event.cluster, event.resource, event.ts) if discovery else None
    if custom is not None:
        return Known(custom, "CustomResourceDefinition", Grade.INFERRED)
    return Unknown(f"no body or CustomResourceDefinition tells the kind of {event.resource.resource}.{event.resource.group}")


def scale_paths_of(event: Event, discovery: Discovery | None) -> Evidence[ScalePaths]:
    """Where the scaled resource of a request keeps its scale."""
    resource = event.resource
    if by_resource(resource.group, resource.resource) is not None:
        return Known(BUILT_IN_PATHS, "built-in resources")
    found = discovery.scale_paths(event.cluster, resource, event.ts) if discovery else None
    if found is None:
        return Unknown(f"no CustomResourceDefinition tells where {resource.resource}.{resource.group} keep their scale")
    return Known(found, "CustomResourceDefinition", Grade.INFERRED)


def name_of_request(event: Event) -> Evidence[str]:
    """The name. The server resolves a generated one before validating admission; the response or a denial's message shows it."""
    if event.name:
        is_hidden = is_withheld(event.name) and event.is_redacted
        return Unknown("it was redacted") if is_hidden else Known(event.name, "objectRef")
    response = event.response_head
    told = metadata_head(event.response_raw) if body_kind(response, event.response_raw) is BodyKind.TABLE else response.meta
    if event.succeeded and told.name:
        return Known(told.name, "responseObject")
    if match := _DENIED_NAME.match(event.message):
        return Known(match[1], "responseStatus.message")
    return Unknown("the name was generated, and no response tells it")


def namespace_of_request(event: Event) -> str:
    """The namespace. A request for a Namespace has that object's own name here, unless the server generates the name."""
    if event.resource.resource == "namespaces" and not event.resource.group:
        return event.namespace or event.name
    return event.namespace
