"""Objects of a snapshot as versions: the output of `kubectl get -A -o json` at some moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from ..withheld import REDACTED_IN_PART, holds_placeholder
from .event import Row, decode_json, head_of, moment_of
from .kinds import by_kind
from .version import Form, ObjectKey, Version, object_key


class ResourceName(NamedTuple):
    """A resource as URLs name it."""

    group: str
    resource: str


# Which resource serves a kind of a group; None if that is not known.
ResourceOf: TypeAlias = Callable[[str, str], ResourceName | None]


def snapshot_versions(rows: Iterable[Row], resource_of: ResourceOf | None = None) -> Iterator[tuple[ObjectKey, Version]]:
    """The versions in rows of the lake's `objects` table.

    `resource_of` gives the resources of custom kinds; without it they come from the CustomResourceDefinitions among the rows.
    Objects of a kind without a known resource are left out.
    """
    kept = list(rows)
    find = resource_of or custom_resources(kept)
    for row in kept:
        name = _resource_of_row(row, find)
        if name is not None and row["name"]:
            yield object_key(row["cluster"], name.group, name.resource, row["namespace"] or "", row["name"]), _version(row)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """One list of a snapshot: the objects of one resource that a cluster had when it was `taken`."""

    taken: datetime
    keys: frozenset[ObjectKey]

    @property
    def source(self) -> str:
        """The list in words, as the versions of its objects name it."""
        return source_of(self.taken)

    @property
    def only_namespace(self) -> str | None:
        """The one namespace in which all listed objects lie. None for several, an empty list or a cluster-scoped resource."""
        namespaces = {key.namespace for key in self.keys}
        return (namespaces.pop() or None) if len(namespaces) == 1 else None


def lists_of(rows: Iterable[Row], resource_of: ResourceOf | None = None) -> dict[tuple[str, ResourceName], Sequence[ObjectList]]:
    """The lists of each (cluster, resource), the earliest first; empty ones too. Arguments as of `snapshot_versions`."""
    kept = list(rows)
    find = resource_of or custom_resources(kept)
    found: dict[tuple[str, ResourceName], dict[tuple[datetime, str], set[ObjectKey]]] = {}
    for row in kept:
        # An object that was alone in its file is not a list: it does not say that there were no others.
        if row.get("source") == "" or (name := _resource_of_row(row, find)) is None:
            continue
        keys = found.setdefault((row["cluster"], name), {}).setdefault((row["observed_ts"], row.get("source") or ""), set())
        if row["name"]:
            keys.add(object_key(row["cluster"], name.group, name.resource, row["namespace"] or "", row["name"]))
    return {
        place: [ObjectList(taken, frozenset(keys)) for (taken, _), keys in sorted(lists.items(), key=lambda item: item[0])]
        for place, lists in found.items()
    }


def source_of(taken: datetime) -> str:
    """A snapshot in words."""
    return f"snapshot of {taken:%Y-%m-%dT%H:%M:%SZ}"


def _resource_of_row(row: Row, find: ResourceOf) -> ResourceName | None:
    group = row["api_version"].rpartition("/")[0]
    built_in = by_kind(group, row["kind"])
    return ResourceName(group, built_in.resource) if built_in else find(group, row["kind"])


def custom_resources(rows: Iterable[Row]) -> ResourceOf:
    """The resources of custom kinds as the CustomResourceDefinitions among some snapshot rows define them."""
    found: dict[tuple[str, str], ResourceName] = {}
    for row in rows:
        if row["kind"] == "CustomResourceDefinition" and row["name"]:
            spec = decode_json(row["object"])["spec"]
            found[spec["group"], spec["names"]["kind"]] = ResourceName(spec["group"], spec["names"]["plural"])
    return lambda group, kind: found.get((group, kind))


def _version(row: Row) -> Version:
    observed: datetime = row["observed_ts"]
    source = source_of(observed)
    return Version(
        form=Form.WHOLE,
        since=observed,
        began=observed,
        source=f"{source}; {REDACTED_IN_PART}" if holds_placeholder(row["object"]) else source,
        uid=row["uid"] or "",
        resource_version=row["resource_version"] or "",
        api_version=row["api_version"],
        body=row["object"],
        created=moment_of(head_of(row["object"]).meta.creation_timestamp),
    )
