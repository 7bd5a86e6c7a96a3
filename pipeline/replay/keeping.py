"""What a replay takes from the kept admission requests of a lake, and what it keeps for later ones.

Reconstruction takes most of the time of a replay, and no policy decides about its result. So a replay of everything keeps the
requests that needed history, and later ones judge the kept rows: see pipeline/derived.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from ingest.errors import LakeError
from ingest.lake import Lake
from queries import LakeReader

from ..derived.admissions import ADMISSIONS, Kept, Outcome, kept_of, kept_rows
from ..derived.facts import facts_of
from ..derived.kept import Covered, Keeping, Unit, covered, folder_of, publish
from ..runs.kinds import unused
from ..runs.window import Window, object_digest
from .kept_inputs import InputKeeper, keep_inputs
from .lanes import Lane, LaneName
from .plan import ReplayPlan
from .planning import lane_name

_KEPT = "kept.arrow"
# The verbs that meet a stored object.
_OF_STORED = ("update", "patch", "delete")
_LEFT_OUT = b"hindcast.left_out"


def kept_folder(reader: LakeReader) -> Path | None:
    """Where the admission requests of the content that a reader reads are kept; None for files without a lake."""
    if not reader.files.lake:
        return None
    facts = facts_of(reader)
    return folder_of(reader.files.lake, (facts.events, facts.keys, facts.content, object_digest(reader)))


def units_of(
    plan: ReplayPlan, names: Sequence[LaneName], laneless: Collection[LaneName]
) -> tuple[frozenset[Unit], frozenset[Unit]]:
    """The units of a plan's requests that need reconstruction, and those of them that a run of it may keep.

    `laneless` are the classes whose requests all need it. Kept rows know the whole past and future of an object, so a window
    with an end has no use for them.
    """
    if plan.window.until is not None:
        return frozenset(), frozenset()
    every = {Unit(*name, False) for name in names} | {Unit(*name, True) for name in laneless}
    wanted = frozenset(unit for unit in every if unit.verb != "deletecollection")
    if plan.window != Window():
        return wanted, frozenset()
    # Where no policy looks at old objects, a run does not look them up, so the row would lack them.
    reads_old = {lane_name(item) for item in plan.classes if item.reads_old_object}
    return wanted, frozenset(
        unit for unit in wanted if not unit.is_plain or unit.verb not in _OF_STORED or LaneName(*unit[:-1]) in reads_old
    )


def keeping_of(folder: Path | None, wanted: frozenset[Unit], may_keep: frozenset[Unit]) -> tuple[Keeping, Covered]:
    """What is kept of the wanted units, and what a run keeps in addition."""
    if folder is None:
        return Keeping(), Covered()
    found = covered(folder, wanted)
    return Keeping(found.units, may_keep - found.units), found


class Keeper:
    """Collects the requests of one part of a run that will be kept."""

    def __init__(self, keeping: Keeping, names: Sequence[LaneName], columns: Mapping[int, Sequence[str]]) -> None:
        """`columns` are those of the record that policies read, by the number of the class."""
        units = ((number, Unit(*name, is_plain)) for number, name in enumerate(names) for is_plain in (False, True))
        self._wanted = {(number, unit.is_plain) for number, unit in units if unit in keeping.keeps}
        self._left_out: set[tuple[int, bool]] = set()
        self._tables: list[pa.Table] = []
        self.inputs = InputKeeper([number for number, name in enumerate(names) if name in keeping.inputs], columns)

    def wanted(self, batch: pa.RecordBatch) -> list[bool]:
        """For each row of a batch whether it will be kept."""
        if not self._wanted:
            return [False] * batch.num_rows
        return [pair in self._wanted for pair in _pairs(batch)]

    def add(self, batch: pa.RecordBatch, outcomes: Mapping[int, tuple[Outcome, str]]) -> None:
        """Keep the outcomes of some rows of a batch, with the reasons why bodies are unfit."""
        if not outcomes:
            return
        kept: dict[int, Kept] = {}
        pairs = _pairs(batch)
        for row, (outcome, unfit) in outcomes.items():
            found = kept_of(outcome, unfit)
            if found is None:
                self._left_out.add(pairs[row])
            else:
                kept[row] = found
        if kept:
            self._tables.append(kept_rows(batch, kept))

    def write(self, folder: Path) -> None:
        """Write the collected requests into the folder of a part."""
        self.inputs.write(folder)
        if self._wanted:
            schema = ADMISSIONS.with_metadata({_LEFT_OUT: msgspec.json.encode(sorted(self._left_out))})
            with pa.ipc.new_file(str(folder / _KEPT), schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
                for table in self._tables:
                    file.write_table(table.replace_schema_metadata(schema.metadata))


def _pairs(batch: pa.RecordBatch) -> list[tuple[int, bool]]:
    numbers: list[Any] = batch.column("class").to_pylist()
    plains: list[Any] = batch.column("is_plain").to_pylist()
    return list(zip(numbers, plains, strict=True))


class Numbered(Protocol):
    """The classes of a run, by their numbers."""

    names: list[LaneName]

    @property
    def lanes(self) -> Sequence[Lane | None]:
        """The lane of each class."""
        ...


def keep_run(folder: Path, reader: LakeReader, keeping: Keeping, classes: Numbered, parts: Sequence[Path]) -> None:
    """Keep what all parts of a finished run collected. A lake that has changed meanwhile, or cannot be written, keeps nothing."""
    if not (keeping.keeps or keeping.inputs) or not is_present(reader):
        return
    if keeping.inputs:
        numbers = [number for number, name in enumerate(classes.names) if name in keeping.inputs]
        keep_inputs(folder, classes.lanes, numbers, parts, sum(Path(path).stat().st_size for path in reader.files.events))
    if keeping.keeps:
        _keep_requests(folder, keeping, classes.names, parts)
    if not is_present(reader):  # retention may have come first
        shutil.rmtree(folder, ignore_errors=True)
    _forget_others(folder)


def _keep_requests(folder: Path, keeping: Keeping, names: Sequence[LaneName], parts: Iterable[Path]) -> None:
    tables: list[pa.Table] = []
    left_out: set[tuple[int, bool]] = set()
    for part in parts:
        try:
            with pa.memory_map(str(part / _KEPT)) as source, pa.ipc.open_file(source) as file:
                tables.append(file.read_all().replace_schema_metadata(None))
                told = (file.schema.metadata or {}).get(_LEFT_OUT, b"[]")
                left_out.update(msgspec.json.decode(told, type=list[tuple[int, bool]]))
        except (OSError, pa.ArrowException):
            return
    numbers = {name: number for number, name in enumerate(names)}
    units = [unit for unit in sorted(keeping.keeps) if (numbers[LaneName(*unit[:-1])], unit.is_plain) not in left_out]
    if units:
        publish(folder, units, [numbers[LaneName(*unit[:-1])] for unit in units], tables)


def is_present(reader: LakeReader) -> bool:
    """Whether a reader reads the files that the lake has now."""
    try:
        lake = Lake.open(reader.files.lake)
    except LakeError:
        return False
    try:
        present = [str(lake.path / file.path) for file in lake.manifest.files("events")]
        objects = [str(path) for path in lake.files("objects")]
    finally:
        lake.close()
    return (present, objects) == (list(reader.files.events), list(reader.files.objects))


def _forget_others(folder: Path) -> None:
    """Remove the folders of other states of the lake, unless a run reads them."""
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder:
                with unused(other) as is_free:
                    if is_free:
                        shutil.rmtree(other, ignore_errors=True)
