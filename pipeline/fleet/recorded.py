"""What clusters have recorded of the same objects, and where they differ: names with digests of contents, as stages tell them."""

from __future__ import annotations

from collections.abc import Iterable

from .model import FleetCluster, FleetDifference, FleetVersion

ABSENT = "absent"
# The kinds of names, in the order in which they are shown.
_KINDS = ("policy", "binding", "param")


def differences(clusters: Iterable[FleetCluster]) -> tuple[FleetDifference, ...]:
    """The recorded objects that are not the same in every judged cluster, by kind and name.

    A cluster without any recorded object says nothing: its log may not show them.
    """
    known = [each for each in clusters if each.recorded]
    names = sorted({name for each in known for name in each.recorded}, key=lambda name: (_order(name), name))
    found = []
    for name in names:
        groups: dict[str, list[str]] = {}
        for each in known:
            groups.setdefault(each.recorded.get(name, ABSENT), []).append(each.cluster)
        if len(groups) > 1:
            versions = [FleetVersion(digest, tuple(sorted(members))) for digest, members in groups.items()]
            kind, _, rest = name.partition(" ")
            found.append(FleetDifference(kind, rest, tuple(sorted(versions, key=lambda each: (-len(each.clusters), each.digest)))))
    return tuple(found)


def _order(name: str) -> int:
    kind = name.partition(" ")[0]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
