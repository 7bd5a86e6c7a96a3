"""What a replay takes from the kept inputs of plain requests, and what it keeps of them: see pipeline/requests/kept/inputs.py.

A class of a file of events is taken over as a whole or not at all. If the general path must find the verdicts of a single request,
its events are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ingest.lake import Lake

from .kept.inputs import INPUTS, NAME, OPTIONAL, Class, KeptInputs, Made, Piece, Wanted, publish_inputs, tidy_inputs
from .lanes import Lane, Parted

_INPUTS = "inputs.arrow"
_encode = msgspec.json.Encoder(order="sorted").encode
_RECORDED = pa.schema([pa.field("class", pa.int32()), *INPUTS])
_TOLD = b"hindcast.told"
_PATH = r"^[^?]*"  # policies read only the query of a URI, and many requests share it


class _Told(msgspec.Struct, frozen=True):
    """What a part says of the inputs that it collected: the file of events, the classes, and the classes that lack a row."""

    events: str
    numbers: list[int]
    left_out: list[int]


class InputKeeper:
    """Collects what policies read of the plain requests of one file of events, for the classes whose inputs are kept."""

    def __init__(self, events: str, numbers: Collection[int], columns: Mapping[int, Sequence[str]]) -> None:
        """`numbers` are those of the classes; `columns` are the columns of the record that policies read, by class."""
        self._events = events
        self._numbers = frozenset(numbers)
        self._columns = columns
        unread = set(OPTIONAL).difference(*(columns.get(number, ()) for number in self._numbers))
        self._kept = [field.name for field in INPUTS if field.name not in unread]
        self._left_out: set[int] = set()
        self._texts: dict[bytes, int] = {}  # by text without the name of the object
        self._tables: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch, objects: Sequence[tuple[int, Parted]], left: Sequence[int]) -> None:
        """Keep rows of a batch with the fields that policies read. A class is not kept if one of its plain rows is left out."""
        if not self._numbers:
            return
        numbers: list[Any] = batch.column("class").to_pylist()
        plains: list[Any] = batch.column("is_plain").to_pylist()
        self._left_out.update(numbers[row] for row in left if plains[row] and numbers[row] in self._numbers)
        kept = [(row, parted) for row, parted in objects if numbers[row] in self._numbers]
        if kept:
            texts = [self._texts.setdefault(parted.text, len(self._texts)) for _, parted in kept]
            names = ["class", *(name for name in self._kept if name in batch.schema.names)]
            rows = batch.select([*names, "code"]).take(pa.array([row for row, _ in kept], pa.int32()))
            codes = pc.equal(rows.column("code"), pa.scalar(201, rows.schema.field("code").type)).fill_null(False)
            table = pa.Table.from_batches([rows.select(names)]).append_column("is_created", codes)
            table = table.append_column(NAME, pa.array([parted.name for _, parted in kept], pa.string()))
            self._tables.append(table.append_column("text", pa.array(texts, pa.int32())))

    def write(self, folder: Path) -> None:
        """Write the collected inputs into the folder of a part."""
        if not self._numbers:
            return
        told = {_TOLD: msgspec.json.encode(_Told(self._events, sorted(self._numbers), sorted(self._left_out)))}
        whole = pa.concat_tables(self._tables).combine_chunks() if self._tables else None
        texts = pa.array([text.decode() for text in self._texts], pa.string())
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(str(folder / _INPUTS), _RECORDED.with_metadata(told), options=options) as file:
            for number in sorted(self._numbers) if whole is not None else ():
                assert whole is not None
                rows = whole.filter(pc.equal(whole["class"], pa.scalar(number, pa.int32())))
                if rows.num_rows:
                    file.write_table(self._encoded(rows, number, texts).replace_schema_metadata(told))

    def _encoded(self, rows: pa.Table, number: int, texts: pa.Array[Any]) -> pa.Table:
        """The rows of a class, without columns that no policy reads, and with the texts that they name."""
        used = pc.unique(rows["text"])
        object_ = pa.DictionaryArray.from_arrays(pc.index_in(rows["text"].combine_chunks(), used), texts.take(used))
        columns: list[Any] = [rows["class"].combine_chunks()]
        for field in INPUTS:
            if field.name == "object":
                columns.append(object_)
            elif field.name in OPTIONAL and field.name not in self._columns[number]:
                columns.append(pa.nulls(rows.num_rows, field.type))
            elif field.name == "request_uri":
                columns.append(query_alone(rows[field.name].combine_chunks()))
            elif field.name == "annotations":
                columns.append(as_json(rows[field.name].combine_chunks()))
            else:
                columns.append(rows[field.name].combine_chunks().cast(field.type))
        return pa.Table.from_arrays(columns, schema=_RECORDED)


def query_alone(uris: pa.Array[Any]) -> pa.Array[Any]:
    """The queries of some URIs, each with its question mark; empty without one."""
    return pc.replace_substring_regex(uris, _PATH, "")


def as_json(annotations: pa.Array[Any]) -> pa.Array[Any]:
    """Annotations as texts: the same text for equal ones."""
    return pa.array([None if each is None else _encode(dict(each)).decode() for each in annotations.to_pylist()], pa.string())


class TakenInputs:
    """The kept inputs that a run takes over: of some classes in some files of events."""

    def __init__(self, kept: KeptInputs | None, classes: Mapping[str, Collection[Class]], lanes: Sequence[Lane | None]) -> None:
        """`classes` are those of each file of events. `lanes` are those of the run; a class without a lane is not taken over."""
        self._classes = classes
        self._lanes = {Class(*lane.name): number for number, lane in enumerate(lanes) if lane is not None}
        self.pieces: dict[int, list[Piece]] = {}
        self._found: dict[str, set[int]] = {}
        self._made: dict[str, set[int]] = {}
        for file, names in classes.items() if kept is not None else ():
            assert kept is not None
            for name in sorted(names):
                lane = lanes[self._lanes[name]] if name in self._lanes else None
                if lane is not None and (found := kept.find(file, wanted_of(lane))) is not None:
                    self._made.setdefault(file, set()).add(self._lanes[name])
                    if found.pieces is not None:
                        self._found.setdefault(file, set()).add(self._lanes[name])
                        self.pieces.setdefault(self._lanes[name], []).extend(found.pieces)

    def covers(self, file: str) -> frozenset[int]:
        """The classes of a file of events whose plain requests need not be read, by number."""
        return frozenset(self._found.get(file, ()))

    def lacks(self, file: str) -> frozenset[int]:
        """The classes of a file of events whose inputs no run has tried to keep, by number."""
        here = {self._lanes[name] for name in self._classes.get(file, ()) if name in self._lanes}
        return frozenset(here - self._made.get(file, set()))


def wanted_of(lane: Lane) -> Wanted:
    """What a lane reads of the requests of its class."""
    return Wanted(Class(*lane.name), lane.reads, lane.columns)


def keep_inputs(lake: Path, lanes: Sequence[Lane | None], parts: Iterable[Path], used: Collection[str]) -> None:
    """Keep the inputs that all parts of a finished run collected. `used` are the files of inputs that it took over."""
    rows: dict[str, dict[int, list[pa.Table]]] = {}
    left_out: set[tuple[str, int]] = set()
    for part in parts:
        try:
            with pa.OSFile(str(part / _INPUTS), "rb") as source, pa.ipc.open_stream(source) as stream:
                told = msgspec.json.decode((stream.schema.metadata or {})[_TOLD], type=_Told)
                of_file = rows.setdefault(told.events, {})
                left_out.update((told.events, number) for number in told.left_out)
                for number in told.numbers:
                    of_file.setdefault(number, [])
                for batch in stream:
                    its_class: Any = batch.column("class")[0].as_py()
                    of_file[its_class].append(pa.Table.from_batches([batch]).drop_columns(["class"]).replace_schema_metadata(None))
        except FileNotFoundError:
            continue  # a part that keeps no inputs
        except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
            return
    new: list[Path | None] = []
    for file, classes in rows.items():
        made = [
            Made(wanted_of(lane), None if (file, number) in left_out else tables)
            for number, tables in sorted(classes.items())
            if (lane := lanes[number]) is not None
        ]
        new.append(publish_inputs(lake, file, made))
    with closing(Lake.open(lake)) as opened:
        every = sum(file.bytes for file in opened.manifest.files("events"))  # a run may read one cluster alone
    tidy_inputs(lake, [*used, *(str(path) for path in new if path)], every)
