"""Parquet tables of audit events: each row becomes a JSON object of its columns.

A stranger's table may have any column. Values are read by their type: texts, numbers, times, and lists, maps and structs of them.
What no event has, such as a duration, is left out before it becomes a value of Python, which has no place for all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from .compressed import DamagedError
from .unique import unique_names

MAGIC = b"PAR1"
_ROWS = 500
_MEMORY_BYTES = 64 << 20
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 to 9999, in seconds since the epoch.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_encoder = msgspec.json.Encoder()


def parquet_rows(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Each row as a JSON object on one line. Parquet is read from its end, so the content is copied first.

    Raises DamagedError for content that is not a whole Parquet file.
    """
    with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as copy:
        copy.writelines(blocks)
        copy.seek(0)
        try:
            with pq.ParquetFile(pa.PythonFile(copy, mode="r")) as file:
                names = unique_names(file.schema_arrow.names)
                for batch in file.iter_batches(_ROWS):
                    columns = [(each, _values(batch.column(place))) for place, each in enumerate(names)]
                    yield b"".join(_encoder.encode(row) + b"\n" for row in _objects(columns, batch.num_rows))
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"the Parquet file is damaged: {error}") from error


def _objects(columns: Sequence[tuple[str, Sequence[Any]]], rows: int) -> Iterator[dict[str, Any]]:
    """One object a row. Absent members are left out."""
    for row in range(rows):
        yield {name: values[row] for name, values in columns if values[row] is not None}


def _values(array: Any) -> Sequence[Any]:
    """The values of a column as JSON writes them. An absent value is None, and so is each value of a type that no event has."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        return _values(array.storage)
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array)
    if pa.types.is_timestamp(kind):
        return [None if each is None else _time(each, kind) for each in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(array.cast(pa.large_binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _texts(array)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind):
        plain: list[Any] = array.to_pylist()
        return plain
    if pa.types.is_decimal(kind):
        return [None if each is None else str(each) for each in array.to_pylist()]
    return [None] * len(array)


def _texts(array: Any) -> list[str | None]:
    return [None if each is None else each.decode("utf-8", "replace") for each in array.to_pylist()]


def _structs(array: Any) -> list[Any]:
    names = unique_names([field.name for field in array.type])
    members = [(name, _values(each)) for name, each in zip(names, array.flatten(), strict=True)]
    present = array.is_valid().to_pylist()
    found = _objects(members, len(array))
    return [each if there else None for each, there in zip(found, present, strict=True)]


def _lists(array: Any) -> list[Any]:
    values = iter(_values(array.flatten()))
    return [None if size is None else [next(values) for _ in range(size)] for size in array.value_lengths().to_pylist()]


def _maps(array: Any) -> list[Any]:
    """A map is an object. Its keys and items are those of the whole column, however much of it is read."""
    keys, items, ends = _values(array.keys), _values(array.items), array.offsets.to_pylist()
    pairs = [
        {str(keys[place]): items[place] for place in range(start, end) if items[place] is not None} for start, end in pairwise(ends)
    ]
    return [each if there else None for each, there in zip(pairs, array.is_valid().to_pylist(), strict=True)]


def _time(count: int, kind: Any) -> str | None:
    """A time as RFC 3339 writes it, in UTC if it has a zone, else without one; None outside the years 1 to 9999."""
    per_second = _PER_SECOND[kind.unit]
    seconds, rest = divmod(count, per_second)
    if not _FIRST_S <= seconds <= _LAST_S:
        return None
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    fraction = f".{rest:0{len(str(per_second)) - 1}}" if rest else ""
    return f"{text}{fraction}{'Z' if kind.tz else ''}"
