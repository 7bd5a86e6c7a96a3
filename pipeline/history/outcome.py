"""Did validating admission run for a recorded request, and what did it say?

The rules are those of `queries/reach_rules.py`, which the view `reach` reads too. Where the log cannot tell, the answer is UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from queries.reach import Answer, Answered, Reach, reach_of
from queries.reach_rules import CONNECT_SUBRESOURCES, NOTHING, UNRECORDED

from .event import Event, Raw

# Whether validating admission policies were asked: ADMITTED, DENIED, ASKED, NOT_REACHED or UNKNOWN.
Admission: TypeAlias = Answer


@dataclass(frozen=True, slots=True)
class Outcome:
    """The recorded outcome of validating admission, and the reason for it."""

    admission: Admission
    reason: str


def reach_of_event(event: Event) -> Reach:
    """How far the request of an event came: the row of the view `reach` for it."""
    resource = event.resource
    return reach_of(
        Answered(
            verb=event.verb,
            api_group=resource.group,
            resource=resource.resource,
            subresource=event.subresource,
            code=event.code,
            reason=event.reason,
            message=event.message,
            annotations=event.annotations,
            notes=event.notes,
            listed=_listed(event) if event.verb == "deletecollection" else "",
        )
    )


def outcome_of(event: Event) -> Outcome:
    """The recorded outcome of validating admission for one request.

    It does not single out resources that policies never judge: matching leaves these out, except for policies from static
    manifests.
    """
    reach = reach_of_event(event)
    return Outcome(reach.at("policies"), reach.admission_why)


def is_connect(event: Event) -> bool:
    """Whether a request opens a connection to a pod, service or node: CONNECT, with any HTTP method."""
    return event.subresource in CONNECT_SUBRESOURCES


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


def _listed(event: Event) -> str:
    """Why the answer to a deletecollection shows no objects: it lists none, or it is not recorded. Empty if it shows some."""
    head = event.response_head
    if not head.kind.endswith("List") or head.api_version.startswith("meta.k8s.io/"):
        return UNRECORDED
    return "" if _has_items(event.response_raw) else NOTHING


def _has_items(raw: Raw | None) -> bool:
    try:
        return bool(msgspec.json.decode(raw or b"", type=_List).items)
    except msgspec.DecodeError:
        return False
