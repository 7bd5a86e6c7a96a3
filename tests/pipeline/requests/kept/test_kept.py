"""Requests that are kept as history told them give the verdicts of a replay without them, and are never stale."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.redaction.redact import Redactor
from ingest.retention import expire, expire_objects
from ingest.sources.files import ingest_files
from pipeline import Window, plan_replay, run_replay
from pipeline.policies.model import PolicySet
from pipeline.requests.kept import records as kept
from pipeline.requests.kept.place import file_digest
from pipeline.runs import RunStore, RunSummary
from pipeline.stages.validating.load import load_policy_set
from queries import open_lake
from tests.pipeline.requests.conftest import CASES, START, Cluster

LATER_TS = START.timestamp() + 30 * 86_400
POLICIES = load_policy_set([CASES / "policies.yaml"])


def cluster_of(seed: int = 0) -> Cluster:
    """A namespace and some Deployments that are written, patched, refused and deleted, with and without bodies."""
    chance, cluster = random.Random(seed), Cluster()
    cluster.namespace({"env": "prod"})
    for number in range(30):
        name = f"web-{chance.randrange(4)}"
        labels = {"owner": "dana"} if chance.random() < 0.5 else None
        verb = chance.choice(["create", "update", "update", "patch", "delete"])
        cluster.deployment(verb, name, chance.randrange(9), labels, code=chance.choice([0, 0, 0, 404, 409, 422]))
        event = cluster.events[-1]
        if event["responseStatus"]["code"] >= 400:
            event["responseObject"] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if verb == "patch":
            event["requestObject"] = {"spec": {"replicas": number}}
        if chance.random() < 0.2:
            event |= {"level": "Metadata", "requestObject": None, "responseObject": None}
    return cluster


def arrive(folder: Path, batches: Sequence[Sequence[dict[str, Any]]]) -> Iterator[Lake]:
    """A lake after the arrival of each of these batches of events."""
    lake = Lake.create(folder / "lake")
    for number, events in enumerate(batches):
        log = folder / f"{number}.jsonl"
        log.write_text("".join(json.dumps(event) + "\n" for event in events))
        ingest_files(lake, [log], "lab", received_ts=0.0)
        yield lake
    lake.close()


def lake_of(folder: Path, seed: int = 0) -> Lake:
    (lake,) = arrive(folder, [cluster_of(seed).events])
    return Lake.open(lake.path)


def replay(lake: Path, policies: PolicySet = POLICIES, window: Window | None = None, workers: int = 1) -> RunSummary:
    """A run that is made now, whatever runs there were."""
    with closing(open_lake(lake, threads=1)) as reader:
        plan = plan_replay(reader, policies, window, part_events=16)
    shutil.rmtree(RunStore(lake).run(plan.run_id).folder, ignore_errors=True)
    return run_replay(plan, lake, workers)


def verdicts(lake: Path, summary: RunSummary) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(RunStore(lake).run(summary.run_id).verdicts).to_pylist()
    return rows


def without_kept(lake: Path, **arguments: Any) -> tuple[RunSummary, list[dict[str, Any]]]:
    """What a replay finds that has nothing to take over."""
    shutil.rmtree(lake / "derived", ignore_errors=True)
    summary = replay(lake, **arguments)
    return summary, verdicts(lake, summary)


def kept_files(lake: Path) -> list[Path]:
    return sorted((lake / "derived" / "admissions").glob("*/*.parquet"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path)


def spoil(file: Path) -> None:
    """Let a file of kept requests tell another reason, under a digest that fits."""
    table = pq.read_table(file)
    reasons = pc.if_else(pc.is_valid(table["reason"]), "spoiled", None)
    table = table.set_column(table.schema.get_field_index("reason"), "reason", reasons.cast(pa.string()))
    stored = pq.read_metadata(file).metadata
    groups = pq.ParquetFile(file).metadata
    with pq.ParquetWriter(file, table.schema) as writer:
        first = 0
        for number in range(groups.num_row_groups):
            writer.write_table(table.slice(first, groups.row_group(number).num_rows))
            first += groups.row_group(number).num_rows
        writer.add_key_value_metadata({"hindcast.units": stored[b"hindcast.units"].decode()})
    file.rename(file.with_stem(file_digest(file)))


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False), cuts=st.lists(st.integers(1, 30), max_size=2))
def test_any_order_and_split_of_arrival_gives_the_same_verdicts(seed: int, order: random.Random, cuts: list[int]) -> None:
    events = cluster_of(seed).events
    shuffled = order.sample(events, len(events))
    ends = sorted({*cuts, len(events)})
    batches = [shuffled[first:end] for first, end in zip([0, *ends], ends, strict=False)]
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        (at_once,) = arrive(Path(one), [events])
        expected = replay(at_once.path)
        for lake in arrive(Path(other), batches):
            found = replay(lake.path)
        assert found == expected
        assert verdicts(lake.path, found) == verdicts(at_once.path, expected)
        again = replay(lake.path)
        assert again == expected
        assert verdicts(lake.path, again) == verdicts(at_once.path, expected)


def test_a_later_replay_reads_what_an_earlier_one_kept(lake: Lake) -> None:
    expected, rows = without_kept(lake.path)
    (file,) = kept_files(lake.path)
    assert replay(lake.path) == expected
    spoil(file)
    assert dict(replay(lake.path).not_evaluated) == {"spoiled": sum(count for _, count in expected.not_evaluated)}
    assert without_kept(lake.path) == (expected, rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_other_policies_take_over_what_they_need_and_add_the_rest(lake: Lake, workers: int) -> None:
    first, second = (
        PolicySet((policy,), tuple(each for each in POLICIES.bindings if each.policy_name == policy.name))
        for policy in POLICIES.policies
    )
    expected = [without_kept(lake.path, policies=each) for each in (POLICIES, first, second)]
    shutil.rmtree(lake.path / "derived")
    for each, (summary, rows) in zip((first, second, POLICIES, first), (expected[1], expected[2], *expected[:2]), strict=True):
        assert replay(lake.path, each, workers=workers) == summary
        assert verdicts(lake.path, summary) == rows
    assert len(kept_files(lake.path)) == 2


def test_merged_files_keep_what_is_kept(tmp_path: Path) -> None:
    events = cluster_of().events
    *_, lake = arrive(tmp_path, [events[:9], events[9:20], events[20:]])
    expected, rows = without_kept(lake.path)
    before = kept_files(lake.path)
    lake = Lake.open(lake.path)
    with lake.writer() as writer:
        compact(writer, LATER_TS)
        remove_retired(writer, 2 * LATER_TS)
    found = replay(lake.path)
    assert (found, verdicts(lake.path, found)) == (expected, rows)
    assert kept_files(lake.path) == before


def test_an_interrupted_compaction_changes_nothing(tmp_path: Path) -> None:
    events = cluster_of().events
    *_, lake = arrive(tmp_path, [events[:9], events[9:20], events[20:]])
    expected, rows = without_kept(lake.path)
    # A file that was written and never listed, as a killed compaction leaves it.
    (orphan := lake.path / "events" / "dt=2026-01-01" / "0123456789abcdef.parquet").write_bytes(
        (lake.path / Lake.open(lake.path).manifest.files("events")[0].path).read_bytes()
    )
    found = replay(lake.path)
    assert (found, verdicts(lake.path, found)) == (expected, rows)
    assert orphan.exists()


def test_late_events_renew_their_objects(tmp_path: Path) -> None:
    events = cluster_of(3).events
    lakes = arrive(tmp_path, [events[20:], events[:20]])
    first = replay(next(lakes).path)
    before = kept_files(tmp_path / "lake")
    lake = next(lakes)
    found = replay(lake.path)
    assert found.planned > first.planned
    assert kept_files(lake.path) != before
    assert len(kept_files(lake.path)) == 1
    assert without_kept(lake.path) == (found, verdicts(lake.path, found))


def test_events_of_one_object_leave_the_kept_requests_of_others(tmp_path: Path) -> None:
    events = cluster_of(1).events
    late = [event for event in events if event["objectRef"].get("name") == "web-1"][-2:]
    assert late
    lakes = arrive(tmp_path, [[event for event in events if event not in late], late])
    replay(next(lakes).path)
    (file,) = kept_files(tmp_path / "lake")
    spoil(file)
    lake = next(lakes)
    spoiled = replay(lake.path)
    (renewed,) = kept_files(lake.path)
    rows = pq.read_table(renewed, columns=["name", "reason"]).to_pylist()
    assert {row["reason"] for row in rows if row["name"] != "web-1"} <= {"spoiled", None}
    assert "spoiled" not in {row["reason"] for row in rows if row["name"] == "web-1"}
    assert dict(spoiled.not_evaluated)["spoiled"] > 0


def test_a_late_deletion_of_a_collection_renews_all_objects_of_the_namespace(tmp_path: Path) -> None:
    events = cluster_of(2).events
    sweep = {**events[10], "auditID": "sweep", "verb": "deletecollection", "requestObject": None, "responseObject": None}
    sweep["objectRef"] = {name: value for name, value in events[10]["objectRef"].items() if name != "name"}
    sweep["responseStatus"] = {"metadata": {}, "code": 200}
    lakes = arrive(tmp_path, [events, [sweep]])
    replay(next(lakes).path)
    (file,) = kept_files(tmp_path / "lake")
    spoil(file)
    lake = next(lakes)
    found = replay(lake.path)
    assert without_kept(lake.path) == (found, verdicts(lake.path, found))


def test_a_changed_redaction_rule_makes_nothing_stale(tmp_path: Path) -> None:
    events = cluster_of(6).events
    lake, logs = Lake.create(tmp_path / "lake"), [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    redactors = [None, Redactor(paths=["deployments.apps:spec.replicas"])]
    for log, part, redactor in zip(logs, (events[:18], events[18:]), redactors, strict=True):
        log.write_text("".join(json.dumps(event) + "\n" for event in part))
        ingest_files(lake, [log], "lab", 0.0, redactor)
        found = replay(lake.path)
        rows = verdicts(lake.path, found)
        again = replay(lake.path)
        assert (again, verdicts(lake.path, again)) == (found, rows)
    assert without_kept(lake.path) == (found, rows)
    lake.close()


@pytest.mark.parametrize("damage", ["torn", "changed", "empty"])
def test_a_damaged_file_does_not_count(lake: Lake, damage: str) -> None:
    expected, rows = without_kept(lake.path)
    (file,) = kept_files(lake.path)
    whole = file.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    file.write_bytes({"torn": whole[:-50], "changed": bytes(changed), "empty": b""}[damage])
    found = replay(lake.path)
    assert (found, verdicts(lake.path, found)) == (expected, rows)
    assert file.read_bytes() == whole


def test_another_format_does_not_count(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, rows = without_kept(lake.path)
    before = kept_files(lake.path)
    spoil(before[0])
    monkeypatch.setattr(kept, "FORMAT", kept.FORMAT + 1)
    kept.code_digest.cache_clear()
    try:
        found = replay(lake.path)
    finally:
        monkeypatch.undo()
        kept.code_digest.cache_clear()
    assert (found, verdicts(lake.path, found)) == (expected, rows)
    (after,) = kept_files(lake.path)
    assert after.parent != before[0].parent


@pytest.mark.parametrize("what", ["events", "bodies"])
def test_retention_takes_kept_requests_along(tmp_path: Path, what: str) -> None:
    events = cluster_of().events
    for event in events[15:]:
        for name in ("requestReceivedTimestamp", "stageTimestamp"):
            event[name] = event[name].replace("2026-01-01", "2026-01-02")
    *_, lake = arrive(tmp_path, [events])
    lake = Lake.open(lake.path)
    replay(lake.path)
    assert kept_files(lake.path)
    with lake.writer() as writer:
        (expire if what == "events" else expire_objects)(writer, date(2026, 1, 2), LATER_TS)
        assert not kept_files(lake.path)
        remove_retired(writer, 2 * LATER_TS)
    found = replay(lake.path)
    rows = verdicts(lake.path, found)
    again = replay(lake.path)
    assert (again, verdicts(lake.path, again)) == (found, rows)
    assert without_kept(lake.path) == (found, rows)


def test_a_window_takes_over_what_holds_for_it(lake: Lake) -> None:
    windows = [Window(START + timedelta(seconds=10)), Window(None, START + timedelta(seconds=20))]
    expected = [without_kept(lake.path, window=window) for window in windows]
    assert not kept_files(lake.path)
    replay(lake.path)
    assert [(found := replay(lake.path, window=window), verdicts(lake.path, found)) for window in windows] == expected


def test_two_replays_at_once_keep_both(lake: Lake) -> None:
    sets = [PolicySet((policy,), ()) for policy in POLICIES.policies]
    expected = [without_kept(lake.path, policies=each) for each in sets]
    shutil.rmtree(lake.path / "derived")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: replay(lake.path, each), sets))
    assert [(each, verdicts(lake.path, each)) for each in found] == expected
    assert [(each := replay(lake.path, policies), verdicts(lake.path, each)) for policies in sets] == expected


def test_a_lake_that_cannot_be_written_keeps_nothing(lake: Lake) -> None:
    expected, rows = without_kept(lake.path)
    shutil.rmtree(lake.path / "derived")
    (lake.path / "derived").write_text("a file where the folder would be")
    found = replay(lake.path)
    assert (found, verdicts(lake.path, found)) == (expected, rows)
