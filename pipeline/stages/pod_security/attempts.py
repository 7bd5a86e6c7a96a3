"""What a recorded request on a Pod, a controller or a namespace was, whether or not it came to validating admission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...history.event import Event, decode_json
from ...history.intended import may_apply
from ...history.reconstruct import Attempt, NotReplayed, attempted_requests, before_validation
from ...history.versions import Versions
from ...history.webhook_changes import with_webhook_patches
from ...history.world import LogHistory
from ...request import AdmissionRequest, Grade, Known, Operation, Unknown
from .subject import NAMESPACES


def attempt_of(event: Event, versions: Versions, history: LogHistory, with_pods: Callable[[], LogHistory]) -> Attempt:
    """The attempt that an event records. `with_pods` gives a history that also has all Pods; it is asked where it tells more."""
    found = attempted_requests(event, versions, history)
    if event.resource.resource != NAMESPACES[1]:
        if isinstance(found, NotReplayed) and may_apply(event):
            # Only a list of all Pods tells whether an apply was to create its Pod.
            found = attempted_requests(event, versions, with_pods())
        if not isinstance(found, NotReplayed):
            found = [_as_sent(each, event) for each in found]
    return Attempt(found, before_validation(event, versions))


def _as_sent(request: AdmissionRequest, event: Event) -> AdmissionRequest:
    """Of an apply that was to create, no more than the client's object is known, and it is enough."""
    if isinstance(request.object, Known) or request.operation is not Operation.CREATE or event.request_raw is None:
        return request
    found = with_webhook_patches(decode_json(event.request_raw), event.annotations)
    return replace(request, object=found if isinstance(found, Unknown) else Known(found, "requestObject", Grade.INFERRED))
