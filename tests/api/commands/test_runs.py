"""Runs of a lake: each says what it was made for, the newest version speaks for a policy, and what is not wanted can be removed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.beside_runs import Label, keep_label
from api.cli import run as hindcast
from api.pages.newest import newest, unspoken
from api.settings import Settings
from api.stored_runs import Run, runs
from pipeline.policies.verdict import STAGE
from pipeline.runs import RunKind, RunStore
from tests.querying import QueryClient
from tests.recording import Log, deployment, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= %d}]
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    log = Log()
    for number in range(4):
        log.write("create", deployment(f"web-{number}", number))
    for most in (1, 2):
        (tmp_path / f"{most}.yaml").write_text(POLICY % most, encoding="utf-8")
    return take_in(tmp_path / "lake", log.lines)


@pytest.fixture
def asked(lake: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command over the lake; returns its exit code, and its output as JSON where there is some."""

    def ask(*arguments: object) -> tuple[int, Any]:
        code = hindcast(["--quiet", "--lake", str(lake), *map(str, arguments)])
        text = capsys.readouterr().out
        return code, json.loads(text) if text.startswith("{") else text

    return ask


def listed(asked: Callable[..., Any]) -> dict[str, str]:
    code, found = asked("runs", "-o", "json")
    assert code == 0
    return {row["run_id"]: row["kind"] for row in found["runs"]}


def test_a_run_says_what_it_was_made_for_and_a_replay_stays_one(asked: Callable[..., Any], lake: Path) -> None:
    new, old = lake.with_name("2.yaml"), lake.with_name("1.yaml")
    assert asked("replay", "-f", new, "--against", old, "--workers", 1)[0] == 0
    assert sorted(listed(asked).values()) == ["base", "replay"]
    assert asked("calibrate", "--workers", 1)[0] == 0
    assert sorted(listed(asked).values()) == ["base", "calibration", "replay"]
    assert asked("replay", "-f", old, "--workers", 1)[0] == 0
    assert sorted(listed(asked).values()) == ["calibration", "replay", "replay"]
    code, shown = asked("runs", "show", next(iter(listed(asked))), "-o", "json")
    assert code == 0
    assert {row["policy"] for row in shown["bindings"]} <= {"limit"}


def test_a_run_is_removed_by_its_id_or_age_unless_it_is_in_use(asked: Callable[..., Any], lake: Path) -> None:
    for most in (1, 2):
        asked("replay", "-f", lake.with_name(f"{most}.yaml"), "--workers", 1)
    first, second = listed(asked)
    with RunStore(lake).run(first).in_use():
        code, removed = asked("runs", "rm", first, second, "-o", "json")
    assert code == 2
    assert [row["run_id"] for row in removed["removed"]] == [second]
    assert removed["removed"][0]["bytes"] > 0
    assert list(listed(asked)) == [first]
    assert asked("runs", "rm", "--before", "1d", "-o", "json")[1]["removed"] == []
    mark = lake / "runs" / first / "made-as-replay"
    os.utime(mark, (0, 0))
    keep_label(lake, first, Label("first try", is_kept=True))
    assert asked("runs", "rm", "--before", "1d", "-o", "json")[1]["removed"] == []
    keep_label(lake, first, Label())
    assert asked("runs", "rm", "--before", "1d")[0] == 0
    assert list((lake / "runs").iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["rm"], ["show"], ["rm", "../.."], ["rm", "0" * 16], ["list", "0" * 16], ["list", "--before", "1d"]]
)
def test_a_mistake_removes_nothing(asked: Callable[..., Any], lake: Path, arguments: list[str]) -> None:
    asked("replay", "-f", lake.with_name("1.yaml"), "--workers", 1)
    assert asked("runs", *arguments)[0] == 2
    assert len(listed(asked)) == 1


def test_a_run_is_removed_over_http_unless_it_is_in_use(asked: Callable[..., Any], lake: Path) -> None:
    asked("replay", "-f", lake.with_name("1.yaml"), "--workers", 1)
    (run_id,) = listed(asked)
    with QueryClient(Settings(lake=lake)) as client:
        assert client.get(f"/runs/{run_id}")["kind"] == "replay"
        with RunStore(lake).run(run_id).in_use():
            refused = client.send("DELETE", f"/runs/{run_id}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
        removed = client.send("DELETE", f"/runs/{run_id}")
        assert (removed.status_code, removed.json()["run_id"]) == (200, run_id)
        assert client.send("DELETE", f"/runs/{run_id}").status_code == 404
        assert client.get("/runs")["rows"] == []


START = datetime(2026, 11, 1, tzinfo=UTC)
REPLAY = Run("0" * 16, "validating", True, "replay", START, START, "1.36", None, None, ("limit",), {"limit": "a"}, 9, None)


def at(hour: int, **given: Any) -> Run:
    moment = START + timedelta(hours=hour)
    return replace(REPLAY, run_id=f"{hour:016x}", planned_ts=moment, asked_ts=moment, **given)


@pytest.mark.parametrize(
    ("later", "speaks"),
    [
        pytest.param({"versions": {"limit": "b"}}, 2, id="a newer version"),
        pytest.param({"since": START}, 1, id="a part of the log after the whole of it"),
        pytest.param({"until": START}, 1, id="an older part"),
        pytest.param({"versions": {"limit": "b"}, "since": START}, 2, id="a part of the log with a newer version"),
        pytest.param({"kind": "base", "versions": {"limit": "b"}}, 1, id="a version before"),
        pytest.param({"kind": "calibration"}, 1, id="a calibration"),
        pytest.param({"finished": False}, 1, id="an unfinished one"),
    ],
)
def test_the_newest_version_over_the_whole_log_speaks_for_a_policy(later: dict[str, Any], speaks: int) -> None:
    (chosen,) = newest([at(2, **later), at(1)])
    assert chosen.run.run_id == f"{speaks:016x}"
    assert len(chosen.others) == (0 if "kind" in later or "finished" in later else 1)


def test_no_policy_vanishes_however_many_runs_came_after_it() -> None:
    many = [at(hour, policies=(f"policy-{hour}",), versions={}) for hour in range(40)]
    assert len(newest(many)) == 40
    only = [at(1, kind="base", policies=("before",)), at(2, finished=False, policies=("begun",)), at(3)]
    assert unspoken(only, newest(only)) == ["before", "begun"]


def test_a_run_without_marks_counts_as_its_plan_says(asked: Callable[..., Any], lake: Path) -> None:
    asked("replay", "-f", lake.with_name("1.yaml"), "--workers", 1)
    asked("calibrate", "--workers", 1)
    for mark in (lake / "runs").glob("*/made-as-*"):
        mark.unlink()
    assert sorted(found.kind for found in runs(lake)) == sorted([RunKind.CALIBRATION, RunKind.REPLAY])


def test_a_run_from_before_there_were_stages_is_listed(asked: Callable[..., Any], lake: Path) -> None:
    assert asked("replay", "-f", lake.parent / "1.yaml", "--workers", 1)[0] == 0
    (plan,) = (lake / "runs").glob("*/plan.json")
    document = json.loads(plan.read_text())
    assert document.pop("stage")
    plan.write_text(json.dumps(document))
    assert set(listed(asked).values()) == {"replay"}
    (found,) = runs(lake)
    assert found.stage == STAGE


def test_a_run_of_another_stage_does_not_speak_for_a_policy() -> None:
    chosen = newest([at(1), at(2, stage="authorization")])
    assert [(each.run.stage, each.run.run_id, len(each.others)) for each in chosen] == [
        ("authorization", f"{2:016x}", 0),
        ("validating", f"{1:016x}", 0),
    ]
