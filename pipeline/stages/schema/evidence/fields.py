"""Which fields that a schema does not know were sent, by whom and when, and which stored objects carry them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queries import LakeReader

from ....history.event import Event, decode_json
from ....history.version import ObjectKey
from ....history.writes import key_of, why_no_body
from ....runs.window import Window
from ....withheld import has_withheld
from ..props import Props
from .definitions import KnownDefinition
from .paths import general
from .recorded import recorded
from .sent import NO_VALUE, OWN_BODIES, Channel, Sent, annotation_of, applied_fields, sent_fields
from .stored import State, Stored, StoredObjects

_WRITES = frozenset(("create", "update", "patch"))


@dataclass(slots=True)
class Sender:
    """What one user sent of one field through one channel. `sample` is NO_VALUE where no record has a value."""

    field: str
    channel: Channel
    user: str
    requests: int = 0
    objects: set[ObjectKey] = dataclasses.field(default_factory=set)
    refused: int = 0
    first: datetime | None = None
    last: datetime | None = None
    sample: Any = NO_VALUE


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """The evidence of one unknown field; indices are left out of its path. `states` counts objects that ever stored it.

    A request that several channels show counts once in `requests`.
    """

    field: str
    requests: int
    senders: tuple[Sender, ...]
    states: Mapping[State, int]
    sample: Any

    @property
    def channels(self) -> list[str]:
        """The channels that show it, `stored` among them for what answers and snapshots show."""
        found = [str(each) for each in Channel if any(sender.channel is each for sender in self.senders)]
        return [*found, "stored"] if self.states else found


@dataclass(slots=True)
class Coverage:
    """How far the record answers the question. `opaque` counts writes without a body by reason."""

    writes: int = 0
    opaque: Counter[str] = dataclasses.field(default_factory=Counter)
    redacted: int = 0  # writes whose body has a redacted value
    kept_bodies: int = 0  # creates and updates whose body is recorded
    without_schema: Counter[str] = dataclasses.field(
        default_factory=Counter
    )  # requests by a version that the definition does not have
    snapshots: int = 0


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """The answer: one entry per field, the objects that carry or carried one, and what the record does not show."""

    definition: KnownDefinition
    fields: tuple[FieldEvidence, ...]
    objects: tuple[Stored, ...]
    coverage: Coverage


def unknown_fields_of(reader: LakeReader, known: KnownDefinition, window: Window) -> UnknownFields:
    """The unknown fields of the kind. Requests of the window count; stored objects are those at its end."""
    collector = _Collector(known, window)
    for each in recorded(reader, known.definition, window.until):
        if isinstance(each, Event):
            collector.request(each)
        else:
            collector.snapshot(each)
    return UnknownFields(known, tuple(collector.fields()), tuple(collector.stored), collector.coverage)


class _Collector:
    """Gathers the evidence of requests and snapshots in the order of time."""

    def __init__(self, known: KnownDefinition, window: Window) -> None:
        self.stored = StoredObjects(known.schema_of)
        self.coverage = Coverage()
        self._known = known
        self._since = window.since
        self._senders: dict[tuple[str, Channel, str], Sender] = {}
        self._requests: Counter[str] = Counter()
        self._annotations: dict[ObjectKey, str] = {}

    def request(self, event: Event) -> None:
        """Enter one answered request."""
        found: list[Sent] = []
        if event.verb in _WRITES and event.subresource in OWN_BODIES:
            version = f"{event.resource.group}/{event.resource.version}"
            schema = self._known.schema_of(version)
            is_asked = self._since is None or event.ts >= self._since
            if is_asked:
                self._count(event, version, schema)
            if schema is not None:
                key = key_of(event, event.response_head)
                found = [*sent_fields(event, schema), *self._applied(event, key, schema)]
                if is_asked:
                    self._add(found, event, key)
        self.stored.enter(event, [each.path for each in found if each.channel is Channel.PATCH])

    def snapshot(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Enter one list of the kind."""
        own = self._known.definition
        listed = [row for row in rows if row["name"]]
        keys = frozenset(self.stored.enter_listed(row, own.group, own.plural) for row in listed)
        self.coverage.snapshots += 1
        namespaces = {key.namespace for key in keys}
        # Of one namespace alone, it may be a list of that namespace; objects that were alone in their files are not a list.
        if rows[0]["source"] != "" and (len(namespaces) != 1 or namespaces == {""} or not keys):
            self.stored.unlisted(rows[0]["cluster"], keys, rows[0]["observed_ts"])

    def fields(self) -> Iterator[FieldEvidence]:
        """One entry per field, sorted by its path."""
        states: dict[str, Counter[State]] = {}
        samples: dict[str, Any] = {}
        for stored in self.stored:
            for path, state, value in _last_states(stored):
                states.setdefault(path, Counter())[state] += 1
                samples.setdefault(path, value)
        for path in sorted({*states, *(each.field for each in self._senders.values())}):
            senders = tuple(each for each in self._senders.values() if each.field == path)
            values = [each.sample for each in senders if each.sample is not NO_VALUE]
            yield FieldEvidence(
                path, self._requests[path], senders, states.get(path, Counter()), (values or [samples.get(path, NO_VALUE)])[0]
            )

    def _count(self, event: Event, version: str, schema: Props | None) -> None:
        self.coverage.writes += 1
        if schema is None:
            self.coverage.without_schema[version] += 1
        if event.request_raw is None and event.code < 400:
            self.coverage.opaque[why_not_sent(event)] += 1
        elif event.is_redacted and has_withheld(decode_json(event.request_raw or event.response_raw or b"null")):
            self.coverage.redacted += 1
        if event.request_raw is not None and event.verb != "patch":
            self.coverage.kept_bodies += 1

    def _applied(self, event: Event, key: ObjectKey, schema: Props) -> list[Sent]:
        """The manifest that kubectl kept; it counts for the request that set it, not for those that carried it along."""
        annotation = annotation_of(decode_json(event.request_raw)) if event.request_raw is not None else None
        if annotation is None or annotation == self._annotations.get(key):
            return []
        if event.succeeded:
            self._annotations[key] = annotation
        return list(applied_fields(annotation, schema))

    def _add(self, found: Sequence[Sent], event: Event, key: ObjectKey) -> None:
        of_request: dict[tuple[str, Channel], Sent] = {}
        for each in found:
            of_request.setdefault((general(each.path), each.channel), each)
        self._requests.update({path for path, _ in of_request})
        for (path, channel), each in of_request.items():
            place = path, channel, event.user.username
            sender = self._senders.setdefault(place, Sender(path, channel, event.user.username))
            sender.requests += 1
            sender.refused += event.code >= 400
            sender.objects.add(key)
            sender.first = sender.first or event.ts
            sender.last = max(sender.last or event.ts, event.ts)
            if sender.sample is NO_VALUE:
                sender.sample = each.value


def why_not_sent(event: Event) -> str:
    """Why the body of a write is not recorded, in words for a report."""
    return why_no_body(event) if event.response_raw is None else "the event has an answer and no body"


def _last_states(stored: Stored) -> Iterator[tuple[str, State, Any]]:
    """The state of each field of one object; of several items of a list that which is most present counts."""
    best: dict[str, tuple[State, Any]] = {}
    for path, carried in stored.fields.items():
        name = general(path)
        if name not in best or _RANK.index(carried.state) < _RANK.index(best[name][0]):
            best[name] = carried.state, carried.value
    return ((name, state, value) for name, (state, value) in best.items())


_RANK = (State.STORED, State.HIDDEN, State.UNKNOWN, State.GONE, State.DELETED)
