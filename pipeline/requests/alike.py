"""Which rows of some columns are equal in all of them, found column by column without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

# The numbers of two columns are joined into one of 63 bits; the numbers of a column are below 2 ** 31.
_INT32 = pa.int32()
Value = TypeVar("Value", bound=Sequence[object])


class Groups(NamedTuple):
    """The groups of equal rows, in the order of their first rows: the group of each row, and the first row of each group."""

    numbers: pa.Array[Any]
    first: pa.Array[Any]


class Alike(NamedTuple, Generic[Value]):
    """A value for every row: the number of its group, and the value of each group."""

    numbers: pa.Array[Any]
    values: Sequence[Value]


def alike_together(parts: Sequence[Alike[Value]]) -> Alike[list[Value]]:
    """For every row its values in all parts, which have the same rows. There is at least one part.

    Sequences of the same objects count as equal values.
    """
    numbered = [_numbered_values(tuple(map(id, value)) for value in part.values) for part in parts]
    groups = alike_rows([numbers.take(part.numbers) for numbers, part in zip(numbered, parts, strict=True)])
    chosen = [part.numbers.take(groups.first).to_pylist() for part in parts]
    values = [[part.values[number] for part, number in zip(parts, each, strict=True)] for each in zip(*chosen, strict=True)]
    return Alike(groups.numbers, values)


def alike_rows(columns: Sequence[pa.Array[Any]]) -> Groups:
    """The groups of rows that are equal in all columns; null equals null. There is at least one column."""
    numbers = _numbered(columns[0])
    for column in columns[1:]:
        others = _numbered(column)
        high = pc.multiply(numbers.cast(pa.int64()), pa.scalar(1 << 31, pa.int64()))
        numbers = _numbered(pc.add(high, others.cast(pa.int64())))
    rows = pa.table({"number": numbers, "row": pa.array(range(len(numbers)), _INT32)})
    first = rows.group_by("number").aggregate([("row", "min")]).sort_by("number")
    return Groups(numbers, first["row_min"].combine_chunks())


def _numbered(column: pa.Array[Any]) -> pa.Array[Any]:
    """Numbers for the values of a column, from 0 in the order in which they are met first."""
    if pa.types.is_nested(column.type):
        return _numbered_values(map(_hashable, column.to_pylist()))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()  # type: ignore[attr-defined]  # pyarrow has no types for it
    encoded: Any = pc.dictionary_encode(column, null_encoding="encode")
    found: pa.Array[Any] = encoded.indices
    return found


def _numbered_values(values: Iterable[Any]) -> pa.Array[Any]:
    known: dict[Any, int] = {}
    return pa.array([known.setdefault(value, len(known)) for value in values], _INT32)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
