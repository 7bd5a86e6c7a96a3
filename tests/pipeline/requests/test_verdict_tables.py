"""The comparison that every change of the engine is held to: it must see a changed, a missing and a repeated row, and a count."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.verdict_tables import compare

ROWS = [("a", "admit"), ("a", "admit"), ("b", "deny")]


def tables(folder: Path, rows: list[tuple[str, str]], evaluated: int = 2) -> Path:
    folder.mkdir()
    columns = {"audit_id": [row[0] for row in rows], "decision": [row[1] for row in rows]}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    (folder / "counts.json").write_text(json.dumps({"log": {"evaluated": evaluated}}))
    return folder


def test_equal_tables_are_equal_in_any_order(tmp_path: Path) -> None:
    assert list(compare(tables(tmp_path / "old", ROWS), tables(tmp_path / "new", ROWS[::-1]))) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS[1:], "log: 1 rows only in the old table"),
        ([*ROWS, ROWS[2]], "log: 1 rows only in the new table"),
        ([("a", "admit"), ("a", "deny"), ("b", "deny")], "log: 1 rows only in the old table"),
    ],
)
def test_other_rows_are_found(rows: list[tuple[str, str]], said: str, tmp_path: Path) -> None:
    assert said in list(compare(tables(tmp_path / "old", ROWS), tables(tmp_path / "new", rows)))


def test_other_counts_are_found(tmp_path: Path) -> None:
    found = list(compare(tables(tmp_path / "old", ROWS), tables(tmp_path / "new", ROWS, evaluated=3)))
    assert found == ["log: evaluated was 2 and is 3"]
