"""What the plugin makes of a write of a namespace: it refuses invalid labels, and warns of Pods that a new level would refuse.

Follows k8s.io/pod-security-admission admission/admission.go (ValidateNamespace, exemptNamespaceWarning).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...history.event import Event
from ...history.reconstruct import Attempt, NotReplayed
from ...history.world import LogHistory
from ...request import Evidence, Known, Object, Operation, Unknown
from .checks.table import Level
from .configuration import Configuration
from .existing import existing_pods
from .modes import REFUSED, Modes
from .policy import MODES, Mode, Resolved, own_labels, resolve
from .ruling import Ruling
from .subject import NOT_REACHED, ignored_by, reached

_SILENT = "namespaces are answered by refusals and warnings only"


class NamespaceJudge:
    """Judges recorded writes of namespaces, by the labels that each wrote.

    `with_pods` gives a history that also has all Pods; it is asked only where a policy became stricter.
    """

    def __init__(self, with_pods: Callable[[], LogHistory], configuration: Configuration, minor: int) -> None:
        self._with_pods = with_pods
        self._configuration = configuration
        self._minor = minor

    def rulings(self, event: Event, attempt: Attempt) -> Sequence[Ruling]:
        """The rulings on one request: `enforce` on its labels, `warn` on what would become of the namespace."""
        modes = Modes(None, event.name, True)
        if why := ignored_by(event):
            return modes.all("nomatch", why)
        came = reached(event, attempt, False)
        if isinstance(came, Unknown):
            return modes.all("unknown", came.reason)
        if not came:
            return modes.all("nomatch", NOT_REACHED)
        if isinstance(attempt.requests, NotReplayed):
            return modes.all("unknown", attempt.requests.reason)
        request = attempt.requests[-1]
        new = self._resolved(request.object)
        old = None if request.operation is Operation.CREATE else self._resolved(request.old_object)
        if isinstance(new, Unknown):
            return modes.all("unknown", new.reason)
        if isinstance(old, Unknown):
            return modes.all("unknown", old.reason)
        name = request.name.value if isinstance(request.name, Known) else event.name
        return self._of_labels(event, name, request.object, new, old)

    def _resolved(self, found: Evidence[Object | None]) -> Resolved | Unknown:
        return found if isinstance(found, Unknown) else resolve(_labels_of(found.value), self._configuration.defaults)

    def _of_labels(
        self, event: Event, name: str, written: Evidence[Object | None], new: Resolved, old: Resolved | None
    ) -> Sequence[Ruling]:
        enforce, audit, warn = Modes(new, name, True).all("admit", "")
        warn = warn._replace(policy=enforce.policy, place=enforce.place)
        audit = audit._replace(decision="nomatch", why=_SILENT)
        if new.errors and (old is None or old.errors != new.errors):
            return [
                enforce._replace(decision="deny", message=new.error, code=422),
                audit,
                warn._replace(decision="nomatch", why=REFUSED),
            ]
        if old is not None and not _is_stricter(new, old):
            return [enforce, audit, warn]
        if name in self._configuration.namespaces:
            value = written.value if isinstance(written, Known) else None
            return [enforce, audit, warn._replace(message=self._of_exempt(name, new, _labels_of(value)))]
        if old is None:
            return [enforce, audit, warn]
        return [enforce, audit, self._of_pods(event, name, warn)]

    def _of_exempt(self, name: str, new: Resolved, labels: dict[str, str]) -> str:
        """The warning that the labels of an exempt namespace have no effect; empty where they say what holds anyway."""
        defaults = self._configuration.defaults
        is_default = all(
            new.policy[mode] == defaults[mode] or new.policy[mode].level is defaults[mode].level is Level.PRIVILEGED
            for mode in MODES
        )
        if new.are_privileged(*MODES) or is_default:
            return ""
        told = [
            f"{mode}={new.policy[mode]}"
            for mode in MODES
            if new.policy[mode].level is not Level.PRIVILEGED and (mode in labels or f"{mode}-version" in labels)
        ]
        return f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(told)}) will be ignored'

    def _of_pods(self, event: Event, name: str, warn: Ruling) -> Ruling:
        """What the plugin says of the Pods that are in the namespace."""
        assert warn.policy is not None
        pods = self._with_pods().at(event.cluster, event.ts).params("v1", "Pod", name)
        if isinstance(pods, Unknown):
            return warn._replace(decision="unknown", why=f"the Pods of namespace {name}: {pods.reason}")
        found = existing_pods(name, pods.value, warn.policy, self._minor, self._configuration.runtime_classes)
        return warn._replace(decision="deny" if found else "admit", message="\n".join(found), evidence=pods.grade)


def _labels_of(value: Object | None) -> dict[str, str]:
    return own_labels(((value or {}).get("metadata") or {}).get("labels"))


def _is_stricter(new: Resolved, old: Resolved) -> bool:
    """Whether the plugin looks at a new policy: a change of version alone counts, too."""
    told, before = new.policy[Mode.ENFORCE], old.policy[Mode.ENFORCE]
    if told == before or told.level is Level.PRIVILEGED:
        return False
    return told.version != before.version or told.level.strictness > before.level.strictness
