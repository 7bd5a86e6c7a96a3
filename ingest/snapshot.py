"""`hindcast ingest --snapshot`: what `kubectl get -A -o json` printed, as the state that a log begins with.

A snapshot tells what existed when it was taken, and with the log what existed before. Each object is kept byte for byte. The caller
gives the moment of the list; what the content tells of it is in `SnapshotContent`. An empty list is a row without a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import xxhash
import yaml

from .content import Content, file_source
from .errors import InputError
from .extent import refuse_excess
from .lake import Lake
from .redact import Redactor
from .schema import OBJECTS

_SUFFIXES = (".json", ".yaml", ".yml")
_NAMES_MAX = 5  # of files in one note
_ANY_LIST = "List"  # what kubectl makes of several kinds, and of none
_WANTED = "give what `kubectl get KIND -A -o json` prints"


# The (apiVersion, kind) that a word of a file name speaks of, such as `pods`; None where it speaks of no kind.
KindOf: TypeAlias = Callable[[str], tuple[str, str] | None]

_WITHHELD = "{}: {} objects of kind {} are credentials and were not taken; `--no-redact` takes them"
_WORD = re.compile(r"[a-z][a-z0-9.]*")


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


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


class _Object(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    metadata: _Meta | None = None
    items: list[msgspec.Raw] | None = None


_object = msgspec.json.Decoder(_Object)
_timed = msgspec.json.Decoder(_Timed)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class SnapshotSummary:
    """How many objects were taken from how many files, and how many the lake had already; `notes` say what a file leaves open."""

    files: int = 0
    objects: int = 0
    duplicate: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SnapshotContent:
    """What lists tell of themselves: of when they are, and of what.

    `newest` is the latest time in an object (of its creation, its fields' managers or its conditions), `list_rv` the highest
    resourceVersion of a list and `object_rv` the highest of an object (0: none is told). `kinds` counts the objects of each kind.
    `known` is the moment for which the lake holds all of these files already, if there is one.
    """

    newest: datetime | None = None
    list_rv: int = 0
    object_rv: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    known: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Listed:
    """One object, or the empty list itself, with what its list says of it."""

    raw: bytes
    api_version: str = ""
    kind: str = ""
    list_rv: str | None = None
    is_empty_list: bool = False


def snapshot_content(
    lake: Lake, paths: Sequence[Path], cluster: str, latest: datetime, kind_of: KindOf | None = None
) -> SnapshotContent:
    """What the lists of some files tell of themselves. A time after `latest` is not believed. Raises InputError."""
    content = SnapshotContent()
    digests: set[str] = set()
    for path in _files(paths):
        data = _read(path)
        found = list(_named(path, data, kind_of))
        digests.add(_digest(data, found))
        for entry in found:
            row = _row(path, entry, cluster, latest)
            content.kinds[row["kind"]] += not entry.is_empty_list
            content.list_rv = max(content.list_rv, _number(row["list_rv"]))
            content.object_rv = max(content.object_rv, _number(row["resource_version"]))
            if not entry.is_empty_list:
                times = [moment for moment in _times(row["object"]) if moment <= latest]
                content.newest = max([*times, *([content.newest] if content.newest else [])], default=None)
    content.known = _known_moment(lake, cluster, digests)
    return content


def ingest_snapshot(
    lake: Lake,
    paths: Sequence[Path],
    cluster: str,
    observed: datetime,
    redactor: Redactor | None = None,
    kind_of: KindOf | None = None,
) -> SnapshotSummary:
    """Take lists of objects into the lake as they were at `observed` (an aware time). Folders are read whole.

    The same file given again for the same moment adds nothing. `redactor` keeps out what is a credential as a whole: a replay then
    knows nothing of it. None keeps every object as it came. `kind_of` tells the kind of an empty list by the name of its file.
    Raises InputError naming the file when it holds no objects; then nothing of this call is stored. Raises LakeError.
    """
    summary = SnapshotSummary()
    tables: list[pa.Table] = []
    marks: dict[str, str] = {}
    nameless: list[str] = []
    for path in _files(paths):
        data = _read(path)
        found = list(_named(path, data, kind_of))
        mark = f"{_marks_of(cluster)}{observed.isoformat()}:{_digest(data, found)}"
        rows = [_row(path, entry, cluster, observed) for entry in found]
        if redactor is not None:
            rows = _redacted(path, rows, redactor, summary)
        objects = sum(bool(row["name"]) for row in rows)
        summary.files += 1
        nameless += [path.name for entry in found if entry.is_empty_list and entry.kind == _ANY_LIST]
        if lake.manifest.prop(mark) is not None or mark in marks:
            summary.duplicate += objects
            continue
        marks[mark] = str(len(rows))
        summary.objects += objects
        tables.append(pa.Table.from_pylist(rows, schema=OBJECTS))
    if nameless:
        summary.notes.append(_nameless(nameless))
    with lake.writer() as writer:
        table = pa.concat_tables(tables) if tables else OBJECTS.empty_table()
        writer.commit(writer.write("objects", cluster, table) if table.num_rows else (), props=marks)
    return summary


def _redacted(path: Path, rows: list[dict[str, Any]], redactor: Redactor, summary: SnapshotSummary) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    withheld: list[str] = []
    for row in rows:
        if row["name"] and redactor.withholds_kind(row["kind"], row["api_version"]):
            withheld.append(row["kind"])
        else:
            kept.append(row)
    if withheld:
        summary.notes.append(_WITHHELD.format(path, len(withheld), ", ".join(sorted(set(withheld)))))
    for row in kept:
        try:
            row["object"] = redactor.clean_object(row["object"].encode(), row["kind"], row["api_version"]).decode()
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: {row['kind']} {row['name']} cannot be searched for credentials: {error}", _WANTED) from error
    return kept


def _nameless(names: Sequence[str]) -> str:
    """One sentence for all empty lists of no kind: a snapshot may have dozens."""
    shown = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else "")
    several = f"{len(names)} lists are empty and do not say which kind they would list"
    subject = "1 list is empty and does not say which kind it would list" if len(names) == 1 else several
    return f"{subject}: {shown}; name the file after the resource, as in namespaces.json"


def _digest(data: bytes, found: Sequence[_Listed]) -> str:
    """A digest of a file. Empty lists are alike, byte for byte, whichever kind they list."""
    empty = "".join(f"-{entry.kind}" for entry in found if entry.is_empty_list and entry.kind != _ANY_LIST)
    return xxhash.xxh3_128_hexdigest(data) + empty


def _marks_of(cluster: str) -> str:
    return f"snapshot:{cluster}:"


def _known_moment(lake: Lake, cluster: str, digests: set[str]) -> datetime | None:
    """The latest moment for which the lake holds all of some files."""
    prefix = _marks_of(cluster)
    by_moment: dict[str, set[str]] = {}
    for mark in lake.manifest.props(prefix):
        moment, _, digest = mark.removeprefix(prefix).rpartition(":")
        by_moment.setdefault(moment, set()).add(digest)
    return max((datetime.fromisoformat(moment) for moment, found in by_moment.items() if digests <= found), default=None)


def _times(raw: str) -> Iterator[datetime]:
    """When an object was created and written, as it tells itself."""
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


def _named(path: Path, data: bytes, kind_of: KindOf | None) -> Iterator[_Listed]:
    """What is in a file; an empty list of no kind gets the one that the file's name speaks of."""
    for entry in _objects(path, data):
        if entry.is_empty_list and entry.kind == _ANY_LIST and kind_of is not None:
            words = _WORD.findall(_stem(path.name.lower()))
            told = {found for word in words if (found := kind_of(word)) is not None}
            if len(told) == 1:
                api_version, kind = told.pop()
                yield replace(entry, api_version=api_version, kind=kind)
                continue
        yield entry


def _stem(name: str) -> str:
    for suffix in (".gz", ".zst", *_SUFFIXES):
        name = name.removesuffix(suffix)
    return name


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.is_file() and _is_object_file(file.name))
            if not found:
                raise InputError(
                    f"{path}: the folder has no object lists", "files are taken that end in .json or .yaml, also .gz and .zst"
                )
            yield from found
        else:
            yield path


def _is_object_file(name: str) -> bool:
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _read(path: Path) -> bytes:
    with Content(file_source(path)) as content:
        data = b"".join(content)
        if content.damage:
            raise InputError(f"{path}: {content.damage}", "a snapshot is taken whole or not at all")
    return data


def _objects(path: Path, data: bytes) -> Iterator[_Listed]:
    """What is in a list, in a single object, or in YAML documents of either."""
    if data.lstrip()[:1] != b"{":
        refuse_excess(data, str(path))
        try:
            documents = [
                document for document in yaml.load_all(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if document
            ]
            values = [_encoder.encode(document) for document in documents]
        except (yaml.YAMLError, UnicodeDecodeError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}: found text that is neither JSON nor YAML, wanted a list of objects: {error}", _WANTED
            ) from error
        for value in values:
            yield from _listed(path, value)
        return
    yield from _listed(path, data)


def _listed(path: Path, data: bytes) -> Iterator[_Listed]:
    try:
        found = _object.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no list of objects: {error}", _WANTED) from error
    if found.items is None:
        yield _Listed(data)
        return
    # A list from the API itself (PodList) leaves kind and apiVersion out of its items.
    kind = found.kind if found.kind == _ANY_LIST else (found.kind or "").removesuffix("List")
    list_rv = (found.metadata and found.metadata.resource_version) or None
    of_list = _Listed(data, found.api_version or "", kind or "", list_rv, is_empty_list=True)
    if not found.items:
        yield of_list
    for item in found.items:
        yield replace(of_list, raw=bytes(item), is_empty_list=False)


def _row(path: Path, listed: _Listed, cluster: str, observed: datetime) -> dict[str, Any]:
    raw = listed.raw
    try:
        found = _object.decode(raw)
        api_version, kind = found.api_version, found.kind
        if listed.is_empty_list:
            api_version, kind = listed.api_version, listed.kind
        elif listed.kind not in ("", _ANY_LIST) and not (api_version and kind):
            api_version, kind = listed.api_version, listed.kind
            fields = {"kind": msgspec.Raw(_encoder.encode(kind)), "apiVersion": msgspec.Raw(_encoder.encode(api_version))}
            raw = _encoder.encode(fields | _fields.decode(raw))
        text = raw.decode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: an item is no object: {error}", _WANTED) from error
    meta = found.metadata or _Meta()
    if not api_version or not kind or not (meta.name or listed.is_empty_list):
        raise InputError(f"{path}: found {kind or 'something'} without apiVersion, kind and metadata.name, wanted objects", _WANTED)
    return {
        "cluster": cluster,
        "observed_ts": observed.astimezone(UTC),
        "list_rv": listed.list_rv,
        "api_version": api_version,
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": None if listed.is_empty_list else meta.resource_version,
        "object": text,
        "source": path.name,
    }
