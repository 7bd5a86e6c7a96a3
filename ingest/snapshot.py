"""`hindcast ingest --snapshot`: what `kubectl get -A -o json` printed, as the state that a log begins with.

A snapshot tells what existed before the first recorded write. Each object is kept byte for byte; the moment of the list is given by
the caller, because the list itself does not tell it. An empty list is kept too, as a row without a name: there was none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
_ANY_LIST = "List"  # what kubectl makes of several kinds, and of none
_WANTED = "give what `kubectl get KIND -A -o json` prints"


_NAMELESS = "{}: the list is empty and does not say of what; `kubectl get --raw /api/v1/namespaces` would"
_WITHHELD = "{}: {} objects of kind {} are credentials and were not taken; `--no-redact` takes them"


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Object(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    metadata: _Meta | None = None
    items: list[msgspec.Raw] | None = None


_object = msgspec.json.Decoder(_Object)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class SnapshotSummary:
    """How many objects were taken from how many files, and how many the lake had already; `notes` say what a file leaves open."""

    files: int = 0
    objects: int = 0
    duplicate: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Listed:
    """One object, or the empty list itself, with what its list says of it."""

    raw: bytes
    api_version: str = ""
    kind: str = ""
    list_rv: str | None = None
    is_empty_list: bool = False


def ingest_snapshot(
    lake: Lake, paths: Sequence[Path], cluster: str, observed: datetime, redactor: Redactor | None = None
) -> SnapshotSummary:
    """Take lists of objects into the lake as they were at `observed` (an aware time). Folders are read whole.

    The same file given again for the same moment adds nothing. `redactor` keeps out what is a credential as a whole: a replay then
    knows nothing of it. None keeps every object as it came.
    Raises InputError naming the file when it holds no objects; then nothing of this call is stored. Raises LakeError.
    """
    summary = SnapshotSummary()
    tables: list[pa.Table] = []
    marks: dict[str, str] = {}
    for path in _files(paths):
        data = _read(path)
        mark = f"snapshot:{cluster}:{observed.isoformat()}:{xxhash.xxh3_128_hexdigest(data)}"
        found = list(_objects(path, data))
        rows = [_row(path, entry, cluster, observed) for entry in found]
        if redactor is not None:
            rows = _redacted(path, rows, redactor, summary)
        objects = sum(bool(row["name"]) for row in rows)
        summary.files += 1
        summary.notes += [_NAMELESS.format(path) for entry in found if entry.is_empty_list and entry.kind == _ANY_LIST]
        if lake.manifest.prop(mark) is not None or mark in marks:
            summary.duplicate += objects
            continue
        marks[mark] = str(len(rows))
        summary.objects += objects
        tables.append(pa.Table.from_pylist(rows, schema=OBJECTS))
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
