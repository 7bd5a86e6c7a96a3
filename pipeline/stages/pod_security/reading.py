"""Reads the Pod, or the template, of a recorded request: once for all labels under which it is judged."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ...history.event import Event, decode_json
from ...history.intended import may_apply
from ...history.reconstruct import NotReplayed, attempted_requests
from ...history.webhook_changes import with_webhook_patches
from ...history.world import LogHistory
from ...replay.met import Met
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

    def __init__(self, with_pods: Callable[[], LogHistory], minor: int, annotated: Container[str]) -> None:
        """`with_pods` gives a history that also has all Pods; it is asked only where a list of these tells more.

        `annotated` are clusters whose log has annotations of the plugin.
        """
        self._with_pods = with_pods
        self._minor = minor
        self._annotated = annotated
        self._last: tuple[Met, Read] | None = None

    def read(self, met: Met) -> Read:
        """The Pod of a request on a Pod or a controller."""
        if self._last is None or self._last[0] is not met:
            self._last = met, self._read(met)
        return self._last[1]

    def _read(self, met: Met) -> Read:
        event = met.event
        requests = self._requests(met)
        if isinstance(requests, NotReplayed):
            return Read(unread=requests.reason)
        request = requests[-1]
        new = _met_object(request, event)
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

    def _requests(self, met: Met) -> Sequence[AdmissionRequest] | NotReplayed:
        found = met.requests()
        if not isinstance(found, NotReplayed) or met.unfit or not may_apply(met.event):
            return found
        # Only a list of all Pods tells whether an apply was to create its Pod.
        return attempted_requests(met.event, met.versions, self._with_pods())

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


def _met_object(request: AdmissionRequest, event: Event) -> Evidence[Object | None]:
    """The object of a request. Of an apply that was to create, no more than the client's object is known, and it is enough."""
    if isinstance(request.object, Known) or request.operation is not Operation.CREATE or event.request_raw is None:
        return request.object
    found = with_webhook_patches(decode_json(event.request_raw), event.annotations)
    return found if isinstance(found, Unknown) else Known(found, "requestObject", Grade.INFERRED)
