"""What every stage promises of its runs: tests/cases/stages/contract.yaml lists the stages, and those that lack a property."""

from __future__ import annotations

import json
import pickle
import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.sources.files import ingest_files
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs import RunStore
from pipeline.runs.export import export
from pipeline.runs.processes import end
from pipeline.runs.window import Window
from pipeline.stages.registry import STAGES, stage_of
from pipeline.stages.stage import Asked
from queries import open_lake

from .drivers import KILLED, drive, order
from .lakes import CONTRACT, MANIFESTS, NAMES, PART_EVENTS, Made, lake_of, log_lines, made, odd_lines, rule_lines

PIECES = 8
AFTER_ALL = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


def having(name: str) -> tuple[str, ...]:
    """The stages that have a property."""
    return tuple(each for each in NAMES if each not in CONTRACT["lacks"].get(name, {}))


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return log_lines()


@pytest.fixture(scope="module")
def lake(log: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake without runs, as its log was ingested in one go. Tests copy it."""
    folder = tmp_path_factory.mktemp("contract")
    return lake_of([log], folder)


@pytest.fixture(scope="module")
def with_runs(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake for tests that only add runs with other names."""
    return copied(lake, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def runs(with_runs: Path) -> dict[str, Made]:
    """A run of each stage by one process."""
    return {name: made(name, with_runs) for name in NAMES}


def copied(lake: Path, folder: Path) -> Path:
    return Path(shutil.copytree(lake, folder / "lake"))


@pytest.fixture
def own(lake: Path, tmp_path: Path) -> Path:
    return copied(lake, tmp_path)


def test_the_contract_is_on_every_stage() -> None:
    assert set(NAMES) == {stage.name for stage in STAGES}
    assert all(set(lacking) < set(NAMES) for lacking in CONTRACT["lacks"].values())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_judges_what_it_planned_and_says_more_than_one_thing(name: str, runs: dict[str, Made]) -> None:
    run = runs[name]
    assert run.summary.verdicts == run.table.num_rows > 10
    assert run.summary.evaluated + sum(count for _, count in run.summary.not_evaluated) <= run.plan.requests
    assert set(run.table["stage"].to_pylist()) == {name}
    assert len(set(run.table["decision"].to_pylist())) > 1


@pytest.mark.parametrize("name", having("goes on where it stopped"))
def test_processes_change_no_byte(name: str, runs: dict[str, Made], own: Path) -> None:
    try:
        assert made(name, own, workers=2).content == runs[name].content
    finally:
        end()


@pytest.fixture(scope="module")
def layouts(log: list[bytes], lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    compacted, pieces = copied(lake, tmp_path_factory.mktemp("compacted")), tmp_path_factory.mktemp("pieces")
    with closing(Lake.open(compacted)) as found, found.writer() as writer:
        compact(writer, AFTER_ALL)
        remove_retired(writer, 2 * AFTER_ALL)
    backwards = [log[start::PIECES] for start in reversed(range(PIECES))]
    return dict(zip(CONTRACT["layouts"], (compacted, lake_of(backwards, pieces)), strict=True))


@pytest.mark.parametrize("layout", CONTRACT["layouts"])
@pytest.mark.parametrize("name", NAMES)
def test_how_events_lie_in_files_changes_no_row(name: str, layout: str, layouts: dict[str, Path], runs: dict[str, Made]) -> None:
    assert made(name, layouts[layout]).table.equals(runs[name].table)


@pytest.fixture(scope="module")
def with_odd(log: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that also has odd requests: dry runs, and bodies of all sorts."""
    return lake_of([log, odd_lines()], tmp_path_factory.mktemp("odd"))


@pytest.mark.parametrize("name", NAMES)
def test_odd_requests_end_no_run_and_change_no_verdict_on_others(name: str, with_odd: Path, runs: dict[str, Made]) -> None:
    table = made(name, with_odd).table
    is_odd = pc.match_substring_regex(table["audit_id"], "-(dry-run|text|types|deep|taken-out)$")
    assert table.filter(pc.invert(is_odd)).equals(runs[name].table)
    if name not in ("schema", "webhooks", "mutating"):
        assert pc.sum(is_odd).as_py() > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_run_after_later_events_is_that_of_a_new_lake(name: str, own: Path, with_odd: Path) -> None:
    made(name, own)
    take_odd_lines(own)
    assert made(name, own).table.equals(made(name, with_odd).table)


@pytest.mark.parametrize("name", having("a later run reads only new events"))
def test_a_run_after_later_events_takes_over_what_an_earlier_one_read(name: str, own: Path) -> None:
    made(name, own)
    take_odd_lines(own)
    parts: set[str] = set()

    def look(done: int, planned: int) -> None:
        parts.update(part.name.partition("-")[0] for run in RunStore(own).every() for part in run.parts.glob("*"))

    made(name, own, progress=look)
    assert "kept" in parts


def take_odd_lines(lake: Path) -> None:
    file = lake.parent / "odd.jsonl"
    file.write_bytes(b"\n".join(odd_lines()) + b"\n")
    with closing(Lake.open(lake)) as found:
        ingest_files(found, [file], "demo", 1.0)


@pytest.mark.parametrize("name", having("takes its rules from the log at a moment"))
def test_rules_of_the_log_judge_as_those_of_files(name: str, log: list[bytes], tmp_path: Path) -> None:
    path = lake_of([log, rule_lines(name)], tmp_path)
    from_log = made(name, path, from_log=True)
    assert from_log.table.num_rows > 10
    assert from_log.table.equals(made(name, path).table)


@pytest.fixture(scope="module")
def killed(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A lake for each stage, whose driver was killed when it had judged some requests."""
    lakes = {name: copied(lake, tmp_path_factory.mktemp(f"killed-{name}")) for name in NAMES}
    assert drive([order(lakes[name], name, MANIFESTS[name], PART_EVENTS, kill=True) for name in NAMES]) == [KILLED] * len(NAMES)
    return lakes


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_is_made_whole(name: str, killed: dict[str, Path], runs: dict[str, Made]) -> None:
    (left,) = RunStore(killed[name]).every()
    assert not left.verdicts.exists()
    done: list[int] = []
    again = made(name, killed[name], progress=lambda count, planned: done.append(count))
    assert (again.plan.run_id, again.content, again.summary) == (left.run_id, runs[name].content, runs[name].summary)
    assert not left.parts.exists()
    assert done[0] > 0  # the finished part is not made again
    if name in having("goes on where it stopped"):
        assert done[0] < again.summary.evaluated


@pytest.mark.parametrize("name", having("goes on where it stopped"))
def test_parts_of_another_division_do_not_count(name: str, own: Path, runs: dict[str, Made]) -> None:
    def interrupt(done: int, planned: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(name, own, progress=interrupt)
    again = made(name, own, is_cut=False)
    assert (again.content, again.summary) == (runs[name].content, runs[name].summary)


def test_drivers_that_start_at_once_make_a_run_once(lake: Path, tmp_path: Path, runs: dict[str, Made]) -> None:
    both = copied(lake, tmp_path)
    assert drive([order(both, name, MANIFESTS[name], PART_EVENTS) for name in NAMES for _ in range(2)]) == [0] * 2 * len(NAMES)
    found = {run.run_id: run for run in RunStore(both).every()}
    assert set(found) == {run.plan.run_id for run in runs.values()}
    differing = [name for name, run in runs.items() if found[run.plan.run_id].verdicts.read_bytes() != run.content]
    assert differing == []


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_the_same_after_a_journey_and_without_the_files_of_its_rules(
    name: str, with_runs: Path, runs: dict[str, Made]
) -> None:
    plan = runs[name].plan
    journeyed = pickle.loads(pickle.dumps(plan))
    assert (journeyed, journeyed.to_json(), journeyed.run_id) == (plan, plan.to_json(), plan.run_id)
    document = json.loads(plan.to_json())
    assert json.dumps(document, indent=1, sort_keys=True) + "\n" == plan.to_json()
    assert document["stage"] == name
    stage = stage_of(name)
    moved = manifests_of((f"elsewhere/{source}", f"# moved\n{text}") for source, text in texts_of([MANIFESTS[name]]))
    with closing(open_lake(with_runs)) as reader:
        assert stage.plan(reader, stage.read(moved), Asked()).run_id == plan.run_id
        assert stage.plan(reader, stage.read(moved), Asked(kubernetes_version=(1, 34))).run_id != plan.run_id


@pytest.mark.parametrize("name", NAMES)
def test_a_window_holds_the_same_verdicts_on_its_requests(name: str, with_runs: Path, runs: dict[str, Made]) -> None:
    whole = runs[name].table
    moments = sorted(whole["ts"].to_pylist())
    window = Window(moments[len(moments) // 4], moments[3 * len(moments) // 4])
    found = made(name, with_runs, Asked(window=window))
    within = pc.and_(pc.greater_equal(whole["ts"], pa.scalar(window.since)), pc.less(whole["ts"], pa.scalar(window.until)))
    left_out = [] if name in having("says in a window all that it says without one") else ["detail"]
    assert found.table.drop_columns(left_out).equals(whole.filter(within).drop_columns(left_out))
    assert found.plan.run_id != runs[name].plan.run_id


@pytest.mark.parametrize("name", NAMES)
def test_an_export_has_every_verdict_and_one_on_each_request_as_a_whole(
    name: str, with_runs: Path, runs: dict[str, Made], tmp_path: Path
) -> None:
    run, file = runs[name], tmp_path / "verdicts.parquet"
    with closing(open_lake(with_runs)) as reader:
        rows = export(reader, [RunStore(with_runs).run(run.plan.run_id).verdicts], file)
    table = pq.read_table(file)
    assert rows == table.num_rows
    # Policies have no verdict on a request as a whole: the export adds one to each pass.
    whole = table.filter(pc.is_null(table["policy"])) if name == "validating" else table
    assert table.num_rows - run.table.num_rows == (whole.num_rows if name == "validating" else 0)
    assert passes_of(whole) == passes_of(run.table)
    assert whole["flip"].null_count < whole.num_rows


def passes_of(table: pa.Table) -> set[tuple[Any, ...]]:
    return set(zip(*(table[name].to_pylist() for name in ("cluster", "audit_id", "ts", "pass")), strict=True))
