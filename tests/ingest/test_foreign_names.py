"""A lake that somebody hands over: no name and no link in it makes a command read, write or delete anything outside of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from api.errors import classify
from api.published import local_lake
from ingest.errors import LakeError
from ingest.inside import ForeignNameError, inside, inside_location
from ingest.lake import Lake
from ingest.published.catalogs import open_tables, static_table
from ingest.published.publish import publish
from ingest.published.target import Target
from ingest.spooling.segment import repair_segment
from ingest.store import EventStore, Lines
from pipeline.runs import RunStore
from queries import open_lake

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "ingest" / "foreign_names.yaml").read_text())
COMMANDS = {
    "compact": ["compact", "--no-prepare"],
    "expire": ["expire", "--before", "2000-01-01"],
    "violations": ["violations"],
    "doctor": ["doctor"],
    "runs": ["runs", "--remove", "0123456789abcdef"],
}
_NOW_TS = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
_WORDS = ("a second name elsewhere", "is not", "leads out of", "no lake has", "other columns")
# A command that waits for a pipe or never ends is killed, and the test fails.
_PROGRAM = "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (60, 60)); from api.cli import main; main()"


@pytest.fixture
def handed(tmp_path: Path, event: Callable[..., bytes]) -> Path:
    """A lake with an event, and `victim` next to it."""
    lake = Lake.create(tmp_path / "lake")
    with lake.writer() as writer, closing(EventStore(writer)) as store:
        store.store([Lines("c", "file:x", 1.0, [event(1)])], {}, "x")
    lake.close()
    victim = tmp_path / "victim"
    (victim / "dt=2026-11-21").mkdir(parents=True)
    (victim / "victim.txt").write_text("mine")
    (victim / "old.jsonl.zst").write_bytes(b"mine")
    os.utime(victim / "old.jsonl.zst", (0, 0))
    shutil.copy(next((tmp_path / "lake" / "events").glob("dt=*/*")), victim / "dt=2026-11-21" / "other.parquet")
    os.mkfifo(victim / "pipe")
    return tmp_path / "lake"


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def refused(lake: Path, names: Any) -> None:
    """Every command ends with one line, with exit code 2, and VICTIM stays as it is."""
    victim = lake.parent / "victim"
    before = content(victim)
    for name in names or ("compact", "expire", "violations", "doctor"):
        command = [sys.executable, "-c", _PROGRAM, "--quiet", "--lake", str(lake), *COMMANDS[name]]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), f"{name}: {ended.stderr}"
        assert any(words in ended.stderr for words in _WORDS), ended.stderr
        assert content(victim) == before, name


@pytest.mark.parametrize("case", CASES["statements"], ids=lambda case: case["what"])
def test_a_manifest_names_files_of_its_lake_alone(case: dict[str, Any], handed: Path) -> None:
    with closing(sqlite3.connect(handed / "manifest.sqlite")) as connection:
        connection.executescript(case["sql"].replace("VICTIM", str(handed.parent / "victim")))
    refused(handed, case.get("commands", ["compact", "violations"]))


@pytest.mark.parametrize("case", CASES["links"], ids=lambda case: case["what"])
def test_a_link_that_leads_out_of_a_lake_is_refused(case: dict[str, Any], handed: Path) -> None:
    listed = next((handed / "events").glob("dt=*/*.parquet"))
    link = listed if case["at"] == "LISTED" else handed / case["at"]
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(handed.parent / "victim" / case["to"])
    refused(handed, ["compact", "violations"])
    with pytest.raises(ForeignNameError):
        RunStore(handed)


def test_a_pipe_in_the_place_of_a_file_is_refused(handed: Path) -> None:
    listed = next((handed / "events").glob("dt=*/*.parquet"))
    listed.unlink()
    os.mkfifo(listed)
    refused(handed, ["violations", "doctor"])


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_journal_that_names_another_file_is_refused(handed: Path, mode: str) -> None:
    """SQLite removes the super-journal that a hot journal names (sqlite.org/fileformat.html#the_rollback_journal, pager.c)."""
    manifest = handed / "manifest.sqlite"
    with closing(sqlite3.connect(manifest)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        (page,), (pages,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "page_count"))
    name, mark = str(handed.parent / "victim" / "victim.txt").encode(), bytes.fromhex("d9d505f920a163d7")
    head = mark + struct.pack(">IIIII", 0, 7, pages, 512, page)
    named = struct.pack(">I", 0x40000000 // page + 1) + name + struct.pack(">II", len(name), sum(name)) + mark
    manifest.with_name("manifest.sqlite-journal").write_bytes(head.ljust(512, b"\0") + named)
    refused(handed, ["violations", "compact", "doctor"])


def test_a_second_name_of_a_file_elsewhere_does_not_let_it_be_changed(handed: Path) -> None:
    """A hard link, where Hindcast makes its locks and where it mends segments."""
    victim = handed.parent / "victim"
    run = RunStore(handed).run("0123456789abcdef")
    (handed / "runs").mkdir(exist_ok=True)
    segment = handed / "segment"
    before = content(victim)
    for name in (handed / "runs" / ".0123456789abcdef.lock", segment):
        name.hardlink_to(victim / "victim.txt")
    with run.owned():
        assert content(victim) == before
    assert repair_segment(segment) == (0, 4)
    assert (segment.read_bytes(), content(victim)) == (b"", before)


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_second_name_of_what_the_database_writes_is_refused(handed: Path, ending: str) -> None:
    handed.joinpath(f"manifest.sqlite{ending}").unlink(missing_ok=True)
    handed.joinpath(f"manifest.sqlite{ending}").hardlink_to(handed.parent / "victim" / "victim.txt")
    refused(handed, ["compact"])


def test_links_within_a_lake_and_to_a_lake_are_followed(handed: Path) -> None:
    day = next((handed / "events").glob("dt=*"))
    day.rename(handed / "events" / "moved")
    day.symlink_to(handed / "events" / "moved")
    (handed.parent / "linked").symlink_to(handed)
    with closing(open_lake(handed.parent / "linked")) as reader:
        assert reader.connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a//b", "a/../b", "./a", "a\0b", "a/*.parquet", "s3://b/c", "a b", None, 1, b"a"]
)
def test_a_name_is_plain(name: object) -> None:
    with pytest.raises(ForeignNameError) as caught:
        inside(name, "lake")
    assert classify(caught.value) == ("lake_refused", 409)
    assert inside("events/dt=2026-11-21/0123.parquet", "lake") == "events/dt=2026-11-21/0123.parquet"


URLS = [
    "s3://other/lake/events/data/x.parquet",
    "s3://bucket/lake/events/../../private/x.parquet",
    "s3://bucket/lake/eventsx/x.parquet",
    "file:///etc/passwd",
    "/etc/passwd",
    "s3://bucket/lake/events/",
]


@pytest.mark.parametrize("url", URLS)
def test_a_published_table_names_objects_below_its_location_alone(url: str) -> None:
    with pytest.raises(ForeignNameError):
        inside_location(url, "s3://bucket/lake/events")
    assert inside_location("s3://bucket/lake/events/data/x.parquet", "s3://bucket/lake/events")


def test_a_published_folder_of_a_stranger_is_refused(handed: Path, tmp_path: Path) -> None:
    """Another file is added to the table, as any program can that knows Iceberg."""
    target = Target.parse(f"file://{tmp_path}/shown")
    with closing(Lake.open(handed)) as lake:
        publish(lake, target, _NOW_TS, _NOW_TS)
    url = Path(f"file:/{tmp_path}/shown")
    with closing(open_lake(local_lake(url))) as reader:
        assert reader.connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
    table = static_table(target, "events")
    assert table is not None
    private = tmp_path / "private" / "dt=2026-11-21" / f"x-{'0' * 32}.parquet"
    private.parent.mkdir(parents=True)
    pq.write_table(pq.read_table(next((tmp_path / "shown" / "events").glob("data/*/*.parquet")), partitioning=None), private)
    _add(tmp_path, f"file://{private}")
    with pytest.raises(ForeignNameError, match="which is not in it"):
        local_lake(url)


def _add(tmp_path: Path, url: str) -> None:
    with closing(open_tables(Target.parse(f"file://{tmp_path}/shown"), tmp_path / "lake")) as tables:
        table = tables.find("events")
        assert table is not None
        table.add_files([url])
        tables.show("events")


def test_a_hint_does_not_lead_to_other_metadata(handed: Path, tmp_path: Path) -> None:
    target = Target.parse(f"file://{tmp_path}/shown")
    hint = tmp_path / "shown" / "events" / "metadata" / "version-hint.text"
    hint.parent.mkdir(parents=True)
    hint.write_text("../../../victim/victim")
    with pytest.raises(LakeError, match="is not the name of a file"):
        static_table(target, "events")
