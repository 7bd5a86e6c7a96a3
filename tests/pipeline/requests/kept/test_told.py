"""What is kept of the bodies of events is what the bodies tell now, whatever is kept, damaged or missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.derived import derived_folder, forget_derived
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.requests.kept.sql import statement
from pipeline.requests.kept.told import keep_told, show_told
from queries import LakeReader, open_lake
from tests.verdict_tables import SOURCES

_BY = "cluster, audit_id, ts"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of the bundled log in two files."""
    lines = zstandard.ZstdDecompressor().stream_reader(SOURCES["bundled"].log.read_bytes()).readall().splitlines(keepends=True)
    with closing(Lake.create(tmp_path / "lake")) as made:
        for number in range(2):
            log = tmp_path / f"{number}.jsonl"
            log.write_bytes(b"".join(islice(lines, number, None, 2)))
            ingest_files(made, [log], "demo", 0.0)
    return tmp_path / "lake"


def _kept(lake: Path) -> list[Path]:
    return sorted((derived_folder(lake) / "told").glob("*/*.parquet"))


def _told(reader: LakeReader) -> list[tuple[Any, ...]]:
    """What the bodies of the requests in `asked` show."""
    show_told(reader, "asked", _BY)
    return reader.connection.execute(f"FROM told SEMI JOIN asked USING ({_BY}) ORDER BY ALL").fetchall()


def _now(reader: LakeReader) -> list[tuple[Any, ...]]:
    """The same, read from the bodies of all events."""
    reader.connection.execute("CREATE OR REPLACE TEMP VIEW asked_events AS FROM events")
    return reader.connection.execute(f"FROM ({statement('told')}) SEMI JOIN asked USING ({_BY}) ORDER BY ALL").fetchall()


@pytest.fixture(params=["", "WHERE resource = 'pods'", "WHERE resource = 'leases'", "WHERE subresource = 'status'", "WHERE false"])
def reader(lake: Path, request: pytest.FixtureRequest) -> Iterator[LakeReader]:
    with closing(open_lake(lake)) as opened:
        opened.connection.execute(f"CREATE TEMP TABLE asked AS SELECT DISTINCT {_BY} FROM events {request.param}")
        yield opened


def _lose_one(files: list[Path]) -> None:
    files[0].unlink()


def _damage_one(files: list[Path]) -> None:
    files[0].write_bytes(files[0].read_bytes()[:-9])


def _mix_up(files: list[Path]) -> None:
    files[0].rename(files[1].with_name(files[1].name.rpartition("-")[0] + "-" + files[0].name.rpartition("-")[2]))


@pytest.mark.parametrize("change", [lambda files: None, _lose_one, _damage_one, _mix_up])
def test_what_is_kept_is_what_the_bodies_tell(lake: Path, reader: LakeReader, change: Callable[[list[Path]], None]) -> None:
    wanted = _now(reader)
    assert _told(reader) == wanted
    assert not _kept(lake)  # a question keeps nothing
    assert keep_told(reader)
    files = _kept(lake)
    assert len(files) == 2
    assert _told(reader) == wanted
    change(files)
    assert _told(reader) == wanted


def test_what_is_kept_needs_no_body(lake: Path) -> None:
    with closing(open_lake(lake)) as reader:
        reader.connection.execute(
            f"CREATE TEMP TABLE asked AS SELECT DISTINCT {_BY} FROM events WHERE resource = 'pods' AND subresource IS NULL"
        )
        keep_told(reader)
        assert _told(reader)
        assert reader.connection.execute("SELECT count(*) FROM told_now").fetchall() == [(0,)]


def test_what_is_kept_goes_with_its_file(lake: Path) -> None:
    with closing(open_lake(lake)) as reader:
        assert keep_told(reader, stopped=iter([False, True]).__next__) is False
        assert len(_kept(lake)) == 1
        assert keep_told(reader)
    first, second = _kept(lake)
    state = first.stat().st_mtime_ns
    with closing(open_lake(lake)) as reader:
        assert keep_told(reader)
    assert first.stat().st_mtime_ns == state
    other = first.parent.with_name("other-code")
    other.mkdir()
    stray = second.with_name("00000000-1.parquet")
    stray.write_bytes(second.read_bytes())
    with closing(open_lake(lake)) as reader:
        assert keep_told(reader)
    assert not other.exists()
    assert _kept(lake) == [first, second]
    forget_derived(lake)
    assert not _kept(lake)
