"""What one recorded write may have been: the record shows the body, the stored object and the fields of an apply only in part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from ....history.event import Event, decode_json
from ..props import Props
from ..writing import ObjectKind, UndecodableError, decode
from .applying import Applied, Path, removed_between
from .hidden import hidden_fields, without_defaults
from .outcome import NO_MANAGED_FIELDS
from .ownership import applied_to
from .sent import Sent, Way
from .served import Served, UndecidedError
from .stored import Stored

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Possible:
    """The writes that a recorded one may have been. `old` is the definition of that time."""

    def __init__(self, event: Event, old: Served, new: Served, sent: Sent, stored: Stored | None) -> None:
        self._event = event
        self._old = old
        self._new = new
        self._sent = sent
        self._stored = stored

    @cached_property
    def body(self) -> Sent:
        """The write as the record shows it best."""
        kind = self._old.kind(self._sent.version)
        if kind is None or not self._sent.shows_schema_of_the_time:
            return self._sent
        whole = _as_written(self._sent, kind)
        return self._sent if whole is None else replace(self._sent, body=whole, is_manifest=True)

    def writes(self) -> Iterator[tuple[Sent, Stored | None, Applied | None]]:
        """Each write with the object that it met and what an apply removes. The first one is the most likely."""
        for body in self._bodies():
            for stored in self._kept():
                for applied in self.applied(stored):
                    yield body, stored, applied

    def hidden(self) -> dict[str, Props | None]:
        """The fields that the client may have sent, or storage may hold, and that no record shows; with their new schemas."""
        sent, stored = self.body, self._stored
        old, new = self._old.kind(sent.version), self._new.kind(sent.version)
        found: dict[str, Props | None] = {}
        shows_all = sent.is_strict or sent.is_manifest or not sent.shows_schema_of_the_time
        if old is not None and new is not None and old.prunes and not shows_all:
            for path, schema in hidden_fields(sent.body, old.schema, new.schema):
                in_status = path.partition(".")[0].partition("[")[0] == "status"
                if in_status == (sent.subresource == "status") or not (in_status or sent.subresource) or not new.has_status:
                    found[path] = schema
        if stored is not None and not stored.was_written and self._old.storage.prunes:
            found.update(hidden_fields(stored.value, self._old.storage.schema, self._new.storage.schema))
        return found

    def applied(self, stored: Stored | None) -> Iterator[Applied | None]:
        """What an apply may have removed: what the answer or the owners of fields show. Without these, a refused one may have
        removed anything between nothing and all."""
        if self._sent.way is not Way.APPLY or stored is None:
            yield None
        elif not self._event.succeeded and stored.owners is None:
            yield Applied()
            yield Applied(everything=True)
        else:
            found, unsure = self._removed(stored)
            yield found
            if unsure:
                yield replace(found, replaced=frozenset(unsure))

    def _bodies(self) -> Iterator[Sent]:
        """The body, and the body without values that may be defaults of the old definition."""
        yield self.body
        sent = self.body
        old, new = self._old.kind(sent.version), self._new.kind(sent.version)
        if old is None or new is None or sent.is_manifest or not sent.shows_schema_of_the_time:
            return
        if (less := without_defaults(sent.body, old.schema, new.schema)) is not None:
            yield replace(sent, body=less)

    def _kept(self) -> Iterator[Stored | None]:
        """The objects that storage may hold: defaults of the time may be stored, or set at each read."""
        stored = self._stored
        yield stored
        if stored is not None:
            less = without_defaults(stored.value, self._old.storage.schema, self._new.storage.schema)
            if less is not None:
                yield replace(stored, value=less)

    def _removed(self, stored: Stored) -> tuple[Applied, set[Path]]:
        """What an apply removed, by its answer, or by the owners of the fields that it met; see removed_between."""
        sent = self._sent
        old, new = self._old.kind(sent.version), self._new.kind(sent.version)
        if old is None or new is None:
            raise UndecidedError(NO_MANAGED_FIELDS)
        before = self._old.read(stored.value, stored.version, old, stored.stored_as)
        return removed_between(sent, before, answered(self._event) or applied_to(stored.owners, old, sent, before), old, new)


def answered(event: Event) -> dict[str, Any] | None:
    """The object that the answer to a successful write shows."""
    if (raw := event.written_raw) is None:
        return None
    value = decode_json(raw)
    return value if isinstance(value, dict) else None


def _as_written(sent: Sent, old: ObjectKind) -> dict[str, Any] | None:
    """The manifest of a create by `kubectl apply`, which carries it in an annotation; None if it is not of this request."""
    if sent.way is not Way.CREATE or not isinstance(sent.body, dict):
        return None
    annotations = (sent.body.get("metadata") or {}).get("annotations") or {}
    try:
        manifest = json.loads(annotations.get(_LAST_APPLIED, ""))
        found = decode(old, manifest).value if isinstance(manifest, dict) else None
    except (ValueError, UndecodableError):
        return None
    if found is None or _without_metadata(found) != _without_metadata(sent.body):
        return None
    return {**manifest, "metadata": sent.body["metadata"]}


def _without_metadata(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != "metadata"}
