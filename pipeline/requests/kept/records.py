"""The files of kept admission requests: `LAKE/derived/admissions/GROUND/DIGEST.parquet`; of a stage's attempts: `attempts-STAGE`.

GROUND is a digest of all that concerns every request: the lists of objects, the definitions of custom resources, and the code that
reconstructs requests. DIGEST is that of the file, so a damaged file does not count. A file says which units it holds, and from
which state of the events they were made. A unit is one class of requests, either the plain ones or the others. In another state
of the events, a row counts if no event of its object came or went: see `touched.py`. The layout of the lake's files does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.derived import derived_folder
from ingest.durable import own_name
from ingest.errors import LakeError

from .admissions import ADMISSIONS
from .place import digest_of, file_digest, keep, read_table, written_table
from .touched import touched

# Raised when the meaning of a column changes; other changes of code have another digest anyway.
FORMAT = 3
_UNITS = b"hindcast.units"
_UNIT = "unit"
_GROUP_ROWS = 4096
_BATCH_ROWS = 1024
# In a file of a few requests most row groups are tiny. To set up zstd for each of their columns takes longer than all else.
_LZ4_BYTES_MAX = 8 * 1024 * 1024
# Requests for Events are many, and few policies concern them.
_NOT_KEPT = "events"
# The name of an object, and that of the deletecollections that may meet it.
_KEYS = ("object_key", "sweep_key")
# The code that decides what a row holds.
_SOURCES: dict[str, tuple[str, ...]] = {
    "pipeline.history": (),  # all
    "pipeline.requests.kept": ("admissions.py", "inputs.py", "records.py", "touched.py"),
    "pipeline.cel": ("projection.py", "readset.py", "values.py"),
    "pipeline": ("request.py", "withheld.py"),
    "queries": ("reach.py", "reach_rules.py"),
    "ingest.server": ("wordings.py",),
    "pipeline.requests.kept.sql": ("file_objects.sql", "object_totals.sql"),
    "pipeline.requests": ("earlier.py", "lanes.py", "past.py"),
    "pipeline.requests.sql": ("planned.sql", "past_writes.sql", "history_events.sql", "history_objects.sql"),
}


class KeptGoneError(LakeError):
    """Kept requests were removed while they were read, by retention or a newer replay. Their events are still there."""


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
    """What a run leaves out of some files of events, and what it keeps of them.

    `covers` are units that it does not read, because they are kept; of those in `renews` it reads the requests for touched objects.
    `keeps` are the units whose requests it keeps. `inputs` are the classes whose inputs it keeps, by number.
    """

    covers: frozenset[Unit] = frozenset()
    renews: frozenset[Unit] = frozenset()
    keeps: frozenset[Unit] = frozenset()
    inputs: frozenset[int] = frozenset()


class _Content(msgspec.Struct, frozen=True):
    """The units of a file, the unit of each row group by its number, and the state of the events."""

    units: list[Unit]
    groups: list[int]
    state: str


@dataclass(frozen=True, slots=True)
class Groups:
    """Some row groups of a file, all of one unit."""

    path: str
    unit: Unit
    numbers: tuple[int, ...]


NONE = pa.array([], pa.uint64())


@dataclass(frozen=True)
class Covered:
    """The units that are kept, and where their rows are. Rows of objects in `touched` do not count any more."""

    units: frozenset[Unit] = frozenset()
    groups: tuple[Groups, ...] = ()
    touched: pa.Array[Any] = field(default_factory=lambda: NONE)


@dataclass(frozen=True)
class Store:
    """The kept requests of a lake, as they may be used in one state of its events.

    `objects` gives the present objects of the events, as `totals`; it is asked only if the state has changed.
    """

    folder: Path
    state: str
    objects: Callable[[], pa.Table]

    def covered(self, wanted: Collection[Unit]) -> Covered:
        """Which of the wanted units are kept. Those of the present state come first."""
        found: dict[Unit, list[Groups]] = {}
        changed: list[pa.Array[Any]] = [NONE]
        files = [(path, content) for path in sorted(self.folder.glob("*.parquet")) if (content := _content(path))]
        for path, content in sorted(files, key=lambda each: each[1].state != self.state):
            chosen = [unit for unit in content.units if unit in wanted and unit not in found]
            gone = self._touched_since(content.state) if chosen else None
            if gone is None:
                continue
            changed.append(gone)
            for unit in chosen:
                number = content.units.index(unit)
                groups = tuple(index for index, each in enumerate(content.groups) if each == number)
                found[unit] = [Groups(str(path), unit, (index,)) for index in groups]
        every = tuple(groups for each in found.values() for groups in each)
        return Covered(frozenset(found), every, pc.unique(pa.concat_arrays(changed)))

    def _touched_since(self, state: str) -> pa.Array[Any] | None:
        """The objects whose events differ from those of another state; None if that is not known any more."""
        if state == self.state:
            return NONE
        before = read_table(self._state_file(state), state.encode())
        return None if before is None else touched(before, self.objects())

    def _state_file(self, state: str) -> Path:
        return self.folder / f"{state}.objects"

    def publish(self, units: Sequence[Unit], classes: Sequence[int], tables: Sequence[pa.Table]) -> Path | None:
        """Keep the rows of some units, which have these numbers as classes in the tables; None if the lake cannot be written.

        The tables have the columns ADMISSIONS. They hold the rows of the units as they are in the present state.
        """
        if not self._state_file(self.state).exists():
            keep(self._state_file(self.state), written_table(self.objects(), self.state.encode()))
        return _publish(self.folder, _Content(list(units), [], self.state), classes, tables)

    @property
    def kept_events(self) -> int:
        """How many events the lake had when requests were last kept; 0 if none are."""
        contents = filter(None, map(_content, self.folder.glob("*.parquet")))
        return max((int(content.state.partition("-")[0]) for content in contents), default=0)

    def forget_older(self) -> None:
        """Remove the files whose units are all kept in the present state, damaged files, and states that no file is of."""
        files = {path: _content(path) for path in sorted(self.folder.glob("*.parquet"))}
        present = {unit for content in files.values() if content and content.state == self.state for unit in content.units}
        used = {f"{self.state}.objects"}
        with suppress(OSError):
            for path, content in files.items():
                if content is None or (content.state != self.state and present.issuperset(content.units)):
                    path.unlink(missing_ok=True)
                else:
                    used.add(f"{content.state}.objects")
            for path in self.folder.glob("*.objects"):
                if path.name not in used:
                    path.unlink(missing_ok=True)


def ground_of(lake: str | Path, kept: str, concerns: Iterable[object], cluster: str = "") -> Path:
    """The folder for all that concerns every request of a lake, or of one cluster, given by values that change with it.

    `kept` is the name of a folder: one for admission requests, and one for the attempts of each stage. Each cluster has a folder of
    its own, because newer requests replace the older ones next to them.
    """
    place = f"{kept}-of-{digest_of([cluster])}" if cluster else kept
    return derived_folder(lake) / place / digest_of([code_digest(), *map(str, concerns)])


def may_be_kept(unit: Unit) -> bool:
    """Whether requests of a unit can be kept: a deletecollection has several passes."""
    return unit.verb != "deletecollection" and unit.resource != _NOT_KEPT


def _content(path: Path) -> _Content | None:
    """What a file holds; None if it is damaged."""
    try:
        status = path.stat()
        return _checked(path, status.st_size, status.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _checked(path: Path, size_bytes: int, changed_ns: int) -> _Content | None:
    """A file that has not changed since is not read again by a process that replays several times."""
    try:
        if file_digest(path) != path.stem:
            return None
        return msgspec.json.decode((pq.read_metadata(path).metadata or {})[_UNITS], type=_Content)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def untouched(rows: pa.RecordBatch, objects: pa.Array[Any]) -> pa.RecordBatch:
    """The rows with the columns ADMISSIONS whose objects are not among these."""
    if not len(objects):
        return rows
    gone = pc.or_(*(pc.is_in(rows.column(name), value_set=objects) for name in _KEYS))
    return rows.filter(pc.invert(gone))


def read_groups(groups: Groups) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, with the columns ADMISSIONS. Raises KeptGoneError for a file that cannot be read."""
    try:
        with pq.ParquetFile(groups.path) as file:
            yield from file.iter_batches(_BATCH_ROWS, list(groups.numbers))
    except MemoryError:
        raise  # Arrow's is an ArrowException, too, and the file may be whole
    except (OSError, pa.ArrowException) as error:
        hint = "it was removed meanwhile; run the replay again"
        raise KeptGoneError(f"{groups.path}: these kept requests cannot be read: {error}", hint) from error


def _publish(folder: Path, content: _Content, classes: Sequence[int], tables: Sequence[pa.Table]) -> Path | None:
    unfinished = own_name(folder / "kept")  # two replays may keep requests at a time
    table = _numbered(pa.concat_tables([ADMISSIONS.empty_table(), *tables]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Whoever reads a row group reads all of it.
        writing: Any = {"write_statistics": False, "use_dictionary": False}
        writing["compression"] = "zstd" if table.nbytes > _LZ4_BYTES_MAX else "lz4"
        with pq.ParquetWriter(unfinished, ADMISSIONS, **writing) as writer:
            for number, (unit, its_class) in enumerate(zip(content.units, classes, strict=True)):
                for rows in _stretches(table, 2 * its_class + unit.is_plain):
                    writer.write_table(rows)
                    content.groups.append(number)
            writer.add_key_value_metadata({_UNITS.decode(): msgspec.json.encode(content).decode()})
        kept = folder / f"{file_digest(unfinished)}.parquet"
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


@cache
def code_digest() -> str:
    """A digest of the code that decides what a row of kept requests or kept inputs holds."""
    texts = [str(FORMAT), duckdb.__version__]  # another version may hash other numbers
    for room, names in _SOURCES.items():
        folder = files(room)
        for name in names or sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".py")):
            texts += [name, folder.joinpath(name).read_text(encoding="utf-8")]
    return digest_of(texts)
