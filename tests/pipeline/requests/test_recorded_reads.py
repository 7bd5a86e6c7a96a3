"""A recorded read shows a namespace, a param, or the object that the next write meets."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.runs.store import RunStore
from queries import open_lake

CASES = Path(__file__).parents[2] / "cases" / "recorded_reads"


def decisions(lake: Path, policy: str) -> list[str]:
    with closing(open_lake(lake)) as reader:
        plan = plan_replay(reader, load_policy_set([CASES / f"{policy}.yaml"]))
    summary = run_replay(plan, lake)
    table: Any = pq.read_table(RunStore(lake).run(summary.run_id).verdicts)
    return sorted({row["decision"] for row in table.to_pylist()})


def lake_of(folder: Path, lines: list[bytes]) -> Path:
    folder.mkdir()
    (folder / "audit.log").write_bytes(b"\n".join([*lines, b""]))
    with closing(Lake.create(folder / "lake")) as lake:
        ingest_files(lake, [folder / "audit.log"], "c", 0.0)
    return folder / "lake"


@pytest.mark.parametrize("policy", ["namespace", "param", "old"])
@pytest.mark.parametrize("verb", ["get", "list"])
def test_a_read_is_evidence(tmp_path: Path, verb: str, policy: str) -> None:
    lines = (CASES / f"{verb}.jsonl").read_bytes().splitlines()
    (found,) = decisions(lake_of(tmp_path / "with", lines), policy)
    writes = [line for line in lines if f'"verb":"{verb}"'.encode() not in line]
    (without,) = decisions(lake_of(tmp_path / "without", writes), policy)
    assert without == "unknown"
    assert found == "deny"


@pytest.mark.parametrize("verb", ["get", "list"])
def test_a_read_that_comes_later_counts_in_a_second_run(tmp_path: Path, verb: str) -> None:
    lines = (CASES / f"{verb}.jsonl").read_bytes().splitlines()
    reads = [line for line in lines if f'"verb":"{verb}"'.encode() in line]
    lake = lake_of(tmp_path / "some", [line for line in lines if line not in reads])
    assert decisions(lake, "old") == ["unknown"]
    (tmp_path / "more.log").write_bytes(b"\n".join([*reads, b""]))
    with closing(Lake.open(lake)) as opened:
        ingest_files(opened, [tmp_path / "more.log"], "c", 0.0)
    assert decisions(lake, "old") == ["deny"]
