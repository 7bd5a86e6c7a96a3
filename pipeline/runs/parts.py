"""The finished parts of a run: folders that appear when they are whole, each with the result of one task.

A part that was judged has three tables. `verdicts` are distinct. `sets` are the sets of verdicts that requests got, as row numbers
of the first table. `judged` has one row per pass of a request with the number of its set. They are Arrow files, read in place.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from ingest.durable import own_name
from ingest.errors import LakeError

from .verdict import VERDICT_VALUES
from .verdicts import JUDGED, SETS, Judged

_COUNTS = "hindcast.counts"
_CREW = "crew"
_SCHEMAS = {"judged": JUDGED, "sets": SETS, "verdicts": VERDICT_VALUES}


class Counts(msgspec.Struct, frozen=True):
    """How many requests were settled in a part, how many of them were evaluated, and why the others were not."""

    requests: int
    evaluated: int
    not_evaluated: dict[str, int]


@dataclass(frozen=True)
class Settled:
    """The outcomes of the requests of a part, without those that wait for history."""

    tables: Judged
    requests: int
    not_evaluated: Mapping[str, int]


@contextmanager
def making(folder: Path, name: str, crew: Path) -> Iterator[Path]:
    """A folder for a part, in that of a crew; at the end of the context it is moved to its place under its name."""
    unfinished = crew / f"{name}.tmp"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    yield unfinished
    unfinished.replace(folder / name)


def new_crew(folder: Path) -> Path:
    """A folder for the processes that work for one owner of a run: what they have taken, and their unfinished parts."""
    crew = own_name(folder / _CREW)
    crew.mkdir()
    return crew


def forget_crews(folder: Path) -> None:
    """Remove the folders of earlier owners: a process that outlives its owner for a moment then takes and finishes nothing."""
    for left in folder.glob(f".{_CREW}.*"):
        gone = own_name(folder / "left")
        with suppress(FileNotFoundError):
            left.rename(gone)  # in one step: nobody can finish anything in a folder that is half removed
            shutil.rmtree(gone, ignore_errors=True)


def free(folder: Path, crew: Path, names: Iterable[str]) -> None:
    """Make missing parts free again; the first process of the crew to take one has it."""
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        _claim_of(crew, name).unlink(missing_ok=True)


def take(crew: Path, name: str) -> bool:
    """Take a part; False if another process has taken it, or the crew is not that of the run's owner any more."""
    try:
        _claim_of(crew, name).touch(exist_ok=False)
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _claim_of(crew: Path, name: str) -> Path:
    return crew / f"{name}.taken"


def write_settled(settled: Settled, folder: Path) -> None:
    """Keep the tables of a part in its folder."""
    evaluated = settled.requests - sum(settled.not_evaluated.values())
    counts = Counts(settled.requests, evaluated, dict(sorted(settled.not_evaluated.items())))
    for name, table in settled.tables._asdict().items():
        told = {_COUNTS: msgspec.json.encode(counts)} if name == "judged" else None
        with pa.ipc.new_file(str(_file(folder, name)), table.schema.with_metadata(told)) as file:
            file.write_table(table.replace_schema_metadata(told))


def counts_of(part: Path) -> Counts | None:
    """The counts of a part; None if it is missing, damaged, or made by other code: then the task must make it."""
    told: dict[bytes, bytes] = {}
    try:
        for name, schema in _SCHEMAS.items():
            with pa.memory_map(str(_file(part, name))) as source, pa.ipc.open_file(source) as file:
                if not file.schema.equals(schema):
                    return None
                told |= file.schema.metadata or {}
        return msgspec.json.decode(told[_COUNTS.encode()], type=Counts)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def parts_of(parts: Path, kind: str = "") -> list[Path]:
    """The parts that are made, in their order; of one kind, or all."""
    return sorted(part for part in parts.glob(f"{kind}*") if part.is_dir() and not part.suffix)


def settled_parts(parts: Path) -> list[Path]:
    """The parts that hold verdicts, in their order."""
    return [part for part in parts_of(parts) if _file(part, "judged").exists()]


def read_settled(part: Path) -> Judged:
    """The tables of an existing part; they stay in the file. Raises LakeError if one cannot be read."""
    try:
        return Judged(*(_read(_file(part, name)) for name in _SCHEMAS))
    except (OSError, pa.ArrowException) as error:
        hint = "remove it and run the replay again: it alone is made again"
        raise LakeError(f"{part}: this part of a replay cannot be read", hint) from error


def _read(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as opened:
        return opened.read_all().replace_schema_metadata(None)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.arrow"
