"""What stages know of a lake before anybody asks: it is there after a preparation, equal to what a question finds out by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.cel.minors import DEFAULT
from pipeline.readiness.prepared import prepare
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.authorization import calibration
from pipeline.stages.pod_security import agreement, levels
from queries import open_lake
from tests.verdict_tables import SOURCES

KEPT = {"agreement-authorization", "agreement-pod-security", "agreement-webhooks"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"".join(_lines()[::4]))
    with closing(Lake.create(tmp_path / "lake")) as made:
        ingest_files(made, [log], "demo", 0.0)
    return tmp_path / "lake"


def _lines() -> list[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(SOURCES["bundled"].log.read_bytes()).readall().splitlines(keepends=True)


def after(steps: int) -> Callable[[], bool]:
    """Stops after so many steps."""
    left = iter([False] * steps)
    return lambda: next(left, True)


def _kept(lake: Path) -> set[str]:
    return {path.name.rpartition("-")[0] for path in (lake / "derived" / "whole").glob("agreement-*")}


def test_what_is_prepared_is_what_a_question_finds_out(lake: Path, tmp_path: Path) -> None:
    fresh = Path(shutil.copytree(lake, tmp_path / "fresh"))
    assert prepare(lake)
    assert _kept(lake) == KEPT
    found = []
    for path in (lake, fresh):
        with closing(open_lake(path)) as reader:
            found.append(
                (
                    agreement.recorded_agreement(reader, Window(), DEFAULT[1]),
                    calibration.recorded_agreement(reader, Window(), {}, DEFAULT).count(),
                    levels.levels_of(reader, None, Window(), DEFAULT[1]),
                )
            )
    assert found[0] == found[1]
    (run,) = RunStore(lake).every()
    assert set(run.asked_ns()) == {RunKind.CALIBRATION}
    assert run.summary is not None
    assert run.summary.verdicts > 100


def test_a_lake_is_prepared_once_and_again_when_it_has_grown(lake: Path, tmp_path: Path) -> None:
    assert prepare(lake)
    shutil.rmtree(lake / "derived" / "whole")
    assert prepare(lake)
    assert not _kept(lake)  # the lake is the same
    more = tmp_path / "more.jsonl"
    more.write_bytes(b"".join(_lines()[1:100:4]))
    with closing(Lake.open(lake)) as opened:
        ingest_files(opened, [more], "demo", 1.0)
    assert prepare(lake, grown=0.25)
    assert not _kept(lake)
    assert prepare(lake)
    assert _kept(lake) == KEPT


def test_a_preparation_that_is_stopped_goes_on_later(lake: Path) -> None:
    tries = 1
    while not prepare(lake, after(4 * tries)):
        tries += 1
    assert tries > 1
    assert _kept(lake) == KEPT


def test_what_an_interrupted_preparation_left_is_removed(lake: Path) -> None:
    def left(kind: RunKind) -> str:
        run = RunStore(lake).run("0123456789abcdef" if kind is RunKind.CALIBRATION else "fedcba9876543210")
        run.parts.mkdir(parents=True)
        run.mark(kind)
        run.begin("{}\n")
        return run.run_id

    ours, theirs = left(RunKind.CALIBRATION), left(RunKind.REPLAY)
    assert prepare(lake)
    names = {run.run_id for run in RunStore(lake).every()}
    assert ours not in names
    assert theirs in names
    assert len(names) == 2
