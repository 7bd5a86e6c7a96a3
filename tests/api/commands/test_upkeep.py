"""`hindcast compact` and `hindcast expire`, as an operator calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.sink.preparer import Preparer
from ingest.lake import Lake
from ingest.maintain import Compacted
from ingest.store import EventStore, Lines


def event(day: int, number: int) -> bytes:
    return (
        b'{"auditID":"%d-%d","stage":"ResponseComplete","level":"Request","stageTimestamp":"2026-11-%02dT00:00:00Z",'
        b'"requestObject":{"n":%d}}' % (day, number, day, number)
    )


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = Lake.create(tmp_path / "lake")
    with lake.writer() as writer:
        store = EventStore(writer)
        for number in range(3):
            store.store([Lines("c", "test", 0.0, [event(day, number) for day in (1, 2, 3)])], {}, "q")
        store.close()
    lake.close()
    return tmp_path / "lake"


def answer(capsys: pytest.CaptureFixture[str], lake: Path, *words: str) -> Any:
    assert run(["--lake", str(lake), *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_small_files_are_merged(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (done,) = answer(capsys, lake, "compact")["compacted"]
    assert (done["units"], done["files_before"], done["files_after"], done["rows"]) == (3, 9, 3, 9)
    (again,) = answer(capsys, lake, "compact")["compacted"]
    assert (again["units"], again["files_deleted"]) == (0, 0)


def test_replays_are_prepared_unless_that_is_not_wanted(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, lake, "compact", "--no-prepare")
    assert not (lake / "derived").exists()
    answer(capsys, lake, "compact")
    assert (lake / "derived" / "facts").exists()


def test_the_drain_prepares_replays_after_the_last_merge(lake: Path) -> None:
    preparer = Preparer(lake)
    preparer.after(Compacted())
    preparer.after(Compacted(files_before=3, files_after=1, is_whole=False))
    assert preparer.process is None
    preparer.after(Compacted())
    assert preparer.process is not None
    assert preparer.process.wait(300) == 0
    assert list((lake / "derived" / "facts").iterdir())
    preparer.stop()
    assert preparer.process is None


def test_a_preparation_may_be_ended_at_any_moment(lake: Path) -> None:
    preparer = Preparer(lake)
    preparer.after(Compacted(files_before=3, files_after=1))
    preparer.stop()
    assert preparer.process is None


def test_what_expires_is_counted_first(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("expire", "--before", "2026-11-02", "--objects-before", "2026-11-03")
    planned = answer(capsys, lake, *words, "--plan")["expired"]
    assert len(Lake.open(lake).files()) == 9
    done = answer(capsys, lake, *words)["expired"]
    counts = [("events", "2026-11-02", 3, 3), ("bodies", "2026-11-03", 3, 3)]
    counts += [("quarantine files", "2026-11-03", 0, 0), ("runs", "2026-11-03", 0, 0)]
    for rows in (planned, done):
        assert [(row["what"], row["before"], row["files"], row["rows"]) for row in rows] == counts
    assert len(Lake.open(lake).files()) == 6


def test_what_is_missing_is_named(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "expire"]) == 2
    assert "give --before or --objects-before" in capsys.readouterr().err
    assert run(["--lake", str(lake), "expire", "--before", "soon"]) == 2
    assert "--before: 'soon' is not a time" in capsys.readouterr().err
    assert run(["--lake", str(lake / "none"), "compact"]) == 2
    assert "there is no lake here" in capsys.readouterr().err
