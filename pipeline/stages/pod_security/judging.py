"""What the plugin makes of one recorded Pod or controller, in its order of decisions.

Follows k8s.io/pod-security-admission admission/admission.go (ValidatePod, ValidatePodController, EvaluatePod).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from ...history.event import Event, decode_json
from ...history.intended import may_apply
from ...history.reconstruct import NotReplayed, attempted_requests
from ...history.webhook_changes import with_webhook_patches
from ...history.world import LogHistory
from ...replay.met import Met
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from ...withheld import holds_placeholder
from .checks.pod import Pod
from .checks.table import failed_checks
from .configuration import Configuration
from .created import as_met
from .labels import LabelsInForce
from .modes import Modes
from .policy import MODES, LevelVersion, Mode, Resolved, resolve
from .ruling import Ruling
from .significance import is_significant
from .subject import NOT_REACHED, annotations_of, is_ignored, is_pod, reached, template_of, told_to_count

_NOT_COUNTED = "the update changes neither the number of containers nor an image, so that it is not judged"
_NO_TEMPLATE = "the object has no template"


class Judge:
    """Judges recorded requests under one configuration and the labels in force."""

    def __init__(
        self,
        labels: LabelsInForce,
        with_pods: Callable[[], LogHistory],
        configuration: Configuration | None,
        minor: int,
        annotated: Container[str],
    ) -> None:
        """Without a configuration, the exemptions count that the plugin noted. `annotated` are clusters whose log has its notes.

        `with_pods` gives a history that also has all Pods; it is asked only where a list of these tells more.
        """
        self._with_pods = with_pods
        self._labels = labels
        self._configuration = configuration or Configuration()
        self._is_given = configuration is not None
        self._minor = minor
        self._annotated = annotated

    def rulings(self, met: Met) -> Sequence[Ruling]:
        """The rulings on one request, one per mode."""
        event = met.event
        resolved = self.resolved(event)
        modes = Modes(None if isinstance(resolved, Unknown) else resolved, event.namespace, is_pod(event))
        if is_ignored(event.resource, event.subresource):
            return modes.all("nomatch", f"Pod Security ignores {event.resource.resource}/{event.subresource}")
        came = reached(met, event.cluster in self._annotated)
        if isinstance(came, Unknown):
            return modes.all("unknown", came.reason)
        if not came:
            return modes.all("nomatch", NOT_REACHED)
        exempt = self._exempt(event)
        if isinstance(exempt, Unknown):
            return modes.all("unknown", exempt.reason)
        if exempt:
            return modes.exempt(exempt)
        if isinstance(resolved, Unknown):
            return modes.all("unknown", resolved.reason)
        if resolved.are_privileged(*(MODES if modes.is_pod else MODES[1:])):
            return modes.privileged()
        return self._of_object(met, resolved, modes)

    def resolved(self, event: Event) -> Resolved | Unknown:
        """The policy in force for a request."""
        labels = self._labels.at(event.cluster, event.namespace, event.ts)
        return labels if isinstance(labels, Unknown) else resolve(labels.value, self._configuration.defaults)

    def _exempt(self, event: Event) -> str | Unknown:
        """Why a request is exempt before its Pod is looked at; empty if it is not."""
        known = self._configuration
        if event.namespace in known.namespaces:
            return "namespace"
        if known.usernames and holds_placeholder(event.user.username):
            return Unknown("whether its user is exempt: redaction removed the name")
        if event.user.username in known.usernames:
            return "user"
        return "" if self._is_given else annotations_of(event).get("exempt", "")

    def _of_object(self, met: Met, resolved: Resolved, modes: Modes) -> Sequence[Ruling]:
        event = met.event
        requests = self._requests(met)
        if isinstance(requests, NotReplayed):
            return modes.unread(requests.reason)
        request = requests[-1]
        new = _met_object(request, event)
        is_update = modes.is_pod and request.operation is Operation.UPDATE
        counts = self._counts(request, new, event) if is_update else True
        if counts is False:
            return modes.all("nomatch", _NOT_COUNTED)
        if isinstance(new, Unknown):
            return modes.unread(new.reason)
        template = template_of(request.resource, new.value or {})
        if template is None:
            return modes.all("nomatch", _NO_TEMPLATE)
        if modes.is_pod:
            template = as_met(template, self._minor, not is_update)
        spec = template.get("spec") or {}
        if (spec.get("runtimeClassName") or "") in self._configuration.runtime_classes:
            return modes.exempt("runtimeClass")
        pod = Pod((template.get("metadata") or {}).get("annotations") or {}, spec)
        texts = {mode: self._violations(pod, resolved.policy[mode]) for mode in MODES if modes.is_pod or mode is not Mode.ENFORCE}
        return modes.judged({Mode.ENFORCE: "", **texts}, new.grade, counts.reason if isinstance(counts, Unknown) else "")

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
        return (
            Unknown(f"whether the update counts: {missing.reason}")
            if told is None and isinstance(missing, Unknown)
            else told is not False
        )

    def _violations(self, pod: Pod, policy: LevelVersion) -> str:
        """The violations as the plugin prints them; empty without one."""
        return ", ".join(str(each.failure) for each in failed_checks(pod, policy.level, policy.minor(self._minor)))


def _met_object(request: AdmissionRequest, event: Event) -> Evidence[Object | None]:
    """The object of a request. Of an apply that was to create, no more than the client's object is known, and it is enough."""
    if isinstance(request.object, Known) or request.operation is not Operation.CREATE or event.request_raw is None:
        return request.object
    found = with_webhook_patches(decode_json(event.request_raw), event.annotations)
    return found if isinstance(found, Unknown) else Known(found, "requestObject", Grade.INFERRED)
