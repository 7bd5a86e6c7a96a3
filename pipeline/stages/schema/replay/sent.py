"""What a client asked for in one recorded write of a custom resource."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ....history.event import Event, decode_json
from ....history.intended import why_no_request
from ....history.options import query_of
from ....history.patching import PatchType, patch_type
from ....request import Json


class Way(StrEnum):
    """How an object is written."""

    CREATE = "create"
    UPDATE = "update"
    JSON_PATCH = "JSON patch"
    MERGE_PATCH = "merge patch"
    APPLY = "apply"


STRICT: Final = "strict decoding error"
_REFUSED = re.compile(r'^[A-Za-z0-9.-]+ "([^"]*)" (?:is invalid:|already exists)')
_OF_PATCH = {
    PatchType.JSON: Way.JSON_PATCH,
    PatchType.MERGE: Way.MERGE_PATCH,
    PatchType.APPLY: Way.APPLY,
    PatchType.STRATEGIC: Way.MERGE_PATCH,  # Its directives are fields that the schema does not know.
}


@dataclass(frozen=True, slots=True)
class Sent:
    """One write. Without a recorded body, `why_no_body` says why. `is_strict` is None if no URI tells it, and no answer.

    `is_manifest`: the body is the file as the client wrote it. `webhook_patches` are the patches that mutating webhooks made.
    `manager` is the `fieldManager` of the URI.

    The API server records the body of a create or update after it pruned and defaulted it by the schema of the time. It records a
    patch as it was sent (kubernetes/apiserver pkg/endpoints/handlers/{create,update,patch}.go).
    """

    way: Way
    version: str
    subresource: str
    namespace: str
    name: str
    is_strict: bool | None
    is_forced: bool
    body: Json
    why_no_body: str = ""
    webhook_patches: tuple[tuple[Any, ...], ...] = ()
    is_manifest: bool = False
    manager: str = ""

    @property
    def shows_schema_of_the_time(self) -> bool:
        """Whether the recorded body went through the schema of the time."""
        return self.way in (Way.CREATE, Way.UPDATE) and self.subresource != "scale"


def sent_of(event: Event) -> Sent:
    """What the client of an event asked for: the event is a create, an update or a patch."""
    body: Any = None if event.request_raw is None else decode_json(event.request_raw)
    way = _way_of(event, body)
    if way is None:
        body = None
    query = query_of(event.request_uri)
    return Sent(
        way=way or Way.MERGE_PATCH,
        version=event.resource.version,
        subresource=event.subresource,
        namespace=event.namespace,
        name=_name_of(event),
        is_strict=_is_strict(event),
        is_forced=query.get("force", [""])[0] == "true",
        body=body,
        why_no_body="" if body is not None else _why_no_body(event, way),
        manager=query.get("fieldManager", [""])[0],
    )


def _is_strict(event: Event) -> bool | None:
    """Whether a write asked for strict field validation; None if this was not recorded."""
    if event.request_uri:
        return query_of(event.request_uri).get("fieldValidation", [""])[0] == "Strict"
    return True if STRICT in event.message else None


def _name_of(event: Event) -> str:
    """The name of the object. The API server generates one before validation, so that a refusal tells it as well."""
    if event.name:
        return event.name
    if event.succeeded and event.response_head.meta.name:
        return event.response_head.meta.name
    if (found := _REFUSED.match(event.message)) is not None:
        return found[1]
    prefix = event.request_head.meta.generate_name
    return f"{prefix}xxxxx" if prefix and not event.request_head.meta.name else ""


def _why_no_body(event: Event, way: Way | None) -> str:
    return (
        f"the body was not recorded: {why_no_request(event)}" if way else "the URI was not recorded, so the patch may be an apply"
    )


def _way_of(event: Event, body: Any) -> Way | None:
    """None for a patch whose type the log does not tell."""
    if event.verb == "create":
        return Way.CREATE
    if event.verb == "update":
        return Way.UPDATE
    return _OF_PATCH.get(patch_type(body, event.request_uri, event.resource, event.subresource))
