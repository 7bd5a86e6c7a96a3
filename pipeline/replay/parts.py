"""The files of finished parts of a replay, which are kept until the whole is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pyarrow as pa

from ingest.errors import LakeError

from .plan import Part
from .verdicts import ENCODED
from .worker import PartResult

_COUNTS = "hindcast.counts"
_PART_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Counts(msgspec.Struct, frozen=True):
    """How many requests of a part were evaluated or not, by reason; kept in its file."""

    evaluated: int
    not_evaluated: dict[str, int]


def part_file(folder: Path, part: Part) -> Path:
    """Where a part is kept in the folder of parts."""
    return folder / f"{part.index:06}.arrow"


def free(folder: Path, parts: Iterable[Part]) -> None:
    """Let parts be taken that are not there: by who takes them first."""
    for part in parts:
        part_file(folder, part).unlink(missing_ok=True)
        _claim_of(folder, part).unlink(missing_ok=True)


def take(folder: Path, part: Part) -> bool:
    """Whether nobody else has taken a part; it is then taken."""
    try:
        _claim_of(folder, part).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _claim_of(folder: Path, part: Part) -> Path:
    return folder / f"{part.index:06}.taken"


def write_part(result: PartResult, file: Path) -> None:
    """Keep a part as Arrow's own file: it is read once, and to make Parquet of it twice would take longer than this."""
    counts = Counts(result.evaluated, dict(sorted(result.not_evaluated.items())))
    table = result.verdicts.replace_schema_metadata({_COUNTS: msgspec.json.encode(counts)})
    unfinished = file.with_suffix(".tmp")
    with pa.ipc.new_file(str(unfinished), table.schema, options=_PART_OPTIONS) as part:
        part.write_table(table)
    unfinished.replace(file)


def counts_of(file: Path) -> Counts | None:
    """What a part says of its requests; None if it is not there, damaged, or of other code: then it is to be made."""
    try:
        with pa.ipc.open_file(str(file)) as part:
            stored = part.schema
        if not stored.equals(ENCODED):
            return None
        return msgspec.json.decode((stored.metadata or {})[_COUNTS.encode()], type=Counts)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def read_part(file: Path) -> tuple[Counts, pa.Table]:
    """A part that was there a moment ago. Raises LakeError if it cannot be read to its end."""
    counts = counts_of(file)
    try:
        if counts is not None:
            with pa.ipc.open_file(str(file)) as part:
                return counts, part.read_all().replace_schema_metadata(None)
    except (OSError, pa.ArrowException):
        pass
    raise LakeError(f"{file}: this part of a replay cannot be read", "remove it and run the replay again: it alone is made anew")
