"""Reads the Pod, or the template, of a recorded request: once for all labels under which it is judged."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ...history.event import Event
from ...history.reconstruct import Attempt, NotReplayed
from ...request import AdmissionRequest, Evidence, Grade, GroupVersionResource, Known, Object, Operation, Unknown
from .checks.pod import Pod
from .created import as_met
from .significance import is_significant
from .subject import PODS, is_pod, template_of, told_to_count

_NOT_COUNTED = "the update changes neither the number of containers nor an image, so that it is not judged"
_NO_TEMPLATE = "the object has no template"


class Read(NamedTuple):
    """The Pod of a request; without one, `unread` says why it is not known, or `unjudged` why the plugin does not judge it.

    `metadata` is that of the object in the request. `doubt` says why the request may not be judged; empty if it surely is.
    """

    pod: Pod = Pod({}, {})
    metadata: Mapping[str, Any] = MappingProxyType({})
    grade: Grade = Grade.EXACT
    doubt: str = ""
    unread: str = ""
    unjudged: str = ""


class PodReader:
    """Reads recorded requests, and remembers the last one."""

    def __init__(self, minor: int, annotated: Container[str]) -> None:
        """`annotated` are clusters whose log has annotations of the plugin."""
        self._minor = minor
        self._annotated = annotated
        self._last: tuple[Attempt, Read] | None = None

    def read(self, event: Event, attempt: Attempt) -> Read:
        """The Pod of a request on a Pod or a controller."""
        if self._last is None or self._last[0] is not attempt:
            self._last = attempt, self._read(event, attempt)
        return self._last[1]

    def _read(self, event: Event, attempt: Attempt) -> Read:
        if isinstance(attempt.requests, NotReplayed):
            return Read(unread=attempt.requests.reason)
        request = attempt.requests[-1]
        new = request.object
        is_update = is_pod(event) and request.operation is Operation.UPDATE
        counts = self._counts(request, new, event) if is_update else True
        if counts is False:
            return Read(unjudged=_NOT_COUNTED)
        if isinstance(new, Unknown):
            return Read(unread=new.reason)
        value = new.value or {}
        template = template_of(request.resource, value)
        if template is None:
            return Read(unjudged=_NO_TEMPLATE)
        if is_pod(event):
            template = as_met(template, self._minor, not is_update)
        doubt = counts.reason if isinstance(counts, Unknown) else ""
        return Read(pod_of(template), value.get("metadata") or {}, new.grade, doubt)

    def _counts(self, request: AdmissionRequest, new: Evidence[Object | None], event: Event) -> bool | Unknown:
        """Whether an update of a Pod is judged. What the plugin noted of it tells, too."""
        if event.subresource == "resize":
            return False  # it changes resources alone
        old = request.old_object
        if isinstance(new, Known) and isinstance(old, Known):
            return is_significant(new.value or {}, old.value or {})
        told = told_to_count(event, event.cluster in self._annotated)
        missing = old if isinstance(old, Unknown) else new
        if told is None and isinstance(missing, Unknown):
            return Unknown(f"whether the update counts: {missing.reason}")
        return told is not False


def read_plain(resource: GroupVersionResource, value: Object, minor: int) -> Read:
    """The Pod of a request whose answer shows the object: of a create, where it is a Pod."""
    template = template_of(resource, value)
    if template is None:
        return Read(unjudged=_NO_TEMPLATE)
    if (resource.group, resource.resource) == PODS:
        template = as_met(template, minor, True)
    return Read(pod_of(template), value.get("metadata") or {})


def pod_of(template: Object) -> Pod:
    """What the checks read of a Pod or a template."""
    return Pod((template.get("metadata") or {}).get("annotations") or {}, template.get("spec") or {})
