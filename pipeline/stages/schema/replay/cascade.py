"""Which earlier verdicts would have changed what a request met.

Each request is judged by the history that really happened. Under the new definition a refused create leaves no object, and a
refused or changed write leaves another one. So later requests on that object name the first such verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....history.event import Event
from ....history.version import ObjectKey
from ....history.writes import asks_for_dry_run, key_of
from .outcome import Decision, Outcome

_DELETES = frozenset({"delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Follows:
    """The auditID of the refused create that a request follows from, and that of the first verdict that left another object."""

    cascade_of: str = ""
    diverged_by: str = ""


_NOTHING = Follows()


class Cascade:
    """What the verdicts so far would have left of each object. Requests are added in the order of arrival."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Follows] = {}

    def add(self, event: Event, outcome: Outcome) -> Follows:
        """The earlier verdicts that matter to this request; its own verdict is noted for later ones."""
        key = key_of(event, event.response_head)
        before = self._objects.get(key, _NOTHING)
        if not event.succeeded or asks_for_dry_run(event) is True:
            return before
        if event.verb in _DELETES:
            self._objects.pop(key, None)
        elif event.code == 201:
            before = _NOTHING
            refused = outcome.decision is Decision.DENY
            self._note(key, Follows(event.audit_id if refused else "", event.audit_id), outcome)
        elif not before.diverged_by:
            self._note(key, Follows("", event.audit_id), outcome)
        return before

    def _note(self, key: ObjectKey, follows: Follows, outcome: Outcome) -> None:
        if outcome.decision is Decision.ADMIT:
            self._objects.pop(key, None)
        else:
            self._objects[key] = follows
