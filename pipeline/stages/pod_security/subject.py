"""Which requests the plugin looks at, and where their Pod is.

Follows k8s.io/pod-security-admission admission/admission.go (defaultPodSpecResources, ignoredPodSubresources, ExtractPodSpec).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from queries.reach import Answer

from ...history.event import Event
from ...history.outcome import reach_of_event
from ...history.reconstruct import NEWER_VERSION, Attempt
from ...request import GroupVersionResource, Object, Unknown
from ...requests.classes import RequestClass
from .policy import PREFIX, PRIVILEGED

PODS = ("", "pods")
NAMESPACES = ("", "namespaces")
_TEMPLATE = ("spec", "template")
# Where a controller has its template.
_TEMPLATES = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _TEMPLATE,
    ("apps", "daemonsets"): _TEMPLATE,
    ("apps", "deployments"): _TEMPLATE,
    ("apps", "replicasets"): _TEMPLATE,
    ("apps", "statefulsets"): _TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): _TEMPLATE,
}
RESOURCES = frozenset({PODS, NAMESPACES, *_TEMPLATES})
_IGNORED = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
NOT_REACHED = "the request did not come to Pod Security"
# Of the messages of a plugin that refuses a Pod or the labels of a namespace.
REFUSED_POD = 'violates PodSecurity "'
_REFUSED_LABEL = f"metadata.labels[{PREFIX}"


def concerns(item: RequestClass) -> bool:
    """Whether the plugin is asked about requests of a class. It ignores some of them: see `ignored_by`."""
    return (item.api_group, item.resource) in RESOURCES and item.operation in ("CREATE", "UPDATE")


def ignored_by(item: RequestClass | Event) -> str:
    """Why the plugin ignores a request, before anything else: for its subresource. Empty if it does not."""
    place = (item.api_group, item.resource) if isinstance(item, RequestClass) else (item.resource.group, item.resource.resource)
    is_ignored = item.subresource in _IGNORED if place == PODS else bool(item.subresource)
    return f"Pod Security ignores {place[1]}/{item.subresource}" if is_ignored else ""


def template_path(group: str, resource: str) -> tuple[str, ...]:
    """Where an object of a resource has its template; empty for a Pod, which is its own."""
    return _TEMPLATES.get((group, resource), ())


def template_of(resource: GroupVersionResource, value: Object) -> Object | None:
    """The Pod, or the template of a controller; None without one."""
    found: Object | None = value
    for name in template_path(resource.group, resource.resource):
        found = (found or {}).get(name)
    return found


def annotations_of(event: Event) -> dict[str, str]:
    """What the plugin wrote to an event, without its prefix."""
    return own_notes(event.annotations)


def own_notes(annotations: Mapping[str, str]) -> dict[str, str]:
    """The notes of the plugin among the annotations of an event, without its prefix."""
    return {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}


class Subject(NamedTuple):
    """A request as the order of decisions sees it, apart from its Pod. `notes` are those of the plugin, without prefix."""

    cluster: str
    namespace: str
    ts: datetime
    username: str
    notes: Mapping[str, str]
    is_pod: bool

    @classmethod
    def of(cls, event: Event) -> Subject:
        """Of a recorded request."""
        return cls(event.cluster, event.namespace, event.ts, event.user.username, annotations_of(event), is_pod(event))


class Told(NamedTuple):
    """What the log says of an answer: its code, the notes of the plugin, and whether this refused the request."""

    code: int
    notes: Mapping[str, str]
    is_refused: bool

    @classmethod
    def of(cls, event: Event) -> Told:
        """Of a recorded request."""
        return cls(event.code, annotations_of(event), is_refused(event))


def is_refused(event: Event) -> bool:
    """Whether the plugin refused a request."""
    if event.resource.resource == "namespaces":
        return event.code == 422 and _REFUSED_LABEL in event.message
    return event.code == 403 and REFUSED_POD in event.message


def reached(event: Event, attempt: Attempt, is_annotated: bool) -> bool | Unknown:
    """Whether a request came to the plugin.

    `is_annotated`: the log shows annotations of the plugin, so that a Pod without any was not judged.
    """
    if event.succeeded or is_refused(event) or annotations_of(event):
        return True
    reach = reach_of_event(event)
    if reach.at("plugins") is Answer.ADMITTED:
        return True
    is_stale = attempt.stopped is not None and attempt.stopped.reason == NEWER_VERSION
    if is_stale or reach.at("plugins") is Answer.NOT_REACHED or (is_annotated and is_pod(event)):
        return False
    return Unknown(f"whether it came to Pod Security: {reach.why}")


def told_to_count(event: Event, is_annotated: bool) -> bool | None:
    """Whether the plugin judged an update of a Pod, as its annotations show; None where they do not show it."""
    told = annotations_of(event)
    if not told:
        return False if is_annotated else None
    by_policy = told.get("enforce-policy", str(PRIVILEGED)) != str(PRIVILEGED)
    return True if by_policy or "error" in told or told.get("exempt") == "runtimeClass" else None


def is_pod(event: Event) -> bool:
    """Whether a request is for a Pod, and not for a controller or a namespace."""
    return (event.resource.group, event.resource.resource) == PODS
