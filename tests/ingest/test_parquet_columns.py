"""Columns that hold no event never end an ingest, whatever type a stranger gave them."""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.parquet import parquet_rows
from ingest.store import Counts

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]
FAR = 2**62
STRANGE = {
    "nanoseconds": pa.array([1, None], pa.timestamp("ns")),
    "a time zone that does not exist": pa.array([1, None], pa.timestamp("us", "Mars/Phobos")),
    "a time past the year 9999": pa.array([FAR, -FAR], pa.timestamp("us")),
    "a date past the year 9999": pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
    "a date in milliseconds": pa.array([0, None], pa.date64()),
    "a time of day": pa.array([1, None], pa.time64("ns")),
    "a duration": pa.array([FAR, None], pa.duration("ns")),
    "half a float": pa.array([1.5, None], pa.float32()).cast(pa.float16()),
    "a decimal": pa.array([Decimal("1E+30"), None], pa.decimal256(60, 2)),
    "no number": pa.array([float("nan"), float("-inf")]),
    "bytes that are no text": pa.array([b"\xff\xfe{\x00", None], pa.binary()),
    "few bytes": pa.array([b"ab", None], pa.binary(2)),
    "a list of times": pa.array([[1, None], None], pa.list_(pa.timestamp("ns"))),
    "a list of two": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "a struct of durations": pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.duration("ns")), ("b", pa.string())])),
    "a map of times": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.timestamp("ns"))),
    "a dictionary": pa.array(["a", None]).dictionary_encode(),
    "nothing": pa.nulls(2),
}


def parquet(columns: list[tuple[str, Any]]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([each for _, each in columns], names=[name for name, _ in columns]), target)
    return target.getvalue()


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_column_costs_no_event(lake: Lake, tmp_path: Path, event: Event, ids: Ids, name: str) -> None:
    messages = pa.array([event(1).decode(), event(2).decode()])
    path = tmp_path / "log.parquet"
    path.write_bytes(parquet([("strange", STRANGE[name]), ("message", messages)]))
    assert ingest_files(lake, [path], "c", 0.0).counts == Counts(read=2, stored=2)
    assert ids(lake) == ["id-1", "id-2"]


def test_two_columns_of_one_name_are_both_read(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(parquet([("message", pa.array([event(1).decode()])), ("message", pa.array(["starting"]))]))
    table = tmp_path / "log.csv"
    quoted = event(2).decode().replace('"', '""')
    table.write_text(f'message,time,message\nstarting,1,"{quoted}"\n')
    assert ingest_files(lake, [path, table], "c", 0.0).counts == Counts(read=2, stored=2)
    assert ids(lake) == ["id-1", "id-2"]


def test_a_text_that_is_not_utf_8_is_read_with_marks_in_it(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    """Some writers store bytes of another encoding in a column of texts."""
    broken = pa.array([b"caf\xe9", event(1)], pa.binary()).view(pa.string())
    path = tmp_path / "log.parquet"
    path.write_bytes(parquet([("message", broken)]))
    ingest_files(lake, [path], "c", 0.0)
    assert ids(lake) == ["id-1"]


TIMES = st.tuples(st.sampled_from(["ms", "us", "ns"]), st.integers(-(2**63), 2**63 - 1), st.sampled_from([None, "UTC", "+05:30"]))


@given(TIMES)
@settings(deadline=None)
def test_a_time_is_that_of_the_engine(time: tuple[str, int, str | None]) -> None:
    unit, count, zone = time
    array = pa.array([count], pa.int64()).view(pa.timestamp(unit, zone))
    (line,) = list(parquet_rows("x", iter([parquet([("time", array), ("row", pa.array([1]))])])))
    found = msgspec.json.decode(line)
    # The oracle is the table that was written.
    stored = pq.read_table(io.BytesIO(parquet([("time", array)])))["time"].combine_chunks()
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[stored.type.unit]
    seconds = stored.cast(pa.int64())[0].as_py() // per_second
    if not -62_135_596_800 <= seconds < 253_402_300_800:
        assert "time" not in found
        return
    told = pa.array([found["time"].partition(".")[0].removesuffix("Z")]).cast(pa.timestamp("s"))
    assert told.cast(pa.int64())[0].as_py() == seconds
    assert found["time"].endswith("Z") is (zone is not None)
