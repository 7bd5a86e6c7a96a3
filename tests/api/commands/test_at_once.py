"""Commands that are started at once over one lake say what each says alone, and none ends badly or waits for ever."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.runs import RunStore
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set
from pipeline.stages.validating.plan import ReplayPlan
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.api.conftest import DEMO

CASES = Path(__file__).parents[2] / "cases" / "at_once"
COMMANDS: dict[str, list[str]] = yaml.safe_load((CASES / "commands.yaml").read_text())
EVENTS = 60
TOGETHER = 4
SECONDS_MAX = 300.0

# Loads all commands, and starts the asked ones in processes of their own, as so many shells would. What is loaded stays to the end:
# no started process need search it for cycles, which would take as long as most commands.
_PROGRAM = """
import gc, json, os, sys
import api.cli
from api.stages import OF_STAGES
for name in api.cli.COMMANDS:
    __import__("api." + OF_STAGES.get(name, "commands." + name.replace("-", "_")))
gc.collect()
gc.freeze()
folder, commands = json.load(sys.stdin)
started = []
for number, arguments in enumerate(commands):
    started.append(os.fork())
    if not started[-1]:
        for handle, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{number}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
        sys.argv[1:] = arguments
        api.cli.main()
        sys.exit(0)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]))
"""


class Said(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    output: str
    complaint: str


@pytest.fixture(scope="module")
def small_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A share of the bundled log: the requests on which policies had something to say, and some of the others."""
    folder = tmp_path_factory.mktemp("small")
    lines = zstandard.ZstdDecompressor().stream_reader((DEMO / "audit.jsonl.zst").read_bytes()).read().splitlines()
    judged = [line for line in lines if b"validation_failure" in line or b"admissionregistration" in line]
    chosen = dict.fromkeys((*judged[:EVENTS], *lines[:: len(lines) // EVENTS]))
    (folder / "audit.jsonl").write_bytes(b"\n".join(chosen) + b"\n")
    lake = Lake.create(folder / "lake")
    ingest_files(lake, [folder / "audit.jsonl"], "demo", 1.0)
    lake.close()
    return folder / "lake"


def at_once(lake: Path, folder: Path, places: Sequence[tuple[str, str]]) -> list[Said]:
    """What commands say that start at once: pairs of a place, which gets a fresh copy of a lake, and the name of a command."""
    shutil.rmtree(folder, ignore_errors=True)
    commands = []
    for place, name in places:
        if not (folder / place).exists():
            shutil.copytree(lake, folder / place / "lake")
        words = {"POLICIES": str(DEMO / "policies"), "HERE": str(CASES)}
        asked = ["/".join(words.get(part, part) for part in word.split("/")) for word in COMMANDS[name]]
        commands.append(["--lake", str(folder / place / "lake"), *asked])
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        try:
            codes, _ = program.communicate(json.dumps([str(folder), commands]), timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            raise
    found = []
    for number, (code, (place, _)) in enumerate(zip(json.loads(codes), places, strict=True)):
        output, complaint = ((folder / f"{number}.{ending}").read_text() for ending in ("out", "err"))
        found.append(Said(code, output.replace(str(folder / place), "FOLDER"), complaint))
    return found


@pytest.fixture(scope="module")
def alone(small_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """What each command says over a lake of its own."""
    folder = tmp_path_factory.mktemp("alone") / "now"
    at_once(small_lake, folder, [("first", "policy cost")])  # it makes what this user's processes share
    said = at_once(small_lake, folder, [(f"place {number}", name) for number, name in enumerate(COMMANDS)])
    found = dict(zip(COMMANDS, said, strict=True))
    assert {name: said for name, said in found.items() if said.code not in (0, 1, 3) or "Traceback" in said.complaint} == {}
    return found


def check(lake: Path, folder: Path, places: Sequence[tuple[str, str]], alone: dict[str, Said]) -> None:
    for (_, name), said in zip(places, at_once(lake, folder, places), strict=True):
        assert "Traceback" not in said.complaint, f"{name}: {said.complaint}"
        assert said[:2] == alone[name][:2], f"{name}: {said.complaint}"
    left = [path.name for path in folder.glob("*/lake/runs/**/*") if path.suffix in (".tmp", ".lock", ".taken")]
    assert left == []


@pytest.mark.parametrize("first", range(0, len(COMMANDS), TOGETHER))
def test_every_command_is_started_thrice_over_one_lake(
    first: int, small_lake: Path, alone: dict[str, Said], tmp_path: Path
) -> None:
    """A few commands at a time: those that need the same run race for it, too."""
    names = [*COMMANDS][first : first + TOGETHER]
    check(small_lake, tmp_path / "now", [("one", name) for name in names for _ in range(3)], alone)


def test_every_pair_of_commands_is_started_at_once_over_one_lake(small_lake: Path, alone: dict[str, Said], tmp_path: Path) -> None:
    check(small_lake, tmp_path / "now", [("one", name) for name in COMMANDS], alone)


# The rest: an owner of a run that stops, in a process of its own. It works with a second process, as replays do.
_OWNER = """
import sys, time
from pathlib import Path
from pipeline import load_policy_set, plan_replay, run_replay
from queries import open_lake

def stop(done, planned):
    print("begun", flush=True)
    time.sleep(600)

lake = sys.argv[1]
reader = open_lake(lake)
plan = plan_replay(reader, load_policy_set([Path(sys.argv[2])]), part_events=5)
reader.close()
run_replay(plan, lake, workers=2, progress=stop)
"""
_WAITER = """
from ingest.owning import telling_waits
telling = telling_waits(lambda said: print(said, flush=True))
telling.__enter__()
""" + _OWNER.replace("progress=stop", "progress=None")


def plan_of(lake: Path) -> ReplayPlan:
    reader = open_lake(lake)
    try:
        return plan_replay(reader, load_policy_set([DEMO / "policies"]), part_events=5)
    finally:
        reader.close()


@contextmanager
def started(program: str, lake: Path, first: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a process of its own, from its first line on."""
    command = [sys.executable, "-c", program, str(lake), str(DEMO / "policies")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert first in process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_waits_for_a_run_goes_on_when_its_owner_ends(number: signal.Signals, small_lake: Path, tmp_path: Path) -> None:
    lake = shutil.copytree(small_lake, tmp_path / "lake")
    run = RunStore(lake).run(plan_of(lake).run_id)
    with (
        started(_OWNER, lake, "begun") as owner,
        started(_WAITER, lake, f"waits for process {owner.pid}, which makes run") as waiter,
    ):
        assert waiter.poll() is None
        owner.send_signal(number)
        _, complaint = waiter.communicate()
        assert (waiter.returncode, complaint) == (0, "")
    assert run.summary is not None
    assert sorted(path.name for path in run.folder.iterdir()) == ["made-as-replay", "plan.json", "summary.json", "verdicts.parquet"]


def test_who_waits_can_be_interrupted_and_the_owner_keeps_its_run(small_lake: Path, tmp_path: Path) -> None:
    lake = shutil.copytree(small_lake, tmp_path / "lake")
    with started(_OWNER, lake, "begun") as owner:
        with started(_WAITER, lake, "waits for process") as waiter:
            began = time.monotonic()
            waiter.send_signal(signal.SIGINT)
            waiter.communicate()
            assert waiter.returncode != 0
            assert time.monotonic() - began < 30
        assert owner.poll() is None
        assert RunStore(lake).run(plan_of(lake).run_id).remove() is None  # a run with an owner stays


def test_a_run_that_is_complete_is_read_in_a_lake_that_may_only_be_read(small_lake: Path, tmp_path: Path) -> None:
    lake = shutil.copytree(small_lake, tmp_path / "lake")
    plan = plan_of(lake)
    first = run_replay(plan, lake)
    folders: list[Any] = [lake, *(path for path in lake.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert run_replay(plan, lake) == first
    finally:
        for folder in folders:
            folder.chmod(0o755)
