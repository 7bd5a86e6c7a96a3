"""How far a replay agrees with the record: each annotation and refusal of the plugin, word for word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...history.event import Event
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
    """By note: how many were compared and agreed, and how many requests with one could not be judged."""

    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)


def compare(walk: Walk) -> Agreement:
    """The notes on recorded requests against those that the labels and the configuration of the time give."""
    found = Agreement()
    for met, rulings in walk.rulings():
        event = met.event
        recorded = annotations_of(event)
        if is_refused(event):
            recorded[REFUSED] = event.message
        if any(each.decision == "unknown" for each in rulings):
            found.unknown.update(recorded.keys())
            continue
        replayed = _replayed(event, rulings)
        for note in sorted({*recorded, *replayed}):
            told = recorded.get(note), replayed.get(note)
            found.compared[note] += 1
            if told[0] == told[1]:
                found.agreed[note] += 1
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
