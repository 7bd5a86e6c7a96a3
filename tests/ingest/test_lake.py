"""The lake is what its manifest says: whole, by one writer, and readable all the time."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from ingest import durable
from ingest.decode import decode_events
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.schema import EVENTS, OBJECTS
from ingest.store import EventStore, Lines

Event = Callable[..., bytes]
Rows = Callable[[Lake], list[dict[str, Any]]]


def store(lake: Lake, *lines: bytes, marks: dict[str, str] | None = None) -> None:
    with lake.writer() as writer:
        EventStore(writer).store([Lines("c", "test", 0.0, lines)], marks or {}, "q")


def test_a_folder_without_a_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=f"{tmp_path}: there is no lake here; fill one with `hindcast ingest`"):
        Lake.open(tmp_path)


def test_a_lake_of_another_version(lake: Lake) -> None:
    lake.close()
    with closing(sqlite3.connect(lake.path / "manifest.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(LakeError, match="the lake has version 99, this program reads 2"):
        Lake.open(lake.path)


def test_a_file_that_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.sqlite").write_text("not a database, but long enough to be looked at" * 30)
    with pytest.raises(LakeError, match="the lake's manifest cannot be read"):
        Lake.open(tmp_path)


def test_a_lake_cannot_be_made_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeError, match="the lake cannot be made here"):
        Lake.create(tmp_path / "file" / "lake")


def test_an_empty_lake_has_files_with_the_schema(lake: Lake) -> None:
    for kind, schema in (("events", EVENTS), ("objects", OBJECTS)):
        (path,) = lake.files(kind)
        assert pq.read_schema(path).equals(schema)
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{lake.files()[0]}')").fetchall() == [(0,)]


def test_rows_lie_in_the_day_of_their_stage_time(lake: Lake, event: Event) -> None:
    store(lake, event(1), event(24 * 3600), event(2))
    assert [path.parent.name for path in lake.files()] == ["dt=2026-11-01", "dt=2026-11-02"]
    assert [pq.read_table(path, partitioning=None)["audit_id"].to_pylist() for path in lake.files()] == [
        ["id-1", "id-2"],
        ["id-86400"],
    ]


def test_files_are_chosen_by_time(lake: Lake, event: Event) -> None:
    store(lake, event(1))
    store(lake, event(100))
    moments = [int(datetime(2026, 11, 1, 0, 0, second, tzinfo=UTC).timestamp() * 1_000_000) for second in (2, 59)]
    assert len(lake.files(span_us=(0, moments[0]))) == 1
    assert lake.files(span_us=(moments[0], moments[1])) == [lake.path / "events" / "_empty.parquet"]


def test_a_file_is_written_as_the_schema_and_finds_one_audit_id_by_a_bloom_filter(lake: Lake, event: Event) -> None:
    store(lake, *map(event, range(50)))
    (path,) = lake.files()
    assert pq.read_schema(path).equals(EVENTS)
    assert pq.read_schema(path).metadata == EVENTS.metadata
    probe = f"SELECT * FROM parquet_bloom_probe('{path}', 'audit_id', 'id-99999')"
    assert all(excluded for *_, excluded in duckdb.sql(probe).fetchall())


def test_there_is_one_writer(lake: Lake) -> None:
    with (
        lake.writer(),
        pytest.raises(LakeError, match="another process is writing to this lake"),
        Lake.open(lake.path).writer(),
    ):
        pass
    with Lake.open(lake.path).writer():
        pass


def test_readers_do_not_wait_for_the_writer(lake: Lake, event: Event, rows: Rows) -> None:
    store(lake, event(1))
    with lake.writer() as writer, lake.manifest.transaction():
        assert len(rows(Lake.open(lake.path))) == 1
        assert writer.lake is lake


def test_what_was_written_but_not_committed_is_swept(lake: Lake, event: Event, rows: Rows) -> None:
    store(lake, event(1))
    with lake.writer() as writer:
        table = decode_events([event(2)], "c", datetime.now(UTC), "t").table
        (orphan,) = writer.write("events", "c", table)
    (lake.path / "events/dt=2026-11-01/.x.parquet.tmp").write_text("torn")
    assert len(rows(lake)) == 1
    with lake.writer():
        pass
    assert not (lake.path / orphan.path).exists()
    assert sorted((lake.path / "events").rglob("*.*")) == sorted([*lake.files(), lake.path / "events/_empty.parquet"])


def fail(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync folder"])
def test_a_full_disk_loses_nothing_that_was_stored(
    lake: Lake, event: Event, rows: Rows, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store(lake, event(1), marks={"m": "1"})
    with monkeypatch.context() as patch:
        match step:
            case "write":
                patch.setattr(pq, "write_table", fail)
            case "sync":
                patch.setattr(os, "fsync", fail)
            case "rename":
                patch.setattr(Path, "rename", fail)
            case _:
                patch.setattr(durable, "sync_folder", fail)
        with pytest.raises(LakeError, match="No space left on device; free some space, then run it again"):
            store(lake, event(2), marks={"m": "2"})
    assert [row["audit_id"] for row in rows(lake)] == ["id-1"]
    assert lake.manifest.prop("m") == "1"
    store(lake, event(2), marks={"m": "2"})
    assert [row["audit_id"] for row in rows(lake)] == ["id-1", "id-2"]
    assert lake.manifest.prop("m") == "2"


def test_a_manifest_that_cannot_grow_keeps_what_it_has(lake: Lake, event: Event, rows: Rows) -> None:
    store(lake, event(1))
    lake.manifest._connection.execute("PRAGMA max_page_count = 1")  # SQLite then says that the disk is full
    with pytest.raises(LakeError, match="the lake's manifest cannot be written: database or disk is full"):
        store(lake, event(2), marks={f"mark-{number}": "x" * 500 for number in range(200)})
    lake.close()
    again = Lake.open(lake.path)
    assert [row["audit_id"] for row in rows(again)] == ["id-1"]
    assert again.manifest.props("mark-") == {}


def test_a_lake_that_may_only_be_read_is_read_and_leaves_nothing_beside_it(
    lake: Lake, event: Event, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(lake, event(1))
    lake.close()
    before = sorted(lake.path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
        reader = Lake.open(lake.path)
        assert len(rows(reader)) == 1
        assert sorted(lake.path.iterdir()) == before
        with pytest.raises(LakeError, match=f"{lake.path}: the lake cannot be written; fix its owner"):
            Lake.create(lake.path)
    # Somebody else may write all the same: at work, and after an end in order.
    writer = Lake.open(lake.path)
    store(writer, event(2))
    assert len(rows(reader)) == 2
    writer.close()
    assert len(rows(reader)) == 2
    store(writer := Lake.open(lake.path), event(3))
    writer.close()
    assert len(rows(reader)) == 3
    with pytest.raises(LakeError, match="the lake's manifest cannot be written"):
        reader.manifest.commit(props={"mark": "1"})
    reader.close()


@pytest.mark.parametrize("name", ["a*", "a?b", "lake[1]"])
def test_a_name_that_engines_expand_is_refused_before_anything_is_stored(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="holds a character that SQL engines expand"):
        Lake.create(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("broken", "remedy"),
    [("locked", "another process holds the manifest"), ("full", "free space on the disk"), ("read-only", "see who may write it")],
)
def test_why_a_manifest_cannot_be_written_leads_to_what_helps(lake: Lake, broken: str, remedy: str) -> None:
    connection = lake.manifest._connection
    connection.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(lake.path / "manifest.sqlite", isolation_level=None)) as other:
        if broken == "locked":
            other.execute("BEGIN IMMEDIATE")
        elif broken == "full":
            connection.execute("PRAGMA max_page_count = 1")
        else:
            connection.execute("PRAGMA query_only = ON")
        with pytest.raises(LakeError, match="the lake's manifest cannot be written") as refused:
            lake.manifest.commit(props={"key": "x" * 100_000})
    assert refused.value.hint.startswith(remedy)
