"""Plans count what runs do, and runs are the same however they are cut, shared out or interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import LakeError
from ingest.holds import hold_files
from ingest.lake import Lake
from ingest.maintain import GRACE_SECONDS, compact, remove_retired
from pipeline import Window, plan_replay, run_replay
from pipeline.policies.model import PolicySet
from pipeline.requests import waiting, worker
from pipeline.runs import RunStore
from pipeline.runs.verdict import VERDICTS
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.plan import ReplayPlan
from queries import databases, open_lake
from queries.databases import give_back

from .conftest import CASES

# The audit events of a small cluster, and what takes them into a lake: see conftest.py.
Cluster = Any
Ingest = Callable[[Cluster], Path]


def plan_of(lake: Path, policies: PolicySet, **arguments: Any) -> ReplayPlan:
    reader = open_lake(lake, threads=1)
    try:
        return plan_replay(reader, policies, **arguments)
    finally:
        reader.close()


def verdicts(lake: Path, plan: ReplayPlan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()
    return rows


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_plan_counts_requests_by_what_rules_see(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    assert Counter({item.operation: item.requests for item in plan.classes}) == {"CREATE": 12, "UPDATE": 12}
    assert plan.excluded == (("no policy is for this resource and operation", 1),)
    assert [(item.policy, item.binding, item.requests) for item in plan.bindings] == [
        ("owner-label", "owner-label-prod", 24),
        ("no-shrink", None, 12),
    ]
    assert plan.requests == 24
    assert "24 requests, Kubernetes 1.36" in str(plan)


def test_every_write_is_evaluated_or_told_once(cluster: Cluster, policies: PolicySet, ingest: Ingest) -> None:
    cluster.deployment("create", "forbidden", 1, code=403)
    cluster.events[-1]["annotations"] = {"authorization.k8s.io/decision": "forbid"}
    cluster.deployment("create", "panicked", 1, code=500)
    cluster.events[-1]["stage"] = "Panic"
    cluster.deployment("create", "open", 1)
    cluster.events[-1] |= {"stage": "RequestReceived", "responseStatus": None}
    cluster.deployment("delete", "nobody-asks", 1)
    lake = ingest(cluster)
    plan = plan_of(lake, policies)
    summary = run_replay(plan, lake)
    assert summary.not_evaluated == (("the authorizer refused the request", 1),)
    assert plan.excluded == (
        ("no policy is for this resource and operation", 2),
        ("whether policies ran is not recorded: no answer is recorded", 1),
        ("whether policies ran is not recorded: the log lacks the text of the refusal, which tells by what", 1),
    )
    assert (summary.planned, summary.evaluated) == (25, 24)
    assert plan.requests + sum(count for _, count in plan.excluded) == len(cluster.events)
    assert "1  others of these resources and verbs, which no policy meets: the run says why" in str(plan)


def test_a_finished_replay_gives_its_database_to_later_readers(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    with closing(open_lake(lake, threads=1)) as first, closing(open_lake(lake, threads=1)):
        database = first._database
    while databases._kept[database.limits]:
        databases._pop(database.limits)
    give_back(database)
    run_replay(plan, lake)
    with closing(open_lake(lake, threads=1)) as later:
        assert later._database is database


def test_only_classes_whose_policies_ask_need_old_objects(lake: Path, policies: PolicySet) -> None:
    assert {item.operation: item.reads_old_object for item in plan_of(lake, policies).classes} == {"CREATE": False, "UPDATE": True}


def test_a_run_says_what_every_expression_came_to(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    summary = run_replay(plan, lake)
    rows = verdicts(lake, plan)
    assert pq.read_schema(RunStore(lake).run(plan.run_id).verdicts).equals(VERDICTS)
    assert len(rows) == summary.verdicts
    # web-00: no owner; then 0 to 5 replicas, which does not shrink. web-11: too many; then 11 to 5.
    said = {
        (row["audit_id"], row["policy"], row["expression_index"]): (row["decision"], row["message"], row["reason"], row["code"])
        for row in rows
    }
    assert said["id-0001", "owner-label", 0] == ("deny", "an owner is required", "Forbidden", 403)
    assert said["id-0001", "owner-label", 1] == ("admit", None, None, None)
    assert said["id-0001", "owner-label", None] == ("deny", None, None, None)
    assert said["id-0002", "no-shrink", 0] == ("admit", None, None, None)
    assert said["id-0024", "no-shrink", 0] == ("deny", "was 11", "Invalid", 422)
    assert {row["run_id"] for row in rows} == {plan.run_id}
    assert {row["pass"] for row in rows} == {0}
    counts = {(item.policy, item.binding): (item.matched, item.admit, item.deny, item.unknown) for item in summary.bindings}
    assert counts == {("owner-label", "owner-label-prod"): (24, 16, 8, 0), ("no-shrink", None): (12, 6, 6, 0)}


def test_evidence_and_binding_stand_in_every_row(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    found = {(row["policy"], row["binding"], tuple(row["actions"]), row["evidence"]) for row in verdicts(lake, plan)}
    # The binding asks for the namespace's labels, which follow from another request; no-shrink asks for oldObject, which does too.
    assert found == {("owner-label", "owner-label-prod", ("Deny",), "inferred"), ("no-shrink", None, (), "inferred")}


def test_a_missing_old_object_is_unknown_and_never_an_answer(cluster: Cluster, policies: PolicySet, ingest: Ingest) -> None:
    audit_id = cluster.deployment("update", "elder", replicas=1, labels={"owner": "dana"})
    lake = ingest(cluster)
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    rows = {(row["policy"], row["expression_index"]): row for row in verdicts(lake, plan) if row["audit_id"] == audit_id}
    assert rows["no-shrink", 0]["decision"] == "unknown"
    assert rows["no-shrink", 0]["effect"] is None
    assert rows["no-shrink", 0]["evidence"] == "insufficient"
    assert "no earlier version of deployments.apps shop/elder" in rows["no-shrink", 0]["why"]
    assert rows["owner-label", 0]["decision"] == "admit"


def test_a_window_replays_what_is_in_it_with_the_history_before_it(lake: Path, cluster: Cluster, policies: PolicySet) -> None:
    window = Window(cluster.start + timedelta(seconds=24), cluster.start + timedelta(seconds=25))
    plan = plan_of(lake, policies, window=window)
    run_replay(plan, lake)
    rows = verdicts(lake, plan)
    assert {row["audit_id"] for row in rows} == {"id-0024"}
    assert [row["message"] for row in rows if row["policy"] == "no-shrink" and row["expression_index"] == 0] == ["was 11"]


def test_two_runs_over_one_lake_give_equal_bytes(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    first = files(folder)
    shutil.rmtree(folder)
    run_replay(plan_of(lake, policies), lake)
    assert files(folder) == first
    assert set(first) == {"plan.json", "summary.json", "verdicts.parquet", "made-as-replay"}


def test_workers_change_nothing_but_the_time(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=5)
    run_replay(plan, lake, workers=1)
    folder = RunStore(lake).run(plan.run_id).folder
    first = files(folder)
    shutil.rmtree(folder)
    run_replay(plan, lake, workers=2)
    assert files(folder) == first


@pytest.mark.parametrize("part_events", [1, 2, 7])
def test_how_a_run_is_cut_up_changes_no_byte(lake: Path, policies: PolicySet, part_events: int) -> None:
    whole, cut = plan_of(lake, policies), plan_of(lake, policies, part_events=part_events)
    assert cut.run_id == whole.run_id
    run_replay(whole, lake)
    folder = RunStore(lake).run(whole.run_id).folder
    first = files(folder)
    shutil.rmtree(folder)
    run_replay(cut, lake)
    assert files(folder) == first


def test_in_which_files_events_lie_changes_no_byte(cluster: Cluster, policies: PolicySet, ingest: Ingest) -> None:
    every = list(cluster.events)
    for first in range(0, len(every), 7):
        cluster.events[:] = every[first : first + 7]
        lake = ingest(cluster)
    plan = plan_of(lake, policies)
    assert plan.files is not None
    assert len(plan.files.events) > 3
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    apart = files(folder)
    shutil.rmtree(folder)
    merged(lake)
    later = plan_of(lake, policies)
    assert later.run_id == plan.run_id
    run_replay(later, lake)
    assert files(folder) == apart


def test_how_much_is_held_at_a_time_changes_nothing(lake: Path, policies: PolicySet, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    first = files(folder)
    shutil.rmtree(folder)
    monkeypatch.setattr(worker, "BATCH_ROWS", 2)
    monkeypatch.setattr(waiting, "WAITING_BYTES_MAX", 0)
    run_replay(plan, lake)
    assert files(folder) == first


def interrupt(done: int, planned: int) -> None:
    raise KeyboardInterrupt


def parts_in(folder: Path) -> dict[str, int]:
    """The parts of an unfinished run that are whole, each with what tells it from one that is made again."""
    return {part.name: part.stat().st_ino for part in sorted((folder / "parts").iterdir()) if part.is_dir() and not part.suffix}


def test_an_interrupted_run_goes_on_where_it_stopped(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=5)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    shutil.rmtree(folder)
    shutil.rmtree(lake / "derived")
    with pytest.raises(KeyboardInterrupt):
        run_replay(plan, lake, progress=interrupt)
    kept = parts_in(folder)
    assert list(kept) == ["slice-000000"]
    seen: list[tuple[int, int]] = []

    def look(done: int, planned: int) -> None:
        seen.append((done, planned))
        assert kept.items() <= parts_in(folder).items()

    run_replay(plan, lake, progress=look)
    assert seen == sorted(set(seen))
    assert seen[-1] == (plan.requests, plan.requests)
    assert files(folder) == whole


@pytest.mark.parametrize("requests", range(2, 24, 3))
def test_a_run_may_be_interrupted_anywhere(lake: Path, policies: PolicySet, requests: int) -> None:
    plan = plan_of(lake, policies, part_events=3)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    shutil.rmtree(folder)

    def stop(done: int, planned: int) -> None:
        if done >= requests:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_replay(plan, lake, progress=stop)
    run_replay(plan, lake)
    assert files(folder) == whole


def test_parts_of_another_cut_are_made_again(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    shutil.rmtree(folder)
    with pytest.raises(KeyboardInterrupt):
        run_replay(plan_of(lake, policies, part_events=5), lake, progress=interrupt)
    assert parts_in(folder)
    run_replay(plan, lake)
    assert files(folder) == whole


def test_other_processes_find_a_lake_that_is_named_from_here(
    lake: Path, policies: PolicySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(lake, policies, part_events=5)
    for folder in (tmp_path, lake.parent):
        monkeypatch.chdir(folder)
        run_replay(plan, os.path.relpath(lake), workers=2)
        shutil.rmtree(RunStore(lake).run(plan.run_id).folder)


def test_a_process_that_is_killed_ends_the_run_and_loses_nothing(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=1)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    shutil.rmtree(folder)
    shutil.rmtree(lake / "derived")  # a replay that takes everything over has too few tasks

    def kill_others(done: int, planned: int) -> None:
        for process in active_children():
            process.kill()
            process.join()
            time.sleep(1)  # until this one has been told

    with pytest.raises(LakeError, match="a process of the replay ended before its part was done"):
        run_replay(plan, lake, workers=2, progress=kill_others)
    assert parts_in(folder)
    run_replay(plan, lake, workers=2)
    assert files(folder) == whole
    kill_others(0, 0)  # while they have nothing to do
    shutil.rmtree(folder)
    run_replay(plan, lake, workers=2)
    assert files(folder) == whole


# Plans a replay in the way of the tests above, and is killed when the first part is done if it is asked to.
_SCRIPT = """
import os, sys
from multiprocessing import active_children
from pathlib import Path
from pipeline import load_policy_set, plan_replay, run_replay
from queries import databases, open_lake
from queries.databases import give_back

def end(done, planned):
    if "killed" in sys.argv:
        print(active_children()[0].pid, flush=True)
        os.kill(os.getpid(), 9)

reader = open_lake(sys.argv[1])
plan = plan_replay(reader, load_policy_set([Path(sys.argv[2])]), part_events=5)
run_replay(plan, sys.argv[1], workers=2, progress=end)
"""


def test_other_processes_end_with_their_parent(lake: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, lake, CASES / "policies.yaml", "killed"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    other = int(killed.stdout)
    for _ in range(300):
        try:
            os.kill(other, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"process {other} is still there")


def test_processes_end_without_a_word(lake: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, lake, CASES / "policies.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def rewritten(file: Path, metadata: dict[str, str] | None) -> None:
    """A table of a part as other code may have left it."""
    with pa.ipc.open_file(file.read_bytes()) as part:
        table = part.read_all()
    table = table.drop_columns([table.column_names[0]]) if metadata is None else table.replace_schema_metadata(metadata)
    with pa.ipc.new_file(str(file), table.schema) as part:
        part.write_table(table)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda part: rewritten(part / "judged.arrow", {}), id="without counts"),
        pytest.param(lambda part: rewritten(part / "judged.arrow", {"hindcast.counts": '{"requests": 3}'}), id="with other counts"),
        pytest.param(lambda part: rewritten(part / "judged.arrow", {"hindcast.counts": "3"}), id="with counts of another kind"),
        pytest.param(lambda part: rewritten(part / "judged.arrow", None), id="with other columns"),
        pytest.param(lambda part: rewritten(part / "verdicts.arrow", None), id="with other verdicts"),
        pytest.param(lambda part: os.truncate(part / "judged.arrow", 90), id="torn"),
        pytest.param(lambda part: (part / "sets.arrow").write_bytes(b""), id="with empty sets"),
        pytest.param(lambda part: (part / "verdicts.arrow").unlink(), id="without verdicts"),
        pytest.param(lambda part: (part / "waiting.json").write_text("{"), id="with a torn list of what waits"),
        pytest.param(lambda part: (part / "asked.arrow").unlink(), id="without the objects asked for"),
    ],
)
def test_a_part_that_other_code_left_is_made_again(lake: Path, policies: PolicySet, damage: Callable[[Path], None]) -> None:
    plan = plan_of(lake, policies, part_events=5)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    shutil.rmtree(folder)
    shutil.rmtree(lake / "derived")
    with pytest.raises(KeyboardInterrupt):
        run_replay(plan, lake, progress=interrupt)
    damage(folder / "parts" / "slice-000000")
    run_replay(plan, lake)
    assert files(folder) == whole


def test_a_summary_that_other_code_left_is_no_summary(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    first = run_replay(plan, lake)
    summary = RunStore(lake).run(plan.run_id).folder / "summary.json"
    for text in ("", "[]", '{"run_id": "x"}', '{"bindings": [{"name": "b"}], "not_evaluated": []}'):
        summary.write_text(text)
        assert run_replay(plan, lake) == first


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: os.truncate(folder / "verdicts.parquet", 1000), id="torn verdicts"),
        pytest.param(lambda folder: (folder / "verdicts.parquet").unlink(), id="no verdicts"),
        pytest.param(lambda folder: os.truncate(folder / "plan.json", 10), id="torn plan"),
        pytest.param(lambda folder: (folder / "plan.json").unlink(), id="no plan"),
        pytest.param(lambda folder: (folder / "summary.json").write_bytes(b"\xff\0"), id="summary of noise"),
    ],
)
def test_a_run_of_which_something_is_missing_is_made_anew(lake: Path, policies: PolicySet, damage: Callable[[Path], None]) -> None:
    plan = plan_of(lake, policies)
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    whole = files(folder)
    damage(folder)
    run_replay(plan, lake)
    assert files(folder) == whole


def test_other_processes_begin_nothing_after_an_interruption(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=1)
    with pytest.raises(KeyboardInterrupt):
        run_replay(plan, lake, workers=2, progress=interrupt)
    assert 1 <= len(parts_in(RunStore(lake).run(plan.run_id).folder)) < 24
    assert run_replay(plan, lake, workers=2).evaluated == 24


def test_a_complete_run_is_not_run_again(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    first = run_replay(plan, lake)

    def fail(done: int, planned: int) -> None:
        raise AssertionError("ran again")

    assert run_replay(plan, lake, progress=fail) == first


def test_wanted_verdicts_are_those_of_the_whole_run(lake: Path, policies: PolicySet) -> None:
    whole = plan_of(lake, policies)
    run_replay(whole, lake)  # what it keeps is what a later run reads
    every = verdicts(lake, whole)
    wanted = tuple(sorted({row["audit_id"] for row in every})[::2])
    some = replace(whole, wanted=wanted)
    run_replay(some, lake)
    left = {row["audit_id"] for row in verdicts(lake, some)}
    assert set(wanted) <= left < {row["audit_id"] for row in every}
    expected = [{**row, "run_id": some.run_id} for row in every if row["audit_id"] in left]
    assert verdicts(lake, some) == expected
    assert some.run_id != whole.run_id


def test_other_policies_are_another_run_and_the_place_of_their_file_is_not(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    fewer = PolicySet(policies.policies[:1], policies.bindings)
    assert plan_of(lake, fewer).run_id != plan.run_id
    assert plan_of(lake, policies, kubernetes_version=(1, 33)).run_id != plan.run_id
    assert plan_of(lake, policies).run_id == plan.run_id


def one_more_event(cluster: Cluster, ingest: Ingest) -> None:
    cluster.events[:] = cluster.events[-1:]
    cluster.events[0]["auditID"] = "later"
    ingest(cluster)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_arrives_after_the_plan_belongs_to_a_later_run(
    cluster: Cluster, lake: Path, policies: PolicySet, ingest: Ingest, workers: int
) -> None:
    plan = plan_of(lake, policies, part_events=4)
    one_more_event(cluster, ingest)
    summary = run_replay(plan, lake, workers)
    assert (summary.planned, summary.evaluated) == (plan.requests, 24)
    later = plan_of(lake, policies, part_events=4)
    assert later.run_id != plan.run_id
    assert run_replay(later, lake, workers).evaluated == 25


def merged(lake: Path, later_seconds: float = 2 * GRACE_SECONDS) -> None:
    """Merge all files, and delete those of before, as if this much time had passed."""
    opened = Lake.open(lake)
    now_ts = datetime.now(UTC).timestamp()
    with opened.writer() as writer:
        compact(writer, now_ts, 1)
        remove_retired(writer, now_ts + later_seconds)
    opened.close()


def test_a_lake_whose_files_were_merged_is_replayed_from_the_merged_ones(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    merged(lake)
    assert plan.files is not None
    assert not plan.files.are_there()
    assert run_replay(plan, lake).evaluated == 24


def test_a_lake_that_grew_and_was_merged_since_the_plan_is_refused(
    cluster: Cluster, lake: Path, policies: PolicySet, ingest: Ingest
) -> None:
    plan = plan_of(lake, policies)
    bounded = plan_of(lake, policies, window=Window(until=cluster.start + timedelta(seconds=20)))
    one_more_event(cluster, ingest)
    merged(lake)
    with pytest.raises(LakeError, match="has changed since this replay was planned, and files of then are gone; plan it again"):
        run_replay(plan, lake)
    run_replay(bounded, lake)


def test_files_that_a_reader_holds_outlast_merging(cluster: Cluster, lake: Path, policies: PolicySet, ingest: Ingest) -> None:
    with hold_files(lake, datetime.now(UTC).timestamp()):
        plan = plan_of(lake, policies)
        one_more_event(cluster, ingest)
        merged(lake)
        assert run_replay(plan, lake).evaluated == 24
    merged(lake)
    assert plan.files is not None
    assert not plan.files.are_there()


NUMBERS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: numbers}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}}]}}
  validations: [{{expression: "{expression}"}}]
"""


@pytest.mark.parametrize("also", ["true", "oldObject == null || type(oldObject.spec.replicas) == double"])
def test_a_number_that_int64_cannot_hold_is_a_double_in_a_lane_and_in_the_general_way(
    also: str, cluster: Cluster, ingest: Ingest
) -> None:
    del cluster.events[1:]
    for verb in ("create", "update"):
        cluster.deployment(verb, "large", 10**19)
    text = NUMBERS.format(expression=f"type(object.spec.replicas) == double && {also.join('()')}")
    lake = ingest(cluster)
    plan = plan_of(lake, parse_policy_set([("case", text)]))
    run_replay(plan, lake)
    assert {(row["decision"], row["why"]) for row in verdicts(lake, plan)} == {("admit", None)}
