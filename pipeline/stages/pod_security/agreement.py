"""How far a replay agrees with the record: each annotation and refusal of the plugin, word for word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from queries import LakeReader

from ...history.event import Event
from ...runs.window import Window
from .given import Given
from .policy import Mode
from .ruling import Ruling
from .subject import NAMESPACES, annotations_of, is_refused
from .walk import Walk

REFUSED = "refused"


class Disagreement(NamedTuple):
    """A note that the log and the replay have differently; None where one of them has none."""

    cluster: str
    audit_id: str
    namespace: str
    note: str
    recorded: str | None
    replayed: str | None


@dataclass
class Agreement:
    """By note: how many were compared and agreed, and how many of requests that could not be judged.

    `by_resource` has the sums of these for each resource, under the same names.
    """

    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    by_resource: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    disagreements: list[Disagreement] = field(default_factory=list)

    def count(self, kind: str, resource: str, note: str) -> None:
        """One more note: `kind` is compared, agreed or unknown."""
        getattr(self, kind)[note] += 1
        self.by_resource[resource][kind] += 1


def recorded_agreement(reader: LakeReader, window: Window, minor: int) -> Agreement | None:
    """The notes in the log against the labels of that time; None for a log without notes of Pod Security."""
    if not reader.sql("SELECT 1 FROM pod_security_notes LIMIT 1").fetchall():
        return None
    return compare(Walk(reader, Given({}), window, minor))


def compare(walk: Walk) -> Agreement:
    """The notes on recorded requests against those that the labels and the configuration of the time give."""
    found = Agreement()
    for met, rulings in walk.rulings():
        event = met.event
        recorded = annotations_of(event)
        if is_refused(event):
            recorded[REFUSED] = event.message
        resource = event.resource.resource
        if any(each.decision == "unknown" for each in rulings):
            for note in recorded:
                found.count("unknown", resource, note)
            continue
        replayed = _replayed(event, rulings)
        for note in sorted({*recorded, *replayed}):
            told = recorded.get(note), replayed.get(note)
            found.count("compared", resource, note)
            if told[0] == told[1]:
                found.count("agreed", resource, note)
            else:
                found.disagreements.append(Disagreement(event.cluster, event.audit_id, event.namespace, note, *told))
    return found


def _replayed(event: Event, rulings: Sequence[Ruling]) -> dict[str, str]:
    notes = {key: text for each in rulings for key, text in each.annotations}
    enforce = next(each for each in rulings if each.mode is Mode.ENFORCE)
    if enforce.decision == "deny":
        # The name in a refusal may have been made by the server.
        before = event.message.partition(" is forbidden: ")[0]
        text = f'{before} is forbidden: violates PodSecurity "{enforce.policy}": {enforce.message}'
        is_namespace = (event.resource.group, event.resource.resource) == NAMESPACES
        notes[REFUSED] = f'Namespace "{event.name}" is invalid: {enforce.message}' if is_namespace else text
    return notes
