"""Stored objects that a new definition would refuse: only ratcheting keeps them editable, or every write of them is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum

from queries import LakeReader

from ....runs.window import Window
from ....withheld import has_withheld
from ..field_errors import FieldError
from ..formats import Version
from ..structural import NotConvertibleError
from ..writing import ObjectKind, Operation, UndecodableError, decode, object_kind, write
from .definitions import KnownDefinition
from .fields import unknown_fields_of
from .stored import Stored


class Fate(StrEnum):
    """What becomes of writes of an object that is invalid under the new definition."""

    RATCHETED = "ratcheted"  # writes pass as long as the invalid parts stay as they are
    LOCKED = "locked"  # a write that changes nothing is refused as well
    UNREADABLE = "unreadable"  # the object cannot be read as its kind


@dataclass(frozen=True, slots=True)
class StuckObject:
    """One stored object that the new definition would refuse if it were created. `errors` are those of the fate."""

    stored: Stored
    fate: Fate
    errors: tuple[FieldError | str, ...]


@dataclass(slots=True)
class Stuck:
    """The stuck objects of one kind, the existing objects looked at, and those of unknown content by reason."""

    definition: KnownDefinition
    objects: tuple[StuckObject, ...] = ()
    looked_at: int = 0
    opaque: Counter[str] = field(default_factory=Counter)


def stuck_objects(reader: LakeReader, new: KnownDefinition, version: Version, window: Window) -> Stuck:
    """The objects that exist at the end of a window, judged as if the definition were applied then."""
    kinds = kinds_of(new, version)
    result = Stuck(new)
    found: list[StuckObject] = []
    for stored in unknown_fields_of(reader, new, Window(None, window.until)).objects:
        if stored.is_deleted:
            continue
        result.looked_at += 1
        kind = kinds.get(stored.api_version)
        if stored.unknown or stored.value is None:
            result.opaque[stored.unknown or "no record shows it whole"] += 1
        elif not isinstance(kind, ObjectKind):
            result.opaque[kind or f"the definition has no {stored.api_version}"] += 1
        elif (one := _judged(stored, kind, result.opaque)) is not None:
            found.append(one)
    result.objects = tuple(found)
    return result


def kinds_of(new: KnownDefinition, version: Version) -> dict[str, ObjectKind | str]:
    """The kind of each API version, or why it has none."""
    kinds: dict[str, ObjectKind | str] = {}
    for each in new.definition.versions:
        try:
            kinds[f"{new.definition.group}/{each.name}"] = object_kind(new.definition, each, version)
        except NotConvertibleError as problem:
            kinds[f"{new.definition.group}/{each.name}"] = str(problem)
    return kinds


def _judged(stored: Stored, kind: ObjectKind, opaque: Counter[str]) -> StuckObject | None:
    assert stored.value is not None
    if stored.is_redacted and has_withheld(stored.value):
        opaque["redaction replaced values"] += 1
        return None
    try:
        value = decode(kind, stored.value, is_stored=True).value
    except UndecodableError as problem:
        return StuckObject(stored, Fate.UNREADABLE, (str(problem),))
    # A create would leave out the status, but an update validates all of the object.
    created = write(replace(kind, has_status=False), Operation.CREATE, value)
    opaque.update(created.undecided[:1])
    if not created.errors:
        return None
    again = write(kind, Operation.UPDATE, value, value)
    return StuckObject(stored, Fate.LOCKED, again.errors) if again.errors else StuckObject(stored, Fate.RATCHETED, created.errors)
