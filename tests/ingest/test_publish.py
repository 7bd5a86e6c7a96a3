"""A published lake is an Iceberg table whose every snapshot shows each event once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, LakeError
from ingest.lake import Lake
from ingest.maintain import DamagedFileError, compact, remove_retired
from ingest.published.catalogs import open_tables, static_table, tables_to_read
from ingest.published.publish import Published, publish
from ingest.published.tables import KINDS
from ingest.published.target import Target, filesystem_of, path_of
from ingest.retention import expire
from ingest.store import EventStore, Lines
from tests.storage import Storage

Event = Callable[..., bytes]
DAY = 86_400
LATER = datetime(2027, 1, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def on_s3(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in storage.environment().items():
        monkeypatch.setenv(name, value)
    return storage


@pytest.fixture
def on_rest(on_s3: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in on_s3.rest_environment().items():
        monkeypatch.setenv(name, value)
    return on_s3


@pytest.fixture
def folder(tmp_path: Path) -> Target:
    return Target.parse(f"file://{tmp_path}/published")


def store(lake: Lake, *lines: bytes, cluster: str = "c") -> None:
    with lake.writer() as writer:
        EventStore(writer).store([Lines(cluster, "test", 0.0, lines)], {}, "q")


def merge(lake: Lake) -> None:
    with lake.writer() as writer:
        compact(writer, LATER)


def forget_retired(lake: Lake) -> None:
    with lake.writer() as writer:
        remove_retired(writer, LATER + DAY)


def put(lake: Lake, target: Target, keep_seconds: float = DAY) -> dict[str, Published]:
    now = time.time()
    return {result.kind: result for result in publish(lake, target, now, now - keep_seconds)}


def ids_in_lake(lake: Lake) -> list[str]:
    return sorted(value for path in lake.files() for value in pq.read_table(path, partitioning=None)["audit_id"].to_pylist())


def ids(target: Target, lake: Lake | None = None, snapshot: int | None = None) -> list[str]:
    """The audit IDs of the published events, as polars reads them: by the hint, or by the catalog of the lake."""
    if lake is None:
        table = static_table(target, "events")
    else:
        tables = open_tables(target, lake.path)
        table = tables.find("events")
        tables.close()
    assert table is not None
    found = polars.scan_iceberg(table, snapshot_id=snapshot).select("audit_id").collect()
    return sorted(found["audit_id"].to_list())


def snapshots(target: Target) -> list[int]:
    table = static_table(target, "events")
    assert table is not None
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def objects(target: Target) -> set[str]:
    """The paths of all data files below a target."""
    from pyarrow import fs

    found = filesystem_of(target.url).get_file_info(fs.FileSelector(path_of(target.url), recursive=True))
    return {info.path for info in found if info.path.endswith(".parquet")}


def test_another_engine_reads_what_was_published(demo_lake: Path, on_s3: Storage) -> None:
    lake, target = Lake.open(demo_lake), Target.parse("s3://lakes/read-back")
    done = put(lake, target)
    events = sum(file.rows for file in lake.manifest.files("events"))
    assert (done["events"].rows, done["events"].removed) == (events, 0)
    table = static_table(target, "events")
    assert table is not None
    by_verb = ["verb", "resource"]
    wanted = polars.read_parquet([str(path) for path in lake.files()], hive_partitioning=False).group_by(by_verb).len()
    found = polars.scan_iceberg(table).group_by(by_verb).len().collect()
    assert found.sort(*by_verb).equals(wanted.sort(*by_verb))
    assert int(found["len"].sum()) == events
    assert table.spec().fields[0].name == "cluster"
    assert static_table(target, "objects") is not None
    again = put(lake, target)
    assert [(result.added, result.removed, result.uploaded_bytes, result.snapshot) for result in again.values()] == [
        (0, 0, 0, None)
    ] * len(KINDS)
    lake.close()


def test_a_rest_catalog_holds_the_tables_where_one_is_configured(lake: Lake, event: Event, on_rest: Storage) -> None:
    target = Target.parse("s3://tables/rested")
    for number in range(3):
        store(lake, event(number))
    put(lake, target)
    assert ids(target, lake) == ids_in_lake(lake)
    assert not (lake.path / "published").exists(), "the catalog is the server's, not the lake's"
    store(lake, event(5), event(DAY))
    merge(lake)
    forget_retired(lake)
    done = put(lake, target, keep_seconds=0)["events"]
    assert (done.added, done.removed) == (2, 3)
    assert len([path for path in objects(target) if "/events/" in path]) == 2
    assert ids(target, lake) == ids_in_lake(lake)


def test_merged_and_expired_files_leave_in_the_snapshot_that_replaces_them(lake: Lake, event: Event, folder: Target) -> None:
    for number in range(4):
        store(lake, event(number), event(number + DAY))
    put(lake, folder)
    states = [ids_in_lake(lake)]
    merge(lake)
    done = put(lake, folder)["events"]
    assert (done.files, done.added, done.removed) == (2, 2, 8)
    states.append(ids_in_lake(lake))
    with lake.writer() as writer:
        expire(writer, datetime(2026, 11, 2, tzinfo=UTC).date(), LATER)
    assert put(lake, folder)["events"].removed == 1
    states.append(ids_in_lake(lake))
    assert [ids(folder, snapshot=number) for number in snapshots(folder)] == states
    assert len(objects(folder)) == 10, "readers of earlier snapshots still have their files"
    put(lake, folder, keep_seconds=0)
    assert len(objects(folder)) == 10, "another publisher may be about to list files that the lake has just replaced"
    forget_retired(lake)
    put(lake, folder, keep_seconds=0)
    assert (len(snapshots(folder)), len(objects(folder))) == (1, 1)
    assert ids(folder) == states[-1]


@settings(max_examples=8)
@given(steps=st.lists(st.sampled_from(["store", "store", "merge", "expire", "publish"]), min_size=3, max_size=12))
def test_every_snapshot_shows_a_state_that_the_lake_had(
    tmp_path_factory: pytest.TempPathFactory, event: Event, steps: list[str]
) -> None:
    base = tmp_path_factory.mktemp("states")
    lake, target = Lake.create(base / "lake"), Target.parse(f"file://{base}/published")
    states: list[list[str]] = []
    for number, step in enumerate([*steps, "publish"]):
        if step == "store":
            store(lake, event(number), event(number + (number % 3) * DAY))
        elif step == "merge":
            merge(lake)
        elif step == "expire":
            with lake.writer() as writer:
                expire(writer, (datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number % 3)).date(), LATER)
        else:
            put(lake, target)
            states.append(ids_in_lake(lake))
            assert ids(target) == states[-1]
    assert all(ids(target, snapshot=number) in states for number in snapshots(target))
    lake.close()


@pytest.mark.parametrize("place", ["s3://lakes/raced", "s3://tables/raced", "file"])
def test_of_two_publishers_one_begins_again(
    lake: Lake, event: Event, folder: Target, place: str, request: pytest.FixtureRequest
) -> None:
    if place != "file":
        request.getfixturevalue("on_rest" if "tables" in place else "on_s3")
    target = folder if place == "file" else Target.parse(place)
    store(lake, event(1))
    put(lake, target)
    store(lake, event(2))
    other = Lake.open(lake.path)
    raced: list[Published] = []

    def overtake(done: int, total: int) -> None:
        """While the first publisher uploads, the lake changes, and a second one publishes all of it."""
        if not raced:
            raced.append(Published("events"))
            store(other, event(3))
            merge(other)
            raced.append(put(other, target)["events"])

    now = time.time()
    first = {result.kind: result for result in publish(lake, target, now, now - DAY, overtake)}["events"]
    assert (raced[1].attempts, first.attempts, first.added) == (1, 2, 0)
    assert ids(target, lake) == ids_in_lake(lake) == ["id-1", "id-2", "id-3"]
    other.close()


def test_a_lost_catalog_is_found_again_by_the_hint(lake: Lake, event: Event, folder: Target) -> None:
    store(lake, event(1))
    put(lake, folder)
    for path in (lake.path / "published").iterdir():
        path.unlink()
    store(lake, event(2))
    done = put(lake, folder)["events"]
    assert (done.added, ids(folder)) == (1, ["id-1", "id-2"])


def test_a_place_of_another_lake_is_refused(lake: Lake, event: Event, folder: Target, tmp_path: Path) -> None:
    store(lake, event(1))
    put(lake, folder)
    other = Lake.create(tmp_path / "other")
    with pytest.raises(LakeError, match="another lake is published here"):
        put(other, folder)
    assert ids(folder) == ["id-1"]
    other.close()


def test_a_database_that_holds_no_catalog_is_named_and_closed(lake: Lake, folder: Target) -> None:
    with closing(open_tables(folder, lake.path)) as tables:
        database = Path(tables.words)
    database.write_text("no database")
    with pytest.raises(LakeError, match=f"the catalog {database} cannot be used"):
        open_tables(folder, lake.path)


def test_a_configured_database_is_asked_by_readers_and_closed(
    lake: Lake, event: Event, folder: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__HINDCAST__URI", f"sqlite:///{tmp_path}/catalog.sqlite")
    store(lake, event(1))
    put(lake, folder)
    found = tables_to_read(folder, KINDS)
    assert polars.scan_iceberg(found["events"]).select("audit_id").collect()["audit_id"].to_list() == ["id-1"]
    (tmp_path / "catalog.sqlite").write_text("no database")
    with pytest.raises(LakeError, match=r"catalog\.sqlite cannot be used"):
        tables_to_read(folder, KINDS)


def test_a_newer_format_is_refused(lake: Lake, event: Event, folder: Target) -> None:
    put(lake, folder)
    tables = open_tables(folder, lake.path)
    table = tables.find("objects")
    assert table is not None
    with table.transaction() as transaction:
        transaction.set_properties({"hindcast.format": "9"})
    tables.close()
    with pytest.raises(LakeError, match="the published lake has format 9, this program knows 1"):
        put(lake, folder)


def test_a_damaged_file_is_not_published(lake: Lake, event: Event, folder: Target) -> None:
    put(lake, folder)
    store(lake, event(1))
    content = bytearray(lake.files()[0].read_bytes())
    content[100] ^= 1
    lake.files()[0].write_bytes(content)
    with pytest.raises(DamagedFileError, match="the checksum differs"):
        put(lake, folder)
    assert ids(folder) == []


def test_an_object_that_was_cut_short_is_uploaded_again(lake: Lake, event: Event, folder: Target) -> None:
    put(lake, folder)
    store(lake, event(1))
    file = lake.manifest.files("events")[0]
    path = Path(f"{path_of(folder.url)}/events/data/dt={file.dt}/{Path(file.path).stem}-{file.digest}.parquet")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1")
    assert put(lake, folder)["events"].uploaded_bytes == file.bytes
    assert ids(folder) == ["id-1"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lakes/demo", "does not name a published lake"),
        ("s3://lakes", "names a bucket and no lake"),
        ("s3://lakes/a//b", "an empty part"),
        ("s3://lakes/../b", "a dot part"),
        ("file://published", "not an absolute path"),
    ],
)
def test_a_target_that_names_no_place(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Target.parse(text)
