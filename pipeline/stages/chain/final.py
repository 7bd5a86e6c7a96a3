"""A changed object behind mutation: as validating admission sees it, and as the answer shows it."""

from __future__ import annotations

import dataclasses

from ...history.event import decode_json
from ...request import AdmissionRequest, Grade, Known, Object, Operation, Unknown
from ..mutating.afterwards import prepared
from ..mutating.nil_lists import as_json
from ..mutating.walk import Met
from .onto import count_generation, onto, part_labels
from .plugins import is_pod, with_class, with_tokens


def final_request(met: Met, before: Object, after: Object) -> AdmissionRequest:
    """The request as validating admission sees it, where mutation leaves `after` in place of `before`."""
    request, event = met.request, met.event
    assert isinstance(request, AdmissionRequest)
    if event.written_raw is not None and not isinstance(met.attempt, Unknown):
        base = met.attempt.object
        if isinstance(base, Known) and base.value is not None:
            value = onto(before, after, as_json(base.value))
            value = with_tokens(value) if is_pod(request) else value
            return dataclasses.replace(met.attempt, object=Known(value, "the recorded object with the changes", base.grade))
    grade = request.object.grade if isinstance(request.object, Known) else Grade.PARTIAL
    changed = dataclasses.replace(request, object=Known(after, "the object after mutating policies", grade))
    return prepared(changed, met.name, event, met.kind)


def stored_object(met: Met, before: Object, after: Object) -> Object | None:
    """The object in the answer to a request that succeeded, where the recorded answer shows one."""
    raw, request = met.event.written_raw, met.request
    assert isinstance(request, AdmissionRequest)
    if raw is None:
        return None
    found: Object = onto(before, after, decode_json(raw))
    if is_pod(request):
        found = with_class(with_tokens(found))
    count_generation(found, request.old_object)
    if request.operation is Operation.CREATE:
        part_labels(found)
    return found
