"""Maintenance changes how events lie on disk, never which events there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import maintain
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.maintain import DamagedFileError, Fault, compact, remove_retired, verify
from ingest.retention import OBJECTS_EXPIRED, Expired, bodies_before, expire, expire_objects, expire_quarantine
from ingest.schema import EVENTS
from ingest.store import EventStore, Lines

Event = Callable[..., bytes]
Rows = Callable[[Lake], list[dict[str, Any]]]
DAY = 86_400
FIRST_DAY = datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp()


def store(lake: Lake, *lines: bytes, cluster: str = "c") -> None:
    with lake.writer() as writer:
        EventStore(writer).store([Lines(cluster, "test", 0.0, lines)], {}, "q")


def test_files_of_a_day_become_one_sorted_file(lake: Lake, event: Event, rows: Rows) -> None:
    for number in range(9):
        store(lake, event(number), event(number + DAY))
    before = rows(lake)
    with lake.writer() as writer:
        done = compact(writer, FIRST_DAY)
    assert (done.units, done.files_before, done.files_after, done.rows, done.duplicate) == (2, 18, 2, 18, 0)
    assert rows(lake) == before
    assert [path.parent.name for path in lake.files()] == ["dt=2026-11-01", "dt=2026-11-02"]
    table = pq.read_table(lake.files()[0], partitioning=None)
    assert table.schema == EVENTS
    assert table["name"].to_pylist() == sorted(table["name"].to_pylist())
    with lake.writer() as writer:
        assert compact(writer, FIRST_DAY + 9 * DAY).units == 0


def test_a_day_that_goes_on_waits_for_more_files(lake: Lake, event: Event) -> None:
    store(lake, event(1))
    store(lake, event(2))
    with lake.writer() as writer:
        assert compact(writer, FIRST_DAY).units == 0
        assert compact(writer, FIRST_DAY + DAY).units == 1


@settings(max_examples=25, deadline=None)
@given(
    units=st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=6), max_size=8),
    rows_max=st.integers(1, 20),
    when=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_compaction_at_any_time_changes_no_event(
    tmp_path_factory: pytest.TempPathFactory,
    event: Event,
    rows: Rows,
    units: list[list[tuple[str, int]]],
    rows_max: int,
    when: list[bool],
) -> None:
    lake = Lake.create(tmp_path_factory.mktemp("lake"))
    expected = {(cluster, f"id-{number * 7000}") for unit in units for cluster, number in unit}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintain, "UNIT_ROWS_MAX", rows_max)
        for unit, now in zip(units, when, strict=False):
            for cluster in "ab":
                store(lake, *(event(number * 7000) for name, number in unit if name == cluster), cluster=cluster)
            if now:
                with lake.writer() as writer:
                    compact(writer, FIRST_DAY + 99 * DAY)
                    remove_retired(writer, FIRST_DAY + 999 * DAY)
    found = [(row["cluster"], row["audit_id"]) for row in rows(lake)]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert verify(lake) == []
    lake.close()


def test_replaced_files_stay_for_readers_that_have_listed_them(lake: Lake, event: Event) -> None:
    store(lake, event(1))
    store(lake, event(2))
    old = lake.files()
    now = FIRST_DAY + DAY
    with lake.writer() as writer:
        compact(writer, now)
        assert remove_retired(writer, now + 60) == 0
    with lake.writer() as writer:  # the sweep of a new writer leaves them, too
        assert all(path.exists() for path in old)
        assert remove_retired(writer, now + maintain.GRACE_SECONDS + 1) == 2
    assert not any(path.exists() for path in old)


def test_compaction_gives_way_after_a_unit_and_goes_on_later(lake: Lake, event: Event, rows: Rows) -> None:
    for number in range(9):
        store(lake, event(number), event(number + DAY))
    before = rows(lake)
    with lake.writer() as writer:
        first = compact(writer, FIRST_DAY, stopped=lambda: True)
        second = compact(writer, FIRST_DAY)
    assert (first.units, first.is_whole) == (1, False)
    assert (second.units, second.is_whole) == (1, True)
    assert rows(lake) == before


def test_compaction_drops_what_was_stored_twice(lake: Lake, event: Event, rows: Rows) -> None:
    store(lake, event(1), event(2))
    table = pq.read_table(lake.files()[0], partitioning=None)
    with lake.writer() as writer:
        writer.commit(writer.write("events", "c", table))
        assert compact(writer, FIRST_DAY + DAY).duplicate == 2
    assert [row["audit_id"] for row in rows(lake)] == ["id-1", "id-2"]


def test_retention_drops_whole_days(lake: Lake, event: Event, rows: Rows) -> None:
    store(lake, event(1), event(DAY), event(2 * DAY))
    folder = lake.files()[0].parent
    with lake.writer() as writer:
        expired = expire(writer, date(2026, 11, 2), FIRST_DAY)
        assert expired == Expired(files=1, rows=1, bytes=expired.bytes)
        assert [row["audit_id"] for row in rows(lake)] == ["id-172800", "id-86400"]
        assert remove_retired(writer, FIRST_DAY + 9999) == 1
    assert not folder.exists()


def test_verify_names_every_damaged_file(lake: Lake, event: Event) -> None:
    for number in range(4):
        store(lake, event(number * DAY))
    good, cut, flipped, gone = lake.files()
    cut.write_bytes(cut.read_bytes()[:-1])
    data = bytearray(flipped.read_bytes())
    data[100] ^= 1
    flipped.write_bytes(data)
    gone.unlink()
    size = cut.stat().st_size
    assert verify(lake) == [
        Fault(str(cut.relative_to(lake.path)), f"has {size:,} bytes, the manifest says {size + 1:,}"),
        Fault(str(flipped.relative_to(lake.path)), "its content was altered: the checksum differs"),
        Fault(str(gone.relative_to(lake.path)), "is missing"),
    ]
    assert good.exists()


@pytest.mark.parametrize("kept_bytes", [0, 1000, -1])
def test_a_damaged_file_holds_up_its_own_day_only(lake: Lake, event: Event, kept_bytes: int) -> None:
    for number in range(9):
        store(lake, event(number), event(number + DAY))
    damaged = lake.files()[0]
    damaged.write_bytes(damaged.read_bytes()[:kept_bytes])
    with lake.writer() as writer, pytest.raises(DamagedFileError, match=damaged.name):
        compact(writer, FIRST_DAY)
    assert [path.parent.name for path in lake.files()].count("dt=2026-11-02") == 1
    assert damaged in lake.files()


def test_a_damaged_file_is_not_rewritten(lake: Lake, event: Event) -> None:
    store(lake, event(1))
    store(lake, event(2))
    path = lake.files()[1]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with lake.writer() as writer, pytest.raises(LakeError, match="the checksum differs; restore it from a backup"):
        compact(writer, FIRST_DAY + DAY)
    assert path in lake.files()
    assert path.exists()


def test_what_came_again_is_merged_and_expires_with_its_events(lake: Lake, event: Event) -> None:
    for source in ("webhook", "file:audit.log", "file:audit-2.log"):
        with lake.writer() as writer:
            EventStore(writer).store([Lines("c", source, 0.0, [event(1), event(DAY)])], {}, "q")
    assert len(lake.manifest.files("repeats")) == 4
    with lake.writer() as writer:
        compact(writer, FIRST_DAY + 9 * DAY)
        assert [file.rows for file in lake.manifest.files("repeats")] == [2, 2]
        assert verify(lake) == []
        expire(writer, date(2026, 11, 2), FIRST_DAY)
    assert [file.dt for file in lake.manifest.files("repeats")] == ["2026-11-02"]


def test_bodies_expire_before_their_events(lake: Lake, event: Event, rows: Rows) -> None:
    bare = event(2, requestObject=None, level="Metadata")
    store(lake, event(1), bare, event(DAY))
    with lake.writer() as writer:
        done = expire_objects(writer, date(2026, 11, 2), FIRST_DAY)
        assert (done.files, done.rows) == (1, 2)
        assert bodies_before(lake, date(2026, 11, 2)) == []
        assert expire_objects(writer, date(2026, 11, 2), FIRST_DAY) == Expired(0, 0, 0)
    found = {row["audit_id"]: (row["request_object"], row["flags"]) for row in rows(lake)}
    # Who had no body before is not told to have lost one.
    assert found == {
        "id-1": (None, [OBJECTS_EXPIRED]),
        "id-2": (None, []),
        f"id-{DAY}": (f'{{"number":{DAY}}}', []),
    }
    assert verify(lake) == []


def test_old_quarantine_files_go_with_their_days(lake: Lake) -> None:
    folder = lake.path / "quarantine"
    for name, day in (("old", 1), ("new", 3)):
        path = folder / f"{name}.jsonl.zst"
        path.write_bytes(b"")
        moment = datetime(2026, 11, day, 12, tzinfo=UTC).timestamp()
        os.utime(path, (moment, moment))
    with lake.writer() as writer:
        assert expire_quarantine(writer, date(2026, 11, 2)) == 1
    assert [path.name for path in folder.iterdir()] == ["new.jsonl.zst"]
