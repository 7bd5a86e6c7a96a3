"""Readers take databases that earlier readers gave back, and see nothing of these."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queries import databases
from queries.catalog import LakeFiles
from queries.lake import LakeReader

PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def known(tmp_path: Path) -> None:
    """The process has opened two databases already, and keeps none."""
    first, second = reader_of(tmp_path, "one"), reader_of(tmp_path, "other")
    first.close()
    second.close()
    databases._close_kept()


def reader_of(folder: Path, name: str) -> LakeReader:
    """A reader of one object of this name."""
    file = folder / f"{name}.parquet"
    pq.write_table(pa.table({"name": [name]}), file)
    return LakeReader(lambda: LakeFiles(objects=(str(file),)))


def names(reader: LakeReader) -> list[str]:
    return [row["name"] for row in reader.rows("SELECT name FROM lake_objects")]


def database_of(reader: LakeReader) -> duckdb.DuckDBPyConnection:
    return reader._database.root


def test_a_later_reader_takes_the_database_and_sees_its_own_files(tmp_path: Path) -> None:
    with closing(reader_of(tmp_path, "first")) as first:
        first.connection.execute("CREATE TEMP TABLE found AS SELECT 1")
        assert names(first) == ["first"]
    with closing(reader_of(tmp_path, "second")) as second, closing(reader_of(tmp_path, "third")) as third:
        assert database_of(second) is database_of(first)
        assert database_of(third) is not database_of(first), "the second reader still uses it"
        assert (names(second), names(third)) == (["second"], ["third"])
        with pytest.raises(duckdb.CatalogException, match="found"):
            second.connection.execute("FROM found")


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE mine AS SELECT 1",
        "CREATE OR REPLACE VIEW requests AS SELECT 1 AS one",
        "DROP VIEW requests CASCADE",
        "SET GLOBAL memory_limit = '100MB'",
        "SET GLOBAL lock_configuration = true",
        "ATTACH ':memory:' AS other",
    ],
)
def test_a_changed_database_is_not_kept(tmp_path: Path, change: str) -> None:
    with closing(reader_of(tmp_path, "first")) as first:
        first.connection.execute(change)
    with closing(reader_of(tmp_path, "second")) as second:
        assert database_of(second) is not database_of(first)


def test_a_database_in_use_is_not_kept(tmp_path: Path) -> None:
    first = reader_of(tmp_path, "first")
    narrowed = first.narrowed(first.files)
    assert names(narrowed) == ["first"]
    first.close()
    with closing(reader_of(tmp_path, "second")) as second:
        assert database_of(second) is not database_of(first)
    for reader in (narrowed, narrowed, first):
        reader.close()  # a second time changes nothing


def test_every_setting_that_the_code_changes_is_looked_at() -> None:
    """`temp_directory` is compared with the folder of each database."""
    texts = [path.read_text() for room in ("queries", "pipeline", "api") for path in (PROJECT / room).rglob("*.py")]
    changed = {name.lower() for text in texts for name in re.findall(r"\"(?:SET|RESET)(?: GLOBAL)? (\w+)", text)}
    assert {"threads", "async_threads", "memory_limit"} < changed
    assert changed - {"temp_directory"} <= set(databases.SETTINGS)
