"""Reads from the lists of a snapshot when they were taken, which kinds they hold, and whether the lake has them already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import xxhash

from ..lake import Lake
from .object_lists import ANY_LIST, KindOf, Listed, named_objects, object_files, object_row


class _ManagedFields(msgspec.Struct, rename="camel"):
    time: str | None = None


class _TimedMeta(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    managed_fields: list[_ManagedFields] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    last_transition_time: str | None = None
    last_update_time: str | None = None
    last_heartbeat_time: str | None = None


class _TimedStatus(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None


class _Timed(msgspec.Struct, rename="camel"):
    metadata: _TimedMeta | None = None
    status: _TimedStatus | None = None


_timed = msgspec.json.Decoder(_Timed)


@dataclass(slots=True)
class SnapshotContent:
    """Facts from the lists themselves: their times and kinds.

    `newest` is the latest time in an object (of its creation, its fields' managers or its conditions). `list_rv` is the highest
    resourceVersion of a list, `object_rv` the highest of an object (0: unknown). `kinds` counts the objects of each kind. `known`
    is the moment for which the lake holds all of these files already, if any.
    """

    newest: datetime | None = None
    list_rv: int = 0
    object_rv: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    known: datetime | None = None


def snapshot_content(
    lake: Lake, paths: Sequence[Path], cluster: str, latest: datetime, kind_of: KindOf | None = None
) -> SnapshotContent:
    """The facts in the lists of some files. A time after `latest` is ignored. Raises InputError."""
    content = SnapshotContent()
    digests: set[str] = set()
    for path, data in object_files(paths):
        found = list(named_objects(path, data, kind_of))
        digests.add(content_digest(data, found))
        for entry in found:
            row = object_row(path, entry, cluster, latest)
            content.kinds[row["kind"]] += not entry.is_empty_list
            content.list_rv = max(content.list_rv, _number(row["list_rv"]))
            content.object_rv = max(content.object_rv, _number(row["resource_version"]))
            if not entry.is_empty_list:
                times = [moment for moment in _times(row["object"]) if moment <= latest]
                content.newest = max([*times, *([content.newest] if content.newest else [])], default=None)
    content.known = _known_moment(lake, cluster, digests)
    return content


def content_digest(data: bytes, found: Sequence[Listed]) -> str:
    """A digest of a file. An empty list adds its kind, because empty lists of all kinds are alike byte for byte."""
    empty = "".join(f"-{entry.kind}" for entry in found if entry.is_empty_list and entry.kind != ANY_LIST)
    return xxhash.xxh3_128_hexdigest(data) + empty


def marks_of(cluster: str) -> str:
    """The prefix of the manifest's properties that name the files that the lake holds for a moment."""
    return f"snapshot:{cluster}:"


def _known_moment(lake: Lake, cluster: str, digests: set[str]) -> datetime | None:
    """The latest moment for which the lake holds all of some files."""
    prefix = marks_of(cluster)
    by_moment: dict[str, set[str]] = {}
    for mark in lake.manifest.props(prefix):
        moment, _, digest = mark.removeprefix(prefix).rpartition(":")
        by_moment.setdefault(moment, set()).add(digest)
    return max((datetime.fromisoformat(moment) for moment, found in by_moment.items() if digests <= found), default=None)


def _times(raw: str) -> Iterator[datetime]:
    """When an object was created and written, according to its metadata."""
    try:
        found = _timed.decode(raw)
    except msgspec.DecodeError:
        return
    meta, status = found.metadata or _TimedMeta(), found.status or _TimedStatus()
    texts = [meta.creation_timestamp, *(entry.time for entry in meta.managed_fields or ())]
    for condition in status.conditions or ():
        texts += [condition.last_transition_time, condition.last_update_time, condition.last_heartbeat_time]
    for text in filter(None, texts):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(text)
            yield moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
