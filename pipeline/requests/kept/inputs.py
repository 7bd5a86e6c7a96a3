"""The fields that policies read of plain requests, kept per file of events: `LAKE/derived/inputs/CODE/EVENTS-DIGEST.parquet`.

A replay takes a class from here if the kept fields hold those that its policies read. Then it reads no body: few of the inputs are
distinct, and each is decoded once. EVENTS is the name of the file of events; what else is in the lake does not matter. DIGEST is
that of the file itself, so a damaged one does not count. CODE is a digest of the code that makes the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.derived import derived_folder
from ingest.durable import own_name
from ingest.errors import LakeError
from ingest.lake import stems_of_events
from ingest.schema import EVENTS

from ...cel.readset import Reads
from .facts import state_of
from .place import by_events, file_digest, forget_gone, is_whole
from .records import code_digest

_IDENTITY = ["cluster", "audit_id", "ts", "stage_ts"]
# Columns of the record that policies may read. The user is always kept, and the name always read: without it the record would not
# be whole.
_USER = ["user_name", "user_uid", "user_groups", "user_extra", "impersonated_user"]
# These differ from request to request, so they are kept only for a class whose policies read them.
OPTIONAL = ["name", "request_uri", "annotations"]  # of the URI, the query
# The name of the object where policies read it and `object` lacks it.
NAME = "object_name"
_FIELDS: list[pa.Field[Any]] = [
    *(EVENTS.field(name).with_nullable(True) for name in _IDENTITY),
    pa.field("is_created", pa.bool_()),
    EVENTS.field("namespace"),
    *(EVENTS.field(name).with_nullable(True) for name in ("name", "request_uri", *_USER)),
    pa.field("annotations", pa.string()),  # JSON
    pa.field(NAME, pa.string()),
    pa.field("object", pa.dictionary(pa.int32(), pa.string())),  # JSON of the fields that are read, without the name
]
_ALWAYS = [*_IDENTITY, "is_created", "namespace", "user_name", "impersonated_user", "object"]
# One row per plain request of a class.
INPUTS = pa.schema(_FIELDS)
# The kept inputs of a lake take up to this share of its events; then those that were not used for the longest time make room.
_SHARE_MAX = 0.2
# What a process holds of the inputs that it has read: replays of edited policies read the same ones again.
_HELD_BYTES_MAX = 64 * 1024 * 1024
_held: dict[object, pa.Table] = {}
_lock = threading.Lock()
_CONTENT = b"hindcast.inputs"
_ROWS_MAX = 50_000
# Readers read whole row groups. Only objects are read as a dictionary; for other columns zstd alone makes smaller files.
_WRITING: Any = {"compression": "zstd", "write_statistics": False, "use_dictionary": ["object"]}

Document: TypeAlias = tuple[bool, bool, bool, "Document | None", dict[str, "Document"]]


class Class(NamedTuple):
    """A class of requests: see LaneName."""

    cluster: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    verb: str


class _Entry(msgspec.Struct, frozen=True):
    """A class in a file: its kept fields and columns, and its row groups. `is_whole` is false where a request needs its event.

    `reads` is the number of its kept fields: most classes have the same.
    """

    name: Class
    reads: int
    columns: list[str]
    groups: list[int]
    is_whole: bool


class _Content(msgspec.Struct, frozen=True):
    """The classes of a file, and the size and the last change of the file of events."""

    bytes: int
    changed_ns: int
    reads: list[Any]
    entries: list[_Entry]


class Wanted(NamedTuple):
    """A class, the fields that are read of its objects, and the columns that are read of its records."""

    name: Class
    reads: Reads
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of a class in a file of kept inputs."""

    path: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The kept inputs of one class in one file of events. `pieces` is None where a request of the class needs its event."""

    pieces: tuple[Piece, ...] | None


class Made(NamedTuple):
    """A class of one file of events to be kept: its rows have the columns INPUTS. None: a request of the class needs its event."""

    wanted: Wanted
    rows: Sequence[pa.Table] | None


def inputs_folder(lake: str | Path) -> Path:
    """Where the inputs of a lake are kept that this code has made."""
    return derived_folder(lake) / "inputs" / code_digest()


class KeptInputs:
    """The kept inputs of some files of events."""

    def __init__(self, lake: str | Path, events: Iterable[str]) -> None:
        self._files: dict[str, list[tuple[Path, _Content]]] = {}
        by_stem = by_events(inputs_folder(lake))
        for file in events:
            contents = [(path, _content_of(path)) for path in by_stem.get(Path(file).stem, ())]
            state = state_of(file) if contents else None
            self._files[file] = [(path, each) for path, each in contents if each and (each.bytes, each.changed_ns) == state]

    def find(self, events: str, wanted: Wanted) -> Found | None:
        """The kept inputs of a class in a file of events; None if none hold all that is read."""
        chosen: tuple[Path, _Entry] | None = None
        for path, content in self._files.get(events, ()):
            for entry in content.entries:
                if entry.name == wanted.name and set(wanted.columns) <= {*entry.columns, *_USER}:
                    chosen = (path, entry) if _covers(content.reads[entry.reads], wanted.reads) else chosen
        if chosen is None:
            return None
        path, entry = chosen
        return Found((Piece(str(path), tuple(entry.groups)),) if entry.groups else ()) if entry.is_whole else Found(None)


def _covers(document: Any, reads: Reads) -> bool:
    return _read_document(document).covers(reads)


def document_of(reads: Reads) -> Document:
    """The reads as JSON values."""
    fields = {name: document_of(reads.fields[name]) for name in sorted(reads.fields)}
    return reads.whole, reads.members, reads.keys, document_of(reads.elements) if reads.elements is not None else None, fields


def _read_document(document: Any) -> Reads:
    whole, members, keys, elements, fields = document
    found = Reads(whole, members, None if elements is None else _read_document(elements), keys=keys)
    found.fields = {name: _read_document(each) for name, each in fields.items()}
    return found


def _content_of(path: Path) -> _Content | None:
    try:
        status = path.stat()
        return _checked(path, status.st_size, status.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _checked(path: Path, size_bytes: int, changed_ns: int) -> _Content | None:
    """The content of a file; None if it is damaged. A file that has not changed since is not read again."""
    try:
        if not is_whole(path):
            return None
        return msgspec.json.decode((pq.read_metadata(path).metadata or {})[_CONTENT], type=_Content)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def read_inputs(pieces: Iterable[Piece], columns: Iterable[str] = INPUTS.names) -> pa.Table:
    """The rows of some pieces in one chunk, with those of the columns INPUTS that every request needs, and the given ones.

    Raises OSError or pa.ArrowException if a piece cannot be read.
    """
    wanted = {*_ALWAYS, *columns}
    schema = pa.schema([field for field in INPUTS if field.name in wanted])
    key = (tuple(pieces), tuple(schema.names))
    with _lock:
        found = _held.pop(key, None)
    if found is None:
        found = _read(key[0], schema)
    with _lock:
        _held[key] = found
        while sum(table.nbytes for table in _held.values()) > _HELD_BYTES_MAX:
            del _held[next(iter(_held))]
    return found


def _read(pieces: Iterable[Piece], schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    for piece in pieces:
        with pq.ParquetFile(piece.path, read_dictionary=["object"]) as file:
            tables.append(file.read_row_groups(list(piece.groups), schema.names).cast(schema))
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def publish_inputs(lake: str | Path, events: str, classes: Sequence[Made]) -> Path | None:
    """Keep inputs of a file of events; None if the lake cannot be written. Returns where."""
    folder = inputs_folder(lake)
    unfinished = own_name(folder / Path(events).stem)  # two replays may keep one at a time
    entries: list[_Entry] = []
    documents: list[Document] = []
    first = 0
    try:
        size_bytes, changed_ns = state_of(events)
        folder.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(unfinished, INPUTS, **_WRITING) as writer:
            for (name, reads, columns), tables in classes:
                rows = pa.concat_tables([INPUTS.empty_table(), *(tables or ())]).unify_dictionaries()
                groups = -(-rows.num_rows // _ROWS_MAX)
                if groups:
                    writer.write_table(rows, row_group_size=_ROWS_MAX)
                if (document := document_of(reads)) not in documents:
                    documents.append(document)
                its_groups = [*range(first, first + groups)]
                entries.append(_Entry(name, documents.index(document), list(columns), its_groups, tables is not None))
                first += groups
            content = msgspec.json.encode(_Content(size_bytes, changed_ns, documents, entries))
            writer.add_key_value_metadata({_CONTENT.decode(): content.decode()})
        kept = folder / f"{Path(events).stem}-{file_digest(unfinished)}.parquet"
        unfinished.replace(kept)
    except (OSError, LakeError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return None
    return kept


def tidy_inputs(lake: Path, used: Collection[str], events_bytes: int) -> None:
    """Remove the inputs of files that are gone and of other code; and the oldest ones without a use if all take too much room."""
    folder = inputs_folder(lake)
    forget_gone(folder, stems_of_events(lake))
    with suppress(OSError):
        sizes = {path: path.stat().st_size for path in folder.glob("*-*.parquet")}
        too_many = sum(sizes.values()) - _SHARE_MAX * events_bytes
        for path in sorted(sizes.keys() - set(map(Path, used)), key=lambda each: each.stat().st_mtime_ns):
            if too_many <= 0:
                break
            path.unlink(missing_ok=True)
            too_many -= sizes[path]
