"""How far a replay agrees with the record: each annotation and refusal of the plugin, word for word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from queries import LakeReader

from ...runs.window import Window
from ..kept_agreement import kept_agreement
from .given import Given
from .lane import PodRulings
from .policy import Mode
from .ruling import NAME, Ruling
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
    by_time: list[tuple[datetime, Disagreement]] = field(default_factory=list)

    @property
    def disagreements(self) -> list[Disagreement]:
        """The disagreements in the order of the log."""
        return [each for _, each in sorted(self.by_time, key=lambda entry: (entry[0], entry[1].audit_id))]

    def count(self, kind: str, resource: str, note: str, requests: int) -> None:
        """A note of so many more requests: `kind` is compared, agreed or unknown."""
        getattr(self, kind)[note] += requests
        self.by_resource[resource][kind] += requests


class _Kept(msgspec.Struct):
    """An agreement in a form that JSON can hold. A log without notes has no agreement."""

    has_notes: bool
    counts: dict[str, dict[str, int]] = {}
    by_resource: dict[str, dict[str, int]] = {}
    by_time: list[tuple[datetime, Disagreement]] = []

    @classmethod
    def of(cls, found: Agreement | None) -> _Kept:
        if found is None:
            return cls(False)
        counts: dict[str, dict[str, int]] = {kind: getattr(found, kind) for kind in _COUNTED}
        return cls(True, counts, dict(found.by_resource), found.by_time)

    def agreement(self) -> Agreement | None:
        if not self.has_notes:
            return None
        compared, agreed, unknown = (Counter(self.counts[kind]) for kind in _COUNTED)
        found = Agreement(compared, agreed, unknown, by_time=self.by_time)
        found.by_resource.update({resource: Counter(own) for resource, own in self.by_resource.items()})
        return found


_COUNTED = ("compared", "agreed", "unknown")


def recorded_agreement(reader: LakeReader, window: Window, minor: int) -> Agreement | None:
    """The notes in the log against the labels of that time; None for a log without notes of Pod Security."""

    def compared() -> Agreement | None:
        if not reader.sql("SELECT 1 FROM pod_security_notes LIMIT 1").fetchall():
            return None
        return compare(Walk(reader, Given({}), window, minor))

    kept = kept_agreement(reader, NAME, (window, minor), _Kept, lambda: _Kept.of(compared()))
    return kept.agreement()


def compare(walk: Walk) -> Agreement:
    """The notes on recorded requests against those that the labels and the configuration of the time give."""
    found = Agreement()
    for part in walk.collected():
        for rulings, requests in part.counted():
            assert isinstance(rulings, PodRulings)
            for note, told in _compare(found, rulings, requests):
                for place in part.places_of(rulings):
                    at = Disagreement(place["cluster"], place["audit_id"], rulings.record.subject.namespace, note, *told)
                    found.by_time.append((place["ts"], at))
    return found


def _compare(found: Agreement, rulings: PodRulings, requests: int) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    """Compare the notes on so many requests: in the log, and in the replay. Yields those that differ."""
    resource = rulings.record.resource.resource
    recorded = dict(rulings.record.told.notes)
    if rulings.record.told.is_refused:
        recorded[REFUSED] = rulings.record.message
    if any(each.decision == "unknown" for each in rulings):
        for note in recorded:
            found.count("unknown", resource, note, requests)
        return
    replayed = _replayed(rulings, rulings.record.message, rulings.record.written)
    for note in sorted({*recorded, *replayed}):
        told = recorded.get(note), replayed.get(note)
        found.count("compared", resource, note, requests)
        if told[0] == told[1]:
            found.count("agreed", resource, note, requests)
        else:
            yield note, told


def _replayed(rulings: Sequence[Ruling], message: str, namespace: str | None = None) -> dict[str, str]:
    """The notes of a replay. `message` is that of the answer, and `namespace` the name of the namespace that the request wrote."""
    notes = {key: text for each in rulings for key, text in each.annotations}
    enforce = next(each for each in rulings if each.mode is Mode.ENFORCE)
    if enforce.decision == "deny":
        # The name in a refusal may have been made by the server.
        before = message.partition(" is forbidden: ")[0]
        text = f'{before} is forbidden: violates PodSecurity "{enforce.policy}": {enforce.message}'
        notes[REFUSED] = text if namespace is None else f'Namespace "{namespace}" is invalid: {enforce.message}'
    return notes
