"""A lake with a damaged file: every command says which one, and what to do, in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
import structlog

from api.cli import run
from api.damage import explained
from api.settings import Settings
from api.sink import drainer
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.spooling.spool import Spool, sealed_segments

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "cases" / "ingest" / "exports" / "recorded.jsonl"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = Lake.create(tmp_path / "lake")
    ingest_files(lake, [RECORDED], "lab", 0.0)
    lake.close()
    return lake.path


def events_of(lake: Path) -> Path:
    (file,) = (lake / "events").glob("dt=*/*.parquet")
    return file


def flip(file: Path, start: int, end: int) -> None:
    data = bytearray(file.read_bytes())
    for index in range(start, len(data) + end if end < 0 else end):
        data[index] ^= 0x5A
    file.write_bytes(data)


def pages(lake: Path) -> Path:
    """The content only: the footer is readable, so that a command finds out while it reads."""
    file = events_of(lake)
    footer = int.from_bytes(file.read_bytes()[-8:-4], "little") + 8
    flip(file, 4, -footer)
    return file


def footer(lake: Path) -> Path:
    flip(events_of(lake), events_of(lake).stat().st_size - 600, -8)
    return events_of(lake)


def cut(lake: Path) -> Path:
    file = events_of(lake)
    file.write_bytes(file.read_bytes()[:1000])
    return file


def empty(lake: Path) -> Path:
    events_of(lake).write_bytes(b"")
    return events_of(lake)


def gone(lake: Path) -> Path:
    file = events_of(lake)
    file.unlink()
    return file


def manifest(lake: Path) -> Path:
    for file in lake.glob("manifest.sqlite-*"):
        file.unlink()
    (lake / "manifest.sqlite").write_bytes(b"x" * 9000)
    return lake / "manifest.sqlite"


def table(lake: Path) -> Path:
    connection = sqlite3.connect(lake / "manifest.sqlite")
    connection.execute("DROP TABLE files")
    connection.commit()
    connection.close()
    return lake / "manifest.sqlite"


@pytest.mark.parametrize("damage", [pages, footer, cut, empty, gone, manifest, table])
@pytest.mark.parametrize("command", ["violations --by workload", "init --check", "replay --from-log 2026-11-22T00:00:00Z"])
def test_the_damaged_file_is_named(
    lake: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], Path], command: str
) -> None:
    file = damage(lake)
    assert run(["-q", "--lake", str(lake), *command.split()]) == 2
    error = capsys.readouterr().err
    assert str(file) in error
    assert "Traceback" not in error
    assert error.startswith("hindcast: ")
    if file.suffix == ".parquet":
        assert "`hindcast doctor --verify`" in error
        assert run(["-q", "--lake", str(lake), "doctor", "--verify"]) == 1
        assert file.name in capsys.readouterr().out


@pytest.mark.parametrize("damage", [pages, footer, cut, empty, gone, manifest, table])
def test_the_drain_names_the_damaged_file_and_keeps_what_waits(
    lake: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], Path]
) -> None:
    settings = Settings(lake=lake)
    again = RECORDED.read_bytes().splitlines()
    opened = Lake.open(lake)
    with Spool(settings.spool) as spool:
        spool.append("lab", "digest", 1.0, [line.replace(b'"auditID":"', b'"auditID":"0') for line in again])
    file = damage(lake)
    assert drainer.drain_once(opened, settings, lambda: False) > 1.0
    with structlog.testing.capture_logs() as logs:
        drainer.drain_once(opened, settings, lambda: False)
        drainer.maintain_once(opened, settings, lambda: False)
    assert [entry["event"] for entry in logs if str(file) in entry.get("error", "")][:1] == ["drain_failed"]
    assert len(sealed_segments(settings.spool)) == 1


def test_our_own_mistakes_are_no_damage(lake: Path) -> None:
    with pytest.raises(duckdb.BinderException) as caught:
        duckdb.sql("SELECT missing FROM (SELECT 1 AS a)")
    assert explained(caught.value, lake) is None
    assert isinstance(explained(OSError(28, "No space left on device"), lake), LakeError)
    assert "larger than this process may write" in str(explained(OSError(27, "File too large"), lake))
    assert "not enough memory" in str(explained(MemoryError(), lake))
    assert "not enough memory" in str(explained(duckdb.Error("Out of Memory Error: ArrowBuffer: failed to allocate 9 bytes"), lake))
    assert "not enough memory" in str(explained(duckdb.OutOfMemoryException("too much"), lake))


def test_damaged_verdicts_of_a_run_are_named(lake: Path) -> None:
    run_folder = lake / "runs" / "0123456789abcdef"
    run_folder.mkdir(parents=True)
    (run_folder / "plan.json").write_text("{}")
    (run_folder / "verdicts.parquet").write_bytes(b"PAR1")
    found = str(explained(duckdb.IOException("No magic bytes found at end of file"), lake))
    assert str(run_folder / "verdicts.parquet") in found
    assert "the replay makes the same run again" in found


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "[" * 3000])
def test_what_is_nested_without_end_is_refused(lake: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = lake.parent / "deep.yaml"
    file.write_text(text)
    for command in (["init", "--check", "--audit-policy", str(file)], ["replay", "--plan", "-f", str(file)]):
        assert run(["-q", "--lake", str(lake), *command]) == 2
        assert capsys.readouterr().err.startswith("hindcast: ")


@pytest.mark.parametrize("name", ["plan.json", "summary.json", "report.json"])
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"run_id": 1, "bindings": [1], "window": [], "requests": "x"}', '{"a":' * 5_000]
)
def test_a_damaged_file_of_a_run_hides_no_other_run(name: str, text: str, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ROOT / "tests" / "cases" / "hostile" / "manifests" / "policies.yaml"
    ask = ["--quiet", "--lake", str(lake), "readiness", "-f", str(policies), "-o", "json"]
    assert run(ask) in (0, 1, 3)
    first = capsys.readouterr().out
    folder = next((lake / "runs").glob("*/report.json")).parent
    (folder / name).write_text(text)
    assert run(["--quiet", "--lake", str(lake), "runs"]) == 0
    assert folder.name in capsys.readouterr().out
    run(["--quiet", "--lake", str(lake), "runs", "show", folder.name])
    assert "Traceback" not in capsys.readouterr().err
    assert run(ask) in (0, 1, 3)
    assert capsys.readouterr().out == first
    (folder / name).write_text(text)
    assert run(["--quiet", "--lake", str(lake), "runs", "rm", folder.name]) == 0
    assert not folder.exists()
