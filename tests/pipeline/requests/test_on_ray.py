"""Runs on a cluster equal local ones byte for byte, whatever dies, and workers with another lake or other code are refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.on_ray import connected
from ingest.errors import LakeError, UnfinishedError
from ingest.lake import Lake
from ingest.maintain import GRACE_SECONDS, compact, remove_retired
from pipeline.policies.model import PolicySet
from pipeline.requests.slices import slices_of
from pipeline.requests.tasks import JudgeSlice
from pipeline.requests.worker import Replayer
from pipeline.runs import RunStore
from pipeline.runs.apart import code_name, make_part, order_of
from pipeline.runs.executors import Job
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.plan import ReplayPlan
from queries import open_lake
from tests.ray_cluster import killing, left_with, running_cluster

from ..contract.lakes import NAMES, lake_of, log_lines, made
from .conftest import CASES
from .test_replay_run import files, plan_of

_COMMAND = "from api.cli import main; main()"
POLICIES = str(CASES / "policies.yaml")


@pytest.fixture(scope="module")
def on() -> Iterator[str]:
    with running_cluster() as cluster:
        yield cluster.address


def local_run(lake: Path, plan: ReplayPlan) -> dict[str, bytes]:
    """The files of the run as this process makes it; the lake is then as it was before."""
    run_replay(plan, lake)
    folder = RunStore(lake).run(plan.run_id).folder
    found = files(folder)
    forget(lake, plan)
    return found


def forget(lake: Path, plan: ReplayPlan) -> None:
    shutil.rmtree(RunStore(lake).run(plan.run_id).folder)
    shutil.rmtree(lake / "derived", ignore_errors=True)


def test_a_run_on_a_cluster_equals_a_local_one(on: str, lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=5)
    folder, whole = RunStore(lake).run(plan.run_id).folder, local_run(lake, plan)
    seen: list[int] = []
    with connected(on, None) as executor:
        run_replay(plan, lake, progress=lambda done, planned: seen.append(done), executor=executor)
        assert files(folder) == whole
        assert seen == sorted(seen)
        assert seen[-1] == plan.requests
        shutil.rmtree(folder)
        run_replay(plan, lake, executor=executor)  # with the kept history
        assert files(folder) == whole


def test_every_stage_runs_on_a_cluster_as_it_runs_here(on: str, tmp_path: Path) -> None:
    lake = lake_of([log_lines()], tmp_path)
    names = [name for name in NAMES if name != "validating"]
    here = {name: made(name, lake) for name in names}
    for each in here.values():
        shutil.rmtree(RunStore(lake).run(each.plan.run_id).folder)
    with connected(on, None) as executor:
        for name in names:
            units = executor.traffic.units  # type: ignore[attr-defined]  # Ray's executor counts them, and the protocol has no counts
            assert made(name, lake, executor=executor).content == here[name].content
            assert executor.traffic.units > units  # type: ignore[attr-defined]


def test_a_worker_that_is_killed_in_a_unit_changes_nothing(on: str, lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=5)
    whole = local_run(lake, plan)
    with connected(on, 2) as executor, killing("slice-000000", 1) as killed:
        run_replay(plan, lake, executor=executor)
    assert len(killed) == 1
    assert files(RunStore(lake).run(plan.run_id).folder) == whole


def test_a_unit_that_always_kills_its_worker_is_named(on: str, lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies, part_events=5)
    whole = local_run(lake, plan)
    # One worker at a time: each begins with loading the code, so it is always seen in time.
    with connected(on, 1) as executor, killing("slice-000000", 99) as killed, pytest.raises(UnfinishedError) as caught:
        run_replay(plan, lake, executor=executor)
    assert len(killed) == 3
    assert caught.value.exit_code == 4
    assert "3 workers died at the same unit" in str(caught.value)
    assert str(caught.value.message).endswith(": slice-000000")
    unfinished = RunStore(lake).run(plan.run_id)
    assert unfinished.summary is None
    assert len(list(unfinished.parts.glob("slice-*[0-9]"))) == 4  # the other units are done
    run_replay(plan, lake)
    assert files(unfinished.folder) == whole


def test_two_drivers_on_one_run_make_it_once(on: str, lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    whole = local_run(lake, plan)
    command = [sys.executable, "-c", _COMMAND, "-q", "--lake", str(lake), "replay", "-f", POLICIES]
    drivers = [
        subprocess.Popen([*command, "--on", on, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(*driver.communicate(), driver.returncode) for driver in drivers]
    assert [(error, code) for _, error, code in ended] == [("", 0), ("", 0)]
    assert ended[0][0] == ended[1][0]
    found = files(RunStore(lake).run(plan.run_id).folder)
    assert {name: found[name] for name in whole if not name.startswith("made-as")} == {
        name: content for name, content in whole.items() if not name.startswith("made-as")
    }


def test_a_worker_with_another_lake_or_other_code_is_refused(
    on: str, cluster: Any, ingest: Callable[[Any], Path], policies: PolicySet, tmp_path: Path
) -> None:
    lake = ingest(cluster)
    plan = plan_of(lake, policies)
    with closing(open_lake(lake, threads=1, files=plan.files)) as reader:
        job = Job(plan, reader, lake, tmp_path, tmp_path, Replayer, lambda: Replayer(plan, reader))
        order = order_of(job)
        unit = pickle.dumps(JudgeSlice(slices_of(reader.files.events, plan.window, plan.part_events)[0]))
    cluster.deployment("create", "later", 1)
    del cluster.events[:-1]
    ingest(cluster)
    opened = Lake.open(lake)
    with opened.writer() as writer:
        compact(writer, now := 1e10)
        remove_retired(writer, now + 2 * GRACE_SECONDS)
    opened.close()
    with connected(on, 1):
        import ray

        do = ray.remote(max_retries=0)(make_part)
        with pytest.raises(LakeError, match=r"this worker cannot read the lake of the plan: .*; give every node the present lake"):
            ray.get(do.remote(code_name(), order, {}, {}, unit))
        with pytest.raises(LakeError, match=r"this worker has code .*; the driver has code of yesterday; install the same"):
            ray.get(do.remote("code of yesterday", order, {}, {}, unit))


def test_a_worker_that_sees_other_content_is_refused(
    on: str, cluster: Any, ingest: Callable[[Any], Path], policies: PolicySet, tmp_path: Path
) -> None:
    lake = ingest(cluster)
    plan = plan_of(lake, policies)
    assert plan.files is not None
    with closing(open_lake(lake, threads=1, files=plan.files)) as reader:
        order = order_of(Job(plan, reader, lake, tmp_path, tmp_path, Replayer, lambda: Replayer(plan, reader)))
        unit = pickle.dumps(JudgeSlice(slices_of(reader.files.events, plan.window, plan.part_events)[0]))
    cluster.deployment("create", "later", 1)
    del cluster.events[:-1]
    ingest(cluster)
    (file,) = plan.files.events
    (other,) = {str(path) for path in (lake / "events").rglob("*.parquet") if path.name != "_empty.parquet"} - {file}
    shutil.copy(other, file)
    with connected(on, 1):
        import ray

        with pytest.raises(LakeError, match=r"this worker sees a lake with digest .*; the plan needs "):
            ray.get(ray.remote(max_retries=0)(make_part).remote(code_name(), order, {}, {}, unit))


def test_an_address_without_ray_is_an_error_with_the_next_step(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, found in (
        ("ray://127.0.0.1:1", "no answer from 127.0.0.1:1"),
        ("127.0.0.1:1", "no answer"),
        ("spark", "not a place"),
    ):
        assert run(["-q", "--lake", str(lake), "replay", "-f", POLICIES, "--on", place]) == 2
        said = capsys.readouterr().err
        assert f"--on {place}: {found}" in said
        assert "; " in said


def test_without_the_extra_the_next_step_is_named(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as Python sees a package that is not installed
    assert run(["-q", "--lake", str(lake), "replay", "-f", POLICIES, "--on", "ray"]) == 2
    assert "install the extra: pip install 'kube-hindcast[ray]'" in capsys.readouterr().err


def test_ray_of_this_machine_ends_with_the_command(lake: Path, policies: PolicySet) -> None:
    plan = plan_of(lake, policies)
    whole = local_run(lake, plan)
    command = [sys.executable, "-c", _COMMAND, "-q", "--lake", str(lake), "replay", "-f", POLICIES, "--on", "ray"]
    place = tempfile.mkdtemp(prefix="ray-")  # names of sockets may not be long
    environment = {**os.environ, "TMPDIR": place, "HOME": place}
    ended = subprocess.run([*command, "--workers", "1", "-o", "json"], capture_output=True, text=True, check=False, env=environment)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert json.loads(ended.stdout)
    assert left_with(place) == []
    Path(place).rmdir()  # it is empty again
    found = files(RunStore(lake).run(plan.run_id).folder)
    assert found["verdicts.parquet"] == whole["verdicts.parquet"]
    assert found["summary.json"] == whole["summary.json"]
