"""A name that two clusters share: every command that judges under it says so, and does its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli import run
from tests.recording import FEW_REPLICAS, START, deployment, recorded, take_in


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for number in (1, 2):
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": f"uid-{number}"}}
        events = [
            recorded(f"{number}-{at}", START, "create", obj) for at, obj in enumerate((system, deployment(f"web-{number}", 1)))
        ]
        take_in(tmp_path / "lake", events, f"{number}.jsonl")
    (tmp_path / "p.yaml").write_text(FEW_REPLICAS)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "command", [["violations"], ["doctor"], ["replay", "-f", "p.yaml"], ["calibrate"], ["policy", "check", "-f", "p.yaml"]]
)
def test_commands_tell_of_it(
    lake: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    run(["--lake", str(lake), "-q", *command])
    assert capsys.readouterr().err.count("two clusters share the name lab: namespace kube-system") == 1
