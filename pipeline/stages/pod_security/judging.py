"""What the plugin makes of one recorded Pod or controller, in its order of decisions.

Follows k8s.io/pod-security-admission admission/admission.go (ValidatePod, ValidatePodController, EvaluatePod).
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...history.event import Event
from ...replay.met import Met
from ...request import Unknown
from ...withheld import holds_placeholder
from .checks.table import failed_checks
from .configuration import Configuration
from .labels import LabelsInForce
from .modes import Modes
from .policy import MODES, Mode, Resolved, resolve
from .reading import PodReader
from .ruling import Ruling
from .subject import NOT_REACHED, annotations_of, ignored_by, is_pod, reached


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

    def rulings(self, met: Met) -> Sequence[Ruling]:
        """The rulings on one request, one per mode."""
        event = met.event
        resolved = self.resolved(event)
        modes = Modes(None if isinstance(resolved, Unknown) else resolved, event.namespace, is_pod(event))
        if why := ignored_by(event):
            return modes.all("nomatch", why)
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
        return self._of_pod(met, resolved, modes)

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

    def _of_pod(self, met: Met, resolved: Resolved, modes: Modes) -> Sequence[Ruling]:
        found = self._reader.read(met)
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
