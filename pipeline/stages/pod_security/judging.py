"""What the plugin makes of one recorded Pod or controller, in its order of decisions.

Follows k8s.io/pod-security-admission admission/admission.go (ValidatePod, ValidatePodController, EvaluatePod).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ...history.event import Event
from ...history.reconstruct import Attempt
from ...request import AdmissionRequest, Unknown
from ...withheld import holds_placeholder
from .checks.table import failed_checks
from .configuration import Configuration
from .labels import LabelsInForce
from .modes import Modes
from .policy import MODES, Mode, Resolved, resolve
from .reading import PodReader, Read
from .ruling import Ruling
from .subject import NOT_REACHED, Subject, ignored_by, reached

# Rulings on plain requests that are remembered.
_PLAIN_MAX = 50_000


class Judge:
    """Judges recorded requests under one configuration and the labels in force."""

    def __init__(
        self,
        labels: LabelsInForce,
        reader: PodReader,
        configuration: Configuration,
        minor: int,
        annotated: Container[str],
        *,
        is_given: bool,
    ) -> None:
        """`annotated` are clusters whose log has notes of the plugin.

        `is_given`: a user gave the configuration. Otherwise a request is exempt, too, that the plugin noted as exempt.
        """
        self._labels = labels
        self._reader = reader
        self._configuration = configuration
        self._is_given = is_given
        self._minor = minor
        self._annotated = annotated
        self._resolved: dict[tuple[tuple[str, str], ...], Resolved] = {}
        self._plain: dict[tuple[object, ...], tuple[Sequence[Ruling], object, object]] = {}

    def rulings(self, event: Event, attempt: Attempt) -> Sequence[Ruling]:
        """The rulings on one request, one per mode."""
        return self._of(event, attempt, reached(event, attempt, event.cluster in self._annotated))

    def _of(self, event: Event, attempt: Attempt, came: bool | Unknown) -> Sequence[Ruling]:
        subject = Subject.of(event)
        resolved = self.resolved(subject)
        modes = Modes(None if isinstance(resolved, Unknown) else resolved, event.namespace, subject.is_pod)
        if why := ignored_by(event):
            return modes.all("nomatch", why)
        if isinstance(came, Unknown):
            return modes.all("unknown", came.reason)
        if not came:
            return modes.all("nomatch", NOT_REACHED)
        return self._decided(subject, resolved, modes, lambda: self._reader.read(event, attempt))

    def of_plain(self, subject: Subject, read: Read) -> Sequence[Ruling]:
        """The rulings on a request that succeeded, and whose own record shows its Pod.

        Requests with the same Pod, in a namespace with the same policy, have the same.
        """
        resolved = self.resolved(subject)
        exempt = subject.notes.get("exempt", "")
        alike = (id(read.pod), id(resolved), subject.namespace, subject.is_pod, subject.username, exempt, read.unjudged)
        found = self._plain.get(alike)
        if found is None:
            if len(self._plain) > _PLAIN_MAX:
                self._plain.clear()
            modes = Modes(None if isinstance(resolved, Unknown) else resolved, subject.namespace, subject.is_pod)
            # What it is known by stays as long as the rulings.
            found = self._plain[alike] = (self._decided(subject, resolved, modes, lambda: read), read.pod, resolved)
        return found[0]

    def of_object(self, event: Event, request: AdmissionRequest) -> Sequence[Ruling]:
        """The rulings on a request that comes to the plugin with another object than the recorded one."""
        return self._of(event, Attempt([request], None), came=True)

    def metadata(self, event: Event, attempt: Attempt) -> Mapping[str, Any]:
        """The metadata of the object in a request; empty where it is not known."""
        return self._reader.read(event, attempt).metadata

    @property
    def reads_user(self) -> bool:
        """Whether the user of a request may decide."""
        return bool(self._configuration.usernames)

    @property
    def reads_labels(self) -> bool:
        """Whether the labels of namespaces that the log shows may decide."""
        return self._labels.are_recorded

    @property
    def minor(self) -> int:
        """The minor version of the API server."""
        return self._minor

    def resolved(self, subject: Subject) -> Resolved | Unknown:
        """The policy in force for a request."""
        labels = self._labels.at(subject.cluster, subject.namespace, subject.ts)
        if isinstance(labels, Unknown):
            return labels
        # Few labels are distinct.
        key = tuple(sorted(labels.value.items()))
        if key not in self._resolved:
            self._resolved[key] = resolve(labels.value, self._configuration.defaults)
        return self._resolved[key]

    def _decided(self, subject: Subject, resolved: Resolved | Unknown, modes: Modes, read: Callable[[], Read]) -> Sequence[Ruling]:
        exempt = self._exempt(subject)
        if isinstance(exempt, Unknown):
            return modes.all("unknown", exempt.reason)
        if exempt:
            return modes.exempt(exempt)
        if isinstance(resolved, Unknown):
            return modes.all("unknown", resolved.reason)
        if resolved.are_privileged(*(MODES if modes.is_pod else MODES[1:])):
            return modes.privileged()
        return self._of_pod(read(), resolved, modes)

    def _exempt(self, subject: Subject) -> str | Unknown:
        """Why a request is exempt before its Pod is looked at; empty if it is not."""
        known = self._configuration
        if subject.namespace in known.namespaces:
            return "namespace"
        if known.usernames and holds_placeholder(subject.username):
            return Unknown("whether its user is exempt: redaction removed the name")
        if subject.username in known.usernames:
            return "user"
        return "" if self._is_given else subject.notes.get("exempt", "")

    def _of_pod(self, found: Read, resolved: Resolved, modes: Modes) -> Sequence[Ruling]:
        if found.unread:
            return modes.unread(found.unread)
        if found.unjudged:
            return modes.all("nomatch", found.unjudged)
        if (found.pod.spec.get("runtimeClassName") or "") in self._configuration.runtime_classes:
            return modes.exempt("runtimeClass")
        judged = [mode for mode in MODES if modes.is_pod or mode is not Mode.ENFORCE]
        failed = {
            mode: failed_checks(found.pod, resolved.policy[mode].level, resolved.policy[mode].minor(self._minor)) for mode in judged
        }
        return modes.judged(failed, found.grade, found.doubt)
