"""`hindcast ingest --snapshot`: what `kubectl get -A -o json` printed, as the state that a log begins with.

A snapshot tells what existed before the first recorded write. Each object is kept byte for byte; the moment of the list is given by
the caller, because the list itself does not tell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import xxhash
import yaml

from .content import Content
from .errors import InputError
from .lake import Lake
from .schema import OBJECTS

_SUFFIXES = (".json", ".yaml", ".yml")
_WANTED = "give what `kubectl get KIND -A -o json` prints"


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
    """How many objects were taken from how many files, and how many the lake had already."""

    files: int = 0
    objects: int = 0
    duplicate: int = 0


def ingest_snapshot(lake: Lake, paths: Sequence[Path], cluster: str, observed: datetime) -> SnapshotSummary:
    """Take lists of objects into the lake as they were at `observed` (an aware time). Folders are read whole.

    The same file given again for the same moment adds nothing.
    Raises InputError naming the file when it holds no objects; then nothing of this call is stored. Raises LakeError.
    """
    summary = SnapshotSummary()
    tables: list[pa.Table] = []
    marks: dict[str, str] = {}
    for path in _files(paths):
        data = _read(path)
        mark = f"snapshot:{cluster}:{observed.isoformat()}:{xxhash.xxh3_128_hexdigest(data)}"
        rows = [_row(path, raw, cluster, observed, kind) for raw, kind in _objects(path, data)]
        summary.files += 1
        if lake.manifest.prop(mark) is not None or mark in marks:
            summary.duplicate += len(rows)
            continue
        marks[mark] = str(len(rows))
        summary.objects += len(rows)
        tables.append(pa.Table.from_pylist(rows, schema=OBJECTS))
    with lake.writer() as writer:
        table = pa.concat_tables(tables) if tables else OBJECTS.empty_table()
        writer.commit(writer.write("objects", cluster, table) if table.num_rows else (), props=marks)
    return summary


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.is_file() and _is_object_file(file.name))
            if not found:
                raise InputError(
                    f"{path}: the folder has no object lists", "files are taken that end in .json or .yaml, also .gz and .zst"
                )
            yield from found
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: no such file or folder")


def _is_object_file(name: str) -> bool:
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _read(path: Path) -> bytes:
    with Content(path) as content:
        data = b"".join(content)
        if content.damage:
            raise InputError(f"{path}: {content.damage}", "a snapshot is taken whole or not at all")
    return data


def _objects(path: Path, data: bytes) -> Iterator[tuple[bytes, tuple[str, str] | None]]:
    """(raw object, (apiVersion, kind) that its list implies) of a list, of a single object, or of YAML documents of either."""
    if data.lstrip()[:1] != b"{":
        try:
            documents = [
                document for document in yaml.load_all(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if document
            ]
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: found text that is neither JSON nor YAML, wanted a list of objects: {error}", _WANTED
            ) from error
        for document in documents:
            yield from _listed(path, _encoder.encode(document))
        return
    yield from _listed(path, data)


def _listed(path: Path, data: bytes) -> Iterator[tuple[bytes, tuple[str, str] | None]]:
    try:
        found = _object.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no list of objects: {error}", _WANTED) from error
    if found.items is None:
        yield data, None
        return
    # A list from the API itself (PodList) leaves kind and apiVersion out of its items.
    kind = (found.kind or "").removesuffix("List")
    implied = (found.api_version or "", kind) if kind else None
    for item in found.items:
        yield bytes(item), implied


def _row(path: Path, raw: bytes, cluster: str, observed: datetime, implied: tuple[str, str] | None) -> dict[str, Any]:
    try:
        found = _object.decode(raw)
        api_version, kind = found.api_version, found.kind
        if implied and not (api_version and kind):
            api_version, kind = implied
            fields = {"kind": msgspec.Raw(_encoder.encode(kind)), "apiVersion": msgspec.Raw(_encoder.encode(api_version))}
            raw = _encoder.encode(fields | _fields.decode(raw))
        text = raw.decode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: an item is no object: {error}", _WANTED) from error
    meta = found.metadata
    if not api_version or not kind or meta is None or not meta.name:
        raise InputError(f"{path}: found {kind or 'something'} without apiVersion, kind and metadata.name, wanted objects", _WANTED)
    return {
        "cluster": cluster,
        "observed_ts": observed.astimezone(UTC),
        "list_rv": None,
        "api_version": api_version,
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "object": text,
        "source": path.name,
    }
