"""The files of kept admission requests: `LAKE/derived/admissions/STATE/DIGEST.parquet`.

STATE is a digest of the content of the lake and of the code that reconstructs requests: other events, other lists of objects,
expired bodies or other code have another folder. The layout of the lake's files does not count. DIGEST is that of the file, so a
damaged file does not count. A file says which units it holds. A unit is one class of requests, either the plain ones or the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from ingest.derived import derived_folder
from ingest.errors import LakeError

from .admissions import ADMISSIONS
from .place import digest_of

# Raised when the meaning of a column changes; other changes of code have another digest anyway.
FORMAT = 1
_UNITS = b"hindcast.units"
_UNIT = "unit"
_GROUP_ROWS = 4096
_BATCH_ROWS = 1024
# The code that decides what a row holds.
_SOURCES: dict[str, tuple[str, ...]] = {
    "pipeline.history": (),  # all
    "pipeline.derived": ("admissions.py", "inputs.py", "kept.py"),
    "pipeline.cel": ("projection.py", "readset.py", "values.py"),
    "pipeline": ("request.py",),
    "queries": ("reach.py", "reach_rules.py"),
    "pipeline.replay": ("earlier.py", "lanes.py", "past.py"),
    "pipeline.replay.sql": ("planned.sql", "past_writes.sql", "history_events.sql", "history_objects.sql"),
}


class Unit(NamedTuple):
    """The plain requests of a class, or its others: see `planned.sql`."""

    cluster: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    verb: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Keeping:
    """The units that a run does not read from events, because they are kept, and those that it keeps.

    `inputs` are the names of the classes whose inputs it keeps.
    """

    covers: frozenset[Unit] = frozenset()
    keeps: frozenset[Unit] = frozenset()
    inputs: frozenset[tuple[str, ...]] = frozenset()


class _Content(msgspec.Struct, frozen=True):
    """The units of a file, and the unit of each row group by its number."""

    units: list[Unit]
    groups: list[int]


@dataclass(frozen=True, slots=True)
class Groups:
    """Some row groups of a file."""

    path: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Covered:
    """The units that are kept, and where their rows are."""

    units: frozenset[Unit] = frozenset()
    groups: tuple[Groups, ...] = ()


def folder_of(lake: str | Path, state: Iterable[object]) -> Path:
    """The folder for a state of a lake, given by values that change with its content."""
    return derived_folder(lake) / "admissions" / digest_of([_code(), *map(str, state)])


def covered(folder: Path, wanted: Collection[Unit]) -> Covered:
    """Which of the wanted units are kept in a folder."""
    found: set[Unit] = set()
    groups: list[Groups] = []
    for path in sorted(folder.glob("*.parquet")):
        content = _content(path)
        numbers = []
        for number, unit in enumerate(content.units if content else ()):
            if unit in wanted and unit not in found:
                found.add(unit)
                numbers.append(number)
        if content and numbers:
            chosen = tuple(index for index, number in enumerate(content.groups) if number in numbers)
            groups += [Groups(str(path), (index,)) for index in chosen]
    return Covered(frozenset(found), tuple(groups))


def _content(path: Path) -> _Content | None:
    """What a file holds; None if it is damaged."""
    try:
        if _digest(path) != path.stem:
            return None
        return msgspec.json.decode((pq.read_metadata(path).metadata or {})[_UNITS], type=_Content)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def read_groups(groups: Groups) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, with the columns ADMISSIONS. Raises LakeError for a file that cannot be read."""
    try:
        with pq.ParquetFile(groups.path) as file:
            yield from file.iter_batches(_BATCH_ROWS, list(groups.numbers))
    except (OSError, pa.ArrowException) as error:
        hint = "it was removed meanwhile; run the replay again"
        raise LakeError(f"{groups.path}: these kept requests cannot be read: {error}", hint) from error


def publish(folder: Path, units: Sequence[Unit], classes: Sequence[int], tables: Sequence[pa.Table]) -> Path | None:
    """Keep the rows of some units, which have these numbers as classes in the tables; None if the lake cannot be written.

    The tables have the columns ADMISSIONS.
    """
    unfinished = folder / "new.tmp"
    content = _Content(list(units), [])
    table = _numbered(pa.concat_tables([ADMISSIONS.empty_table(), *tables]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(unfinished, ADMISSIONS, compression="zstd") as writer:
            for number, (unit, its_class) in enumerate(zip(units, classes, strict=True)):
                for rows in _stretches(table, 2 * its_class + unit.is_plain):
                    writer.write_table(rows)
                    content.groups.append(number)
            writer.add_key_value_metadata({_UNITS.decode(): msgspec.json.encode(content).decode()})
        kept = folder / f"{_digest(unfinished)}.parquet"
        unfinished.replace(kept)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return None
    return kept


def _stretches(table: pa.Table, unit: int) -> Iterator[pa.Table]:
    """The rows of a unit, which has this number in the column `_UNIT`."""
    rows = table.filter(pc.equal(table[_UNIT], pa.scalar(unit, pa.int32()))).drop_columns([_UNIT])
    for first in range(0, rows.num_rows, _GROUP_ROWS):
        yield rows.slice(first, _GROUP_ROWS)


def _numbered(table: pa.Table) -> pa.Table:
    """The table with a column that numbers units: twice the class, and one more for plain requests."""
    plain = table["is_plain"].cast(pa.int32())
    return table.append_column(_UNIT, pc.add(pc.multiply(table["class"], pa.scalar(2, pa.int32())), plain))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = xxhash.xxh3_128()
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


@cache
def _code() -> str:
    """A digest of the code that decides what a row holds."""
    texts = [str(FORMAT)]
    for room, names in _SOURCES.items():
        folder = files(room)
        for name in names or sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".py")):
            texts += [name, folder.joinpath(name).read_text(encoding="utf-8")]
    return digest_of(texts)
