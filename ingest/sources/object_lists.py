"""Lists of objects as files hold them: what `kubectl get -o json` printed, a single object, or YAML documents of either."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import msgspec

from ..errors import InputError
from ..extent import yaml_values
from .archives import expanded
from .content import Content, Source, file_source
from .unreadable import unreadable_form

ANY_LIST = "List"  # the kind that kubectl gives to a list of several kinds, or of no objects
WANTED = "give what `kubectl get KIND -A -o json` prints"

# The (apiVersion, kind) for a word of a file name, such as `pods`; None for a word that names no kind.
KindOf: TypeAlias = Callable[[str], tuple[str, str] | None]

_SUFFIXES = (".json", ".yaml", ".yml")
# A level of Velero's folders, resources/GROUP/VERSION/namespaces/NAMESPACE/NAME.json; each object is there without it too, if the
# server preferred that version (velero.io, "Output file format").
_VERSION = re.compile(r"(?<=/resources)(?P<group>/[^/]+)/v\d\w*(?:-preferredversion)?/(?=(?:namespaces|cluster)/)")
_WORD = re.compile(r"[a-z][a-z0-9.]*")


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


@dataclass(frozen=True, slots=True)
class Listed:
    """One object or one empty list, with the metadata of its list. An object that lies alone in its file has no list: it says
    nothing about objects that are not there."""

    raw: bytes
    api_version: str = ""
    kind: str = ""
    list_rv: str | None = None
    is_empty_list: bool = False
    is_alone: bool = False


def named_objects(path: Path, data: bytes, kind_of: KindOf | None) -> Iterator[Listed]:
    """The content of a file; an empty list without a kind gets the kind in the file's name."""
    for entry in _objects(path, data):
        if entry.is_empty_list and entry.kind == ANY_LIST and kind_of is not None:
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


def object_files(paths: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
    """The given files with their contents, and those with object lists in the given folders and archives.

    A backup of Velero holds an object once for each version of its group; one of them is taken. Raises InputError for a folder or
    archive without object lists, and where a part cannot be read.
    """
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and _is_object_file(file.name))
            for name in _once(path, "folder", list(map(str, files))):
                yield Path(name), _whole(file_source(Path(name)))
            continue
        with ExitStack() as opened:
            source = file_source(path)
            inner = expanded(source, opened)
            if inner is None:
                yield path, _whole(source)
                continue
            found = {each.name: each for each in inner if _is_object_file(PurePosixPath(each.name).name)}
            for name in _once(path, "archive", list(found)):
                yield Path(name), _whole(found[name])


def _once(path: Path, kind: str, names: Sequence[str]) -> list[str]:
    """The names in their order, each object of a Velero backup once, in the version that the server preferred."""
    if not names:
        raise InputError(f"{path}: the {kind} has no object lists", "files are taken that end in .json or .yaml, also .gz and .zst")
    chosen: dict[str, str] = {}
    for name in sorted(names, key=lambda each: (_VERSION.search(each) is not None, "-preferredversion/" not in each)):
        chosen.setdefault(_VERSION.sub(r"\g<group>/", name), name)
    wanted = set(chosen.values())
    return [name for name in names if name in wanted]


def _is_object_file(name: str) -> bool:
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _whole(source: Source) -> bytes:
    with Content(source) as content:
        data = b"".join(content)
        if content.damage:
            raise InputError(f"{source.name}: {content.damage}", "a snapshot is taken whole or not at all")
    if (named := unreadable_form(data)) is not None:
        raise InputError(f"{source.name}: found {named[0]}, wanted a list of objects", named[1])
    return data


def _objects(path: Path, data: bytes) -> Iterator[Listed]:
    """The objects in a list, in a single object, or in YAML documents of either."""
    if data.lstrip()[:1] != b"{":
        documents = [document for document in yaml_values(data, str(path), WANTED) if document]
        if not documents:
            raise InputError(f"{path}: found no document, wanted a list of objects", WANTED)
        try:
            values = [_encoder.encode(document) for document in documents]
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: found text that is neither JSON nor YAML, wanted a list of objects: {error}", WANTED
            ) from error
        for value in values:
            yield from _listed(path, value)
        return
    yield from _listed(path, data)


def _listed(path: Path, data: bytes) -> Iterator[Listed]:
    try:
        found = _object.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no list of objects: {error}", WANTED) from error
    if found.items is None:
        yield Listed(data, is_alone=True)
        return
    # A list from the API itself (PodList) leaves kind and apiVersion out of its items.
    kind = found.kind if found.kind == ANY_LIST else (found.kind or "").removesuffix("List")
    list_rv = (found.metadata and found.metadata.resource_version) or None
    of_list = Listed(data, found.api_version or "", kind or "", list_rv, is_empty_list=True)
    if not found.items:
        yield of_list
    for item in found.items:
        yield replace(of_list, raw=bytes(item), is_empty_list=False)


def object_row(path: Path, listed: Listed, cluster: str, observed: datetime) -> dict[str, Any]:
    """One object as a row of the table `objects` (schema.py). Raises InputError naming the file where it is not an object."""
    raw = listed.raw
    try:
        found = _object.decode(raw)
        api_version, kind = found.api_version, found.kind
        if listed.is_empty_list:
            api_version, kind = listed.api_version, listed.kind
        elif listed.kind not in ("", ANY_LIST) and not (api_version and kind):
            api_version, kind = listed.api_version, listed.kind
            fields = {"kind": msgspec.Raw(_encoder.encode(kind)), "apiVersion": msgspec.Raw(_encoder.encode(api_version))}
            raw = _encoder.encode(fields | _fields.decode(raw))
        text = raw.decode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: an item is not an object: {error}", WANTED) from error
    meta = found.metadata or _Meta()
    if not api_version or not kind or not (meta.name or listed.is_empty_list):
        raise InputError(f"{path}: found {kind or 'something'} without apiVersion, kind and metadata.name, wanted objects", WANTED)
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
        "source": "" if listed.is_alone else path.name,
    }
