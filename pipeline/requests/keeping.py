"""What a replay takes from the kept admission requests of a lake, and what it keeps for later ones.

Reconstruction takes most of the time of a replay, and no policy decides about its result. So a replay of everything keeps the
requests that needed history, and later ones judge the kept rows: see pipeline/requests/kept. Of the objects that new events touch,
the requests are read and kept again.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ingest.errors import LakeError
from ingest.lake import Lake
from queries import LakeReader
from queries.lake import files_of

from ..runs.kinds import unused
from ..runs.window import Window, object_digest
from .kept.admissions import ADMISSIONS, Kept, Outcome, kept_of, kept_rows
from .kept.facts import LakeFacts
from .kept.inputs import Class
from .kept.records import Covered, Groups, Keeping, KeptGoneError, Store, Unit, ground_of, may_be_kept, read_groups, untouched
from .kept.touched import objects_of, totals
from .kept_inputs import InputKeeper, TakenInputs
from .lanes import LaneName, lane_name
from .plan import RecordsPlan

_KEPT = "kept.arrow"
# The verbs that meet a stored object.
_OF_STORED = ("update", "patch", "delete")
_LEFT_OUT = b"hindcast.left_out"


def store_of(reader: LakeReader, facts: LakeFacts, kept: Sequence[str]) -> Store | None:
    """The kept requests for the content that a reader reads; None for files without a lake. `kept`: see RecordsPlan.keeps."""
    if not reader.files.lake:
        return None
    ground = ground_of(reader.files.lake, kept[0], (object_digest(reader), facts.definitions, *kept[1:]), reader.files.cluster)
    return Store(ground, facts.state, lambda: totals(objects_of(reader).values()))


def classes_of(facts: LakeFacts) -> dict[str, frozenset[Class]]:
    """The classes of the requests in each file of events."""
    return {
        path: frozenset(Class(*(row[name] or "" for name in Class._fields)) for row in each.classes)
        for path, each in facts.files.items()
    }


def units_of(
    plan: RecordsPlan, names: Sequence[LaneName], laneless: Collection[LaneName]
) -> tuple[frozenset[Unit], frozenset[Unit]]:
    """The units of a plan's requests that need reconstruction, and those of them that a run of it may keep.

    `laneless` are the classes whose requests all need it. Kept rows know the whole past and future of an object, so a window
    with an end has no use for them.
    """
    if plan.window.until is not None:
        return frozenset(), frozenset()
    every = {Unit(*name, False) for name in names} | {Unit(*name, True) for name in laneless}
    wanted = frozenset(unit for unit in every if may_be_kept(unit))
    if plan.window != Window():
        return wanted, frozenset()
    # Where no policy looks at old objects, a run does not look them up, so the row would lack them.
    reads_old = {lane_name(item) for item in plan.classes if item.reads_old_object}
    return wanted, frozenset(
        unit for unit in wanted if not unit.is_plain or unit.verb not in _OF_STORED or LaneName(*unit[:-1]) in reads_old
    )


@dataclass(frozen=True)
class TakenOver:
    """What a run takes over, and what it may keep.

    `classes` are those of each file of events, `names` those of the run. `may_keep` are the units, and `keeps_inputs` says whether
    inputs are kept as well.
    """

    store: Store | None
    covered: Covered
    inputs: TakenInputs
    classes: Mapping[str, Collection[Class]]
    names: Sequence[LaneName]
    may_keep: frozenset[Unit]
    keeps_inputs: bool

    @property
    def keeps(self) -> frozenset[Unit]:
        """The units that are kept: those that were not yet, and all others if events have touched their objects since."""
        return self.may_keep if len(self.covered.touched) else self.may_keep - self.covered.units

    def keeping(self, file: str, left: Collection[int]) -> Keeping | None:
        """What a run leaves out of a file of events; None if it need not read the file at all.

        `left` are the classes whose kept inputs turned out not to do, by number.
        """
        of_inputs = {Unit(*self.names[number], True) for number in self.inputs.covers(file) - set(left)}
        covers = self.covered.units | of_inputs
        renews = self.covered.units - of_inputs if len(self.covered.touched) else frozenset()
        here = [name for name in self.names if Class(*name) in self.classes.get(file, ())]
        units = {Unit(*name, is_plain) for name in here for is_plain in (False, True)}
        if units <= covers and not units & renews:
            return None
        return Keeping(covers, renews, self.keeps)

    def without_history(self) -> TakenOver:
        """The same, but the requests that need history are neither read nor kept."""
        covered = Covered(frozenset(Unit(*name, False) for name in self.names))
        return replace(self, covered=covered, may_keep=frozenset())

    def lacks(self, file: str) -> frozenset[int]:
        """The classes of a file of events whose inputs a run keeps, by number."""
        return self.inputs.lacks(file) if self.keeps_inputs else frozenset()


class Keeper:
    """Collects the requests of one part of a run that will be kept."""

    def __init__(
        self, keeping: Keeping, names: Sequence[LaneName], columns: Mapping[int, Sequence[str]], files: Sequence[str] = ()
    ) -> None:
        """`columns` are those of the record that policies read, by the number of the class. `files` are those of the part: the
        inputs of a single file are kept."""
        units = ((number, Unit(*name, is_plain)) for number, name in enumerate(names) for is_plain in (False, True))
        self._wanted = {(number, unit.is_plain) for number, unit in units if unit in keeping.keeps}
        self._left_out: set[tuple[int, bool]] = set()
        self._tables: list[pa.Table] = []
        self.inputs = InputKeeper(files[0], keeping.inputs, columns) if len(files) == 1 else InputKeeper("", (), columns)

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
            # One batch: many small ones take longer to write, and to take apart later.
            whole = pa.concat_tables([ADMISSIONS.empty_table(), *self._tables]).combine_chunks()
            with pa.ipc.new_file(str(folder / _KEPT), schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
                file.write_table(whole.replace_schema_metadata(schema.metadata))


def _pairs(batch: pa.RecordBatch) -> list[tuple[int, bool]]:
    numbers: list[Any] = batch.column("class").to_pylist()
    plains: list[Any] = batch.column("is_plain").to_pylist()
    return list(zip(numbers, plains, strict=True))


def keep_run(reader: LakeReader, taken: TakenOver, parts: Sequence[Path]) -> None:
    """Keep the requests that all parts of a finished run collected. A lake that has changed meanwhile, or cannot be written, keeps
    nothing."""
    if taken.store is None or not taken.keeps or not is_present(reader):
        return
    with suppress(KeptGoneError):  # the next run keeps them
        _keep_requests(taken.store, taken, parts)
    if not is_present(reader):  # retention may have come first
        shutil.rmtree(taken.store.folder, ignore_errors=True)


def _keep_requests(store: Store, taken: TakenOver, parts: Iterable[Path]) -> None:
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
    numbers = {name: number for number, name in enumerate(taken.names)}
    units = [unit for unit in sorted(taken.keeps) if (numbers[LaneName(*unit[:-1])], unit.is_plain) not in left_out]
    if units:
        for groups in taken.covered.groups:
            if groups.unit in units:
                tables += _carried(groups, numbers[LaneName(*groups.unit[:-1])], taken.covered.touched)
        store.publish(units, [numbers[LaneName(*unit[:-1])] for unit in units], tables)


def _carried(groups: Groups, number: int, objects: pa.Array[Any]) -> Iterable[pa.Table]:
    """The kept rows of objects that were not touched, with the number that their class has now."""
    for batch in read_groups(groups):
        rows = untouched(batch, objects)
        numbers = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
        yield pa.Table.from_batches([rows.set_column(0, ADMISSIONS.field("class"), numbers)], ADMISSIONS)


def is_present(reader: LakeReader) -> bool:
    """Whether a reader reads the files that the lake has now."""
    try:
        lake = Lake.open(reader.files.lake)
    except LakeError:
        return False
    try:
        present = files_of(lake, reader.files.cluster)
    finally:
        lake.close()
    return (present.events, present.objects) == (reader.files.events, reader.files.objects)


def forget_older(store: Store) -> None:
    """Remove what newer kept requests replace, unless a run reads it."""
    with suppress(OSError):
        for other in store.folder.parent.iterdir():
            with unused(other) as is_free:
                if is_free and other != store.folder:
                    shutil.rmtree(other, ignore_errors=True)
                elif is_free:
                    store.forget_older()
