"""Fields that lie dormant in stored objects: the old schema does not know them, and a new schema gives them power.

An object written before pruning was on keeps unknown fields in storage. They come alive when a schema declares them.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from queries import LakeReader

from ....runs.window import Window
from ..pruning import prune
from .definitions import KnownDefinition
from .fields import unknown_fields_of
from .paths import Path, place_of
from .stored import Carried, State, Stored

_THERE = frozenset((State.STORED, State.HIDDEN, State.UNKNOWN))


@dataclass(frozen=True, slots=True)
class DormantField:
    """One field of one object that comes alive. `value` is what the new schema keeps of it."""

    stored: Stored
    path: Path
    value: Any
    carried: Carried


@dataclass(slots=True)
class Dormant:
    """The dormant fields of one kind, the existing objects looked at, and those of unknown content by reason."""

    old: KnownDefinition
    new: KnownDefinition
    fields: tuple[DormantField, ...] = ()
    objects: int = 0
    opaque: Counter[str] = field(default_factory=Counter)


def dormant_fields(reader: LakeReader, old: KnownDefinition, new: KnownDefinition, window: Window) -> Dormant:
    """The fields of stored objects that the old definition does not know and the new one does, as of the end of the window."""
    found = unknown_fields_of(reader, old, Window(None, window.until))
    dormant = Dormant(old, new)
    alive: list[DormantField] = []
    for stored in found.objects:
        if stored.is_deleted:
            continue
        dormant.objects += 1
        if stored.unknown:
            dormant.opaque[stored.unknown] += 1
        elif new.schema_of(stored.api_version) is None:
            dormant.opaque[f"the new definition has no {stored.api_version}"] += 1
        alive += _alive(stored, new)
    dormant.fields = tuple(alive)
    return dormant


def _alive(stored: Stored, new: KnownDefinition) -> Iterator[DormantField]:
    schema = new.schema_of(stored.api_version)
    if schema is None:
        return
    for path, carried in stored.fields.items():
        place = place_of(schema, [str(step) for step in path])
        if carried.state in _THERE and place.known == len(path) and not place.in_metadata:
            value = copy.deepcopy(carried.value)
            if place.schema is not None:
                prune(value, place.schema, place.schema.is_embedded_resource)
            yield DormantField(stored, path, value, carried)
