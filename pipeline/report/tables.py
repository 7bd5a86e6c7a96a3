"""The report as flat Arrow tables, for notebooks, spreadsheets and warehouses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pipeline.readiness.report import Report

from .data import plain
from .shape import is_record, items_of, members, without_none
from .spreadsheet_columns import spreadsheet_column

_SIMPLE: dict[Any, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    datetime: pa.timestamp("us", tz="UTC"),
    date: pa.date32(),
}
_KEY = ("policy", "binding", "chart", "what")
Columns = dict[str, tuple[pa.DataType, list[Any]]]
Keys = tuple[str | None, ...]


def report_tables(report: Report) -> dict[str, pa.Table]:
    """The tables by name: `report` (one row), `policies` (one per policy and binding), and one for each list in the model.

    Lists that belong to a policy have its `policy` and `binding` first, and those of a chart its name. A part of a policy is
    columns, such as `exposure_requests_matched`. A table without rows still has its columns.
    """
    tables: dict[str, Columns] = {}
    _collect(tables, "report", Report, (), [((), report)])
    return {
        name: pa.table({column: pa.array(values, kind) for column, (kind, values) in columns.items()})
        for name, columns in tables.items()
    }


def export_tables(report: Report, folder: Path) -> list[Path]:
    """Write each table as `NAME.parquet` and `NAME.csv` into `folder`, which is made. Lists are JSON in CSV. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in report_tables(report).items():
        parquet, text = folder / f"{name}.parquet", folder / f"{name}.csv"
        pa.parquet.write_table(table, parquet)
        pa.csv.write_csv(_flat(table), text)
        written += [parquet, text]
    return written


def _collect(tables: dict[str, Columns], name: str, cls: type, keys: tuple[str, ...], rows: list[tuple[Keys, Any]]) -> None:
    """Put `rows` of one class, each with the names of its parents, into table `name`, and their lists into further tables."""
    columns = tables.setdefault(name, {})
    for index, key in enumerate(keys):
        columns[key] = (pa.string(), [of[index] for of, _ in rows])
    own_keys = tuple(key for key in _KEY if key in dict(members(cls)) and key not in keys)
    for path, kind, values in _flatten(cls, [row for _, row in rows]):
        item = items_of(kind)
        if not is_record(item):
            column = "_".join(path)
            columns[f"{name}_{column}" if column in keys else column] = (_arrow(kind), [_value(value) for value in values])
            continue
        inner = [
            ((*of, *(getattr(row, key) for key in own_keys)), part)
            for (of, row), parts in zip(rows, values, strict=True)
            for part in parts or ()
        ]
        _collect(tables, "_".join(path), item, (*keys, *own_keys), inner)


def _flatten(cls: type, rows: list[Any]) -> Iterator[tuple[tuple[str, ...], Any, list[Any]]]:
    """Every member of a class with its values; members of a part of it come with the part's name before their own."""
    for name, kind in members(cls):
        bare, _ = without_none(kind)
        values = [None if row is None else getattr(row, name) for row in rows]
        if is_record(bare):
            for path, inner, found in _flatten(bare, values):
                yield (name, *path), inner, found
        else:
            yield (name,), kind, values


def _arrow(kind: Any) -> pa.DataType:
    kind, _ = without_none(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return pa.string()
    if (item := items_of(kind)) is not None:
        return pa.list_(_arrow(item))
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return pa.struct([(f"f{index}", _arrow(part)) for index, part in enumerate(arguments)])
    return pa.string()


def _value(value: Any) -> Any:
    """A value as Arrow takes it: pairs as structs, enumerations as text, mappings (fragments of manifests) as JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [
            {f"f{index}": _value(part) for index, part in enumerate(item)} if isinstance(item, tuple) else _value(item)
            for item in value
        ]
    if isinstance(value, Mapping):
        return json.dumps(plain(value), ensure_ascii=False)
    return value


def _flat(table: pa.Table) -> pa.Table:
    """The table as CSV takes it: every list as JSON text, and no text that a spreadsheet would run."""
    columns = [
        pa.array([json.dumps(plain(value), ensure_ascii=False, default=str) for value in column.to_pylist()], pa.string())
        if pa.types.is_nested(column.type)
        else spreadsheet_column(column)
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
