"""The stored object that a write met, from the log and snapshots."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ....history.event import Event, decode_json
from ....history.objects import api_version_of, object_of
from ....history.old_object import describe, version_met
from ....history.version import Form, ObjectKey, Version
from ....history.versions import LogVersions
from ....history.writes import key_of
from ....request import Evidence, Grade, Known, Unknown, worst
from ....withheld import has_withheld
from ..definition import ScalePaths
from .ownership import Owners


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored object as the log last showed it. `version` is the API version in which it did.

    `was_written`: the log records the write, so that storage holds nothing which the object does not show. `write` is its auditID.
    `stored_as` is the version of the bytes, where it is not the storage version. `owners` are those of its fields, where the bodies
    of all its writes tell them.
    """

    value: dict[str, Any]
    version: str
    source: str
    was_written: bool
    write: str = ""
    stored_as: str = ""
    owners: Owners | None = None


Ground: TypeAlias = Callable[[Version], "Known[Stored | None] | Unknown"]
Carry: TypeAlias = Callable[[ObjectKey, Version, Ground], "Known[Stored | None] | Unknown"]


def stored_of(event: Event, versions: LogVersions, scale: ScalePaths | None, carry: Carry) -> Known[Stored | None] | Unknown:
    """The object that a request met; None if there was none. `carry` finds it where only bodies of writes lead to it."""
    key = key_of(event, event.response_head)
    met = version_met(event, key, versions)
    version = met.version
    if version is None:
        if versions.absent_before(key, event.ts):
            return Known(None, "created later", Grade.INFERRED)
        return Unknown(f"no earlier version of {describe(key)} in the log or a snapshot")
    if version.form in (Form.OPAQUE, Form.DISTURBED) and met.grade is not Grade.PARTIAL:
        return carry(key, version, lambda ground: _shown(ground, scale, met.grade))
    return _shown(version, scale, met.grade)


def _shown(version: Version, scale: ScalePaths | None, met: Grade) -> Known[Stored | None] | Unknown:
    """The object that a version shows."""
    if version.form is Form.GONE:
        return Known(None, version.source, met)
    found = _object_of(version, scale)
    if isinstance(found, Unknown):
        return found
    if found.is_redacted and has_withheld(found.value):
        return Unknown(f"values of the stored object were redacted: {found.source}")
    api_version = api_version_of(_ground_of(version))
    stored = Stored(found.value, api_version.rpartition("/")[2], found.source, bool(version.audit_id), version.audit_id)
    return Known(stored, found.source, worst(found.grade, met))


def _ground_of(version: Version) -> Version:
    while version.form is Form.SCALE and version.previous is not None:
        version = version.previous
    return version


def _object_of(version: Version, scale: ScalePaths | None) -> Evidence[Any]:
    """The object of a version. A write of `scale` shows a Scale; the replicas lie where the definition says."""
    if version.form is not Form.SCALE or version.previous is None or version.body is None:
        return object_of(version)
    if scale is None:
        return Unknown(f"where the replicas lie is not known: {version.source}")
    before = _object_of(version.previous, scale)
    if isinstance(before, Unknown):
        return before
    if before.value is None:
        return Unknown(f"written after its deletion: {version.source}")
    value = copy.deepcopy(before.value)
    replicas = (decode_json(version.body).get("spec") or {}).get("replicas", 0)
    if set_at(value, scale.spec_replicas, replicas) and "generation" in value.get("metadata", {}):
        value["metadata"]["generation"] += 1
    value.setdefault("metadata", {})["resourceVersion"] = version.resource_version
    return Known(value, f"{before.source}, then {version.source}", worst(before.grade, Grade.INFERRED))


def set_at(value: dict[str, Any], path: str, item: Any) -> bool:
    """Set the value at a path such as `.spec.replicas`; returns whether it was another one before."""
    *around, last = path.removeprefix(".").split(".")
    for name in around:
        below = value.get(name)
        value[name] = below = below if isinstance(below, dict) else {}
        value = below
    changed = bool(value.get(last) != item)
    value[last] = item
    return changed
