"""Objects that a deletecollection removed without naming them: a later list lacks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..request import Grade
from .snapshots import ObjectList, ResourceName
from .version import Form, ObjectKey, Version
from .versions import LogVersions

_UNTOUCHED = frozenset({Form.GONE, Form.MARKED, Form.OPAQUE})


def record_removals(versions: LogVersions, lists: Mapping[tuple[str, ResourceName], Sequence[ObjectList]]) -> None:
    """Enter the deletions that lists show: an object is missing from a later list, and only a deletecollection may have removed it.

    Of several deletecollections, only the last one is known to have left no such object.
    """
    by_place: dict[tuple[str, str, str, str], list[Version]] = {}
    for disturbance in versions.disturbances():
        by_place.setdefault(disturbance[:4], []).append(disturbance.version)
    if not by_place:
        return
    for key in list(versions.objects()):
        for found in lists.get((key.cluster, ResourceName(key.group, key.resource)), ()):
            removals = by_place.get(key[:4])
            if removals and key not in found.keys and _speaks_of(found, key):
                _remove(versions, key, found, removals)


def _speaks_of(found: ObjectList, key: ObjectKey) -> bool:
    return any(other.namespace == key.namespace for other in found.keys) or found.only_namespace is None


def _remove(versions: LogVersions, key: ObjectKey, found: ObjectList, removals: Iterable[Version]) -> None:
    before = [version for version in versions.timeline(key) if version.since < found.taken and version.form is not Form.DISTURBED]
    if not before or before[-1].form in _UNTOUCHED:
        return
    candidates = sorted(
        (version for version in removals if before[-1].since < version.began and version.since <= found.taken),
        key=lambda version: version.since,
    )
    for version in candidates[:-1]:
        versions.add(key, version)
    if candidates:
        source = f"{candidates[-1].source}, and the {found.source} does not list it"
        versions.add(key, msgspec.structs.replace(candidates[-1], form=Form.GONE, source=source, grade=Grade.PARTIAL))
