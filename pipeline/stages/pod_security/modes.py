"""Rulings in all three modes at once, with the annotations that the plugin leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...request import Grade
from .checks.table import Failed, Level
from .policy import MODES, PRIVILEGED, Mode, Resolved
from .ruling import Ruling, place_of

TEMPLATES = "templates are judged in the modes audit and warn only"
REFUSED = "a refused request is given no warning"
_EXEMPT = {"namespace": "namespaces", "user": "usernames", "runtimeClass": "runtimeClasses"}


@dataclass(frozen=True)
class Modes:
    """The rulings on a request in a namespace with this policy; None if it is not known. Templates are never refused."""

    resolved: Resolved | None
    namespace: str
    is_pod: bool

    def all(self, decision: str, why: str) -> list[Ruling]:
        """The same decision in all modes; the mode enforce judges no template."""
        found = [self._one(mode, decision, why=why) for mode in MODES]
        return found if self.is_pod or decision != "unknown" else self._of_template(*found)

    def exempt(self, why: str) -> list[Ruling]:
        """An exempt request."""
        place = f"PodSecurityConfiguration/PodSecurity/exemptions.{_EXEMPT[why]}"
        found = [each._replace(place=place) for each in self.all("nomatch", f"exempt: {why}")]
        return [found[0]._replace(annotations=(("exempt", why),)), *found[1:]]

    def privileged(self) -> list[Ruling]:
        """A request that no mode can object to: then the plugin does not look at versions."""
        if not self.is_pod:
            return self._of_template(self._one(Mode.ENFORCE, "admit"), *(self._one(mode, "admit") for mode in MODES[1:]))
        found = [self._one(mode, "admit")._replace(policy=PRIVILEGED) for mode in MODES]
        return [found[0]._replace(annotations=(("enforce-policy", str(PRIVILEGED)),)), *found[1:]]

    def unread(self, why: str) -> list[Ruling]:
        """A request whose Pod is not known: only a level that refuses nothing is sure of it."""
        found = [self._one(mode, "admit") if self._refuses_nothing(mode) else self._one(mode, "unknown", why=why) for mode in MODES]
        return found if self.is_pod else self._of_template(*found)

    def judged(self, failed: Mapping[Mode, Sequence[Failed]], grade: Grade, doubt: str) -> list[Ruling]:
        """A request whose Pod fails these checks in each mode. `doubt` says why it may not have been judged; empty if it was."""
        found = [self._judged(mode, failed.get(mode, ()), grade, doubt) for mode in MODES]
        if not self.is_pod:
            return self._of_template(*found)
        enforce, audit, warn = found
        told = (("enforce-policy", str(enforce.policy)), *self._errors())
        if enforce.decision == "deny":
            warn = self._one(Mode.WARN, "nomatch", why=REFUSED)
        return [enforce._replace(annotations=() if doubt else told), audit, warn]

    def _judged(self, mode: Mode, failed: Sequence[Failed], grade: Grade, doubt: str) -> Ruling:
        text = ", ".join(str(each.failure) for each in failed)
        if text and doubt:
            return self._one(mode, "unknown", why=doubt)
        found = self._one(mode, "deny" if text else "admit")._replace(message=text, evidence=grade, failed=tuple(failed))
        if text and mode is Mode.AUDIT:
            found = found._replace(annotations=(("audit-violations", f'would violate PodSecurity "{found.policy}": {text}'),))
        return found

    def _of_template(self, enforce: Ruling, audit: Ruling, warn: Ruling) -> list[Ruling]:
        told = (*audit.annotations, *self._errors()) if audit.decision in ("admit", "deny") else ()
        return [enforce._replace(decision="nomatch", why=TEMPLATES), audit._replace(annotations=told), warn]

    def _errors(self) -> tuple[tuple[str, str], ...]:
        error = self.resolved.error if self.resolved else ""
        return (("error", f"Failed to parse policy: {error}"),) if error else ()

    def _refuses_nothing(self, mode: Mode) -> bool:
        return self.resolved is not None and self.resolved.policy[mode].level is Level.PRIVILEGED

    def _one(self, mode: Mode, decision: str, why: str = "") -> Ruling:
        if self.resolved is None:
            return Ruling(mode, None, decision, why=why)
        return Ruling(mode, self.resolved.policy[mode], decision, why=why, place=place_of(mode, self.resolved, self.namespace))
