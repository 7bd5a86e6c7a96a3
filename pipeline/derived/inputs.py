"""The fields that policies read of plain requests, kept per class and read set: `LAKE/derived/admissions/STATE/inputs`.

An edited policy mostly reads the same fields as before. Then a replay of it reads no body: few of the inputs are distinct, and each
is decoded once. The name of a file has a digest of the class and the read set, then one of the file, so a damaged one does not
count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from ingest.schema import EVENTS

from ..cel.readset import Reads
from .place import digest_of

_FOLDER = "inputs"
_IDENTITY = ["cluster", "audit_id", "ts", "stage_ts"]
# Columns of the record that policies may read. The user is always kept, because without a name the record would not be whole.
_USER = ["user_name", "user_uid", "user_groups", "user_extra", "impersonated_user"]
# These differ from request to request, so they are kept only for a class whose policies read them.
OPTIONAL = ["name", "request_uri"]
_FIELDS: list[pa.Field[Any]] = [
    *(EVENTS.field(name).with_nullable(True) for name in _IDENTITY),
    pa.field("is_created", pa.bool_()),
    EVENTS.field("namespace"),
    *(EVENTS.field(name).with_nullable(True) for name in (*OPTIONAL, *_USER)),
    pa.field("object", pa.dictionary(pa.int32(), pa.string())),  # JSON of the fields that are read
]
# One row per plain request of a class.
INPUTS = pa.schema(_FIELDS)
# The kept inputs of a lake take up to this share of its events; then older read sets make room.
_SHARE_MAX = 0.2


def name_of(unit: Sequence[str], reads: Reads, columns: Iterable[str]) -> str:
    """The name of the inputs of a class (given by its parts) with a read set and the columns of the record that are read."""
    return digest_of([*unit, repr(_document(reads)), *columns])


def _document(reads: Reads) -> tuple[Any, ...]:
    """The reads as a value that is equal for equal reads, whatever the order in which they were found."""
    fields = tuple((name, _document(reads.fields[name])) for name in sorted(reads.fields))
    return reads.whole, reads.members, _document(reads.elements) if reads.elements is not None else None, fields


def find_inputs(folder: Path, name: str) -> Path | None:
    """The file of some inputs, if they are kept and not damaged."""
    for path in sorted((folder / _FOLDER).glob(f"{name}-*.parquet")):
        with suppress(OSError):
            if path.stem.partition("-")[2] == _digest(path):
                return path
    return None


def read_inputs(path: Path) -> pa.Table:
    """The rows of a file, with the columns INPUTS in one chunk each. Raises OSError or pa.ArrowException if it cannot be read."""
    found = pq.read_table(path, read_dictionary=["object"], partitioning=None)
    return found.cast(INPUTS).unify_dictionaries().combine_chunks()


def publish_inputs(folder: Path, name: str, tables: Sequence[pa.Table]) -> None:
    """Keep inputs; a lake that cannot be written keeps none. The tables have the columns INPUTS."""
    whole = pa.concat_tables([INPUTS.empty_table(), *tables]).unify_dictionaries()
    unfinished = folder / _FOLDER / f"{name}.tmp"
    try:
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(whole, unfinished, compression="zstd")
        unfinished.replace(unfinished.with_name(f"{name}-{_digest(unfinished)}.parquet"))
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def make_room(folder: Path, names: Iterable[str], events_bytes: int) -> None:
    """Remove all kept inputs but these if their total size exceeds its share of the size of the events."""
    with suppress(OSError):
        files = list((folder / _FOLDER).glob("*.parquet"))
        if sum(path.stat().st_size for path in files) > _SHARE_MAX * events_bytes:
            used = set(names)
            for path in files:
                if path.stem.partition("-")[0] not in used:
                    path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    return xxhash.xxh3_128(path.read_bytes()).hexdigest()
