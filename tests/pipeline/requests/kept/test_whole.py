"""What is kept about a whole lake is true of its present files."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.requests.kept.facts import ALL_CLASSES
from pipeline.requests.kept.whole import classes_of, losses_of, rows_about
from queries import open_lake
from tests.recording import START, recorded

Rows = list[dict[str, Any]]


def add(lake: Lake, folder: Path, number: int) -> None:
    """A create without a body, which is a loss."""
    config = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": f"settings-{number}", "namespace": "shop"}}
    event = recorded(f"id-{number}", START.replace(minute=number), "create", config)
    event.pop("requestObject", None)
    event.pop("responseObject", None)
    log = folder / f"{number}.jsonl"
    log.write_text(json.dumps({**event, "level": "Metadata"}) + "\n")
    ingest_files(lake, [log], "lab", received_ts=0.0)


def asked(lake: Lake) -> tuple[Rows, Rows]:
    """The kept ledger, and that of the views."""
    with closing(open_lake(lake.path)) as reader:
        return losses_of(reader).to_pylist(), reader.arrow("FROM losses").to_pylist()


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"ARROW1"), lambda file: None])
def test_the_kept_ledger_is_that_of_the_files(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    lake = Lake.create(tmp_path / "lake")
    counts = []
    for number in range(3):
        add(lake, tmp_path, number)
        for _ in range(2):
            found, wanted = asked(lake)
            assert found == wanted
            counts.append(sum(row["count"] for row in found if row["kind"] == "level_metadata"))
        (kept,) = (lake.path / "derived" / "whole").iterdir()
        damage(kept)
    assert counts == [1, 1, 2, 2, 3, 3]


def test_what_is_kept_is_true_of_a_lake_that_was_moved(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    add(lake, tmp_path, 0)
    found, _ = asked(lake)
    lake.close()
    moved = lake.path.rename(tmp_path / "elsewhere")
    with closing(open_lake(moved)) as reader:
        (kept,) = (moved / "derived" / "whole").iterdir()
        before = kept.stat().st_mtime_ns
        assert losses_of(reader).to_pylist() == found
        assert kept.stat().st_mtime_ns == before


def test_what_is_kept_is_read(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    add(lake, tmp_path, 0)
    asked(lake)
    with closing(open_lake(lake.path)) as reader:
        wanted = reader.arrow(ALL_CLASSES).to_pylist()
        assert classes_of(reader) == wanted
        reader.connection.execute("DROP VIEW admission_writes")
        assert losses_of(reader).num_rows
        assert classes_of(reader) == wanted


def test_rows_about_the_lake_follow_its_files_and_the_question(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    asked = "SELECT count(*) AS events FROM events WHERE $before IS NULL OR ts < $before"
    for number in range(2):
        add(lake, tmp_path, number)
        with closing(open_lake(lake.path)) as reader:
            for before, events in ((None, number + 1), (START, 0), (None, number + 1)):
                assert rows_about(reader, "count", asked, {"before": before}) == [{"events": events}]
            reader.connection.execute("DROP VIEW events CASCADE")
            assert rows_about(reader, "count", asked, {"before": None}) == [{"events": number + 1}]
