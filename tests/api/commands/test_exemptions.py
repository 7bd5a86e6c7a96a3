"""`hindcast exemptions` over the bundled log: what it prints can be applied, and then nothing is denied."""

from __future__ import annotations

import json
import shlex
import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from api.cli import EXIT_IN_PART, run
from api.commands.exemptions import parse_expiry
from ingest.errors import InputError
from pipeline.cel.defects import DEFECT
from tests.yaml_text import load_yaml_all

POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"


@pytest.fixture(scope="module")
def lake(calibrated_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exemptions") / "lake"
    shutil.copytree(calibrated_lake, path)
    return path


def test_a_defect_in_a_replay_with_exemptions_is_no_success(
    calibrated_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The patched policies were replayed before; what the summary of that run says of defects is what the command tells."""
    lake, patched = tmp_path / "lake", tmp_path / "patched.yaml"
    shutil.copytree(calibrated_lake, lake)
    start = ["-q", "--lake", str(lake)]
    ask = [*start, "exemptions", "-f", str(POLICY), "--review-by", "2027-01-31", "--workers", "1"]
    assert run([*ask, "-o", "manifests"]) == 0
    patched.write_text(capsys.readouterr().out)
    before = set((lake / "runs").iterdir())
    assert run([*start, "replay", "-f", str(patched), "--workers", "1"]) == 0
    (folder,) = set((lake / "runs").iterdir()) - before
    summary = json.loads((folder / "summary.json").read_text())
    summary["defects"] = [{"policy": "deny-external-ips", "why": f"{DEFECT}: ValueError: x", "requests": 3}]
    (folder / "summary.json").write_text(json.dumps(summary))
    capsys.readouterr()
    assert run(ask) == EXIT_IN_PART
    assert f"policy deny-external-ips could not be judged in 3 requests: {DEFECT}: ValueError: x" in capsys.readouterr().err


def test_what_is_printed_can_be_applied(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["-q", "--lake", str(lake)]
    ask = [*start, "exemptions", "-f", str(POLICY), "--review-by", "2027-01-31", "--workers", "1"]
    assert run([*ask, "-o", "manifests"]) == 0
    patched = tmp_path / "patched.yaml"
    patched.write_text(capsys.readouterr().out)
    assert run([*start, "replay", "-f", str(patched), "-o", "json", "--workers", "1"]) == 0
    (binding,) = json.loads(capsys.readouterr().out)["bindings"]
    assert binding["deny"] == 0
    assert binding["matched"] > 0
    # A new Service is denied almost every day: exemptions from the earlier half of the time do not fit the later half.
    assert run([*ask, "-o", "json", "--exit-code"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["left"] == [{"policy": "deny-external-ips", "denied": 0, "unknown": 0, "exempt": 10}]
    assert [(row["workloads"], row["workloads_denied"]) for row in shown["later"]] == [(30, 5)]
    assert all(row["who"].startswith("anyone who may write services in namespace") for row in shown["exemptions"])
    assert {row["review_by"] for row in shown["exemptions"]} == {"2027-01-31"}
    assert run([*ask, "-o", "merge-patch"]) == 0
    printed = capsys.readouterr().out
    (patch,) = load_yaml_all(printed)
    assert patch["metadata"]["name"] == "deny-external-ips"
    # Each patch has its command, because kubectl takes one patch at a time.
    (command,) = (shlex.split(line[2:]) for line in printed.splitlines() if line.startswith("# "))
    assert command[:5] == ["kubectl", "patch", patch["kind"].lower(), "deny-external-ips", "--type=merge"]
    assert json.loads(command[-1]) == patch
    assert "validationActions" not in patch["spec"]
    assert run([*ask, "-o", "json-patch"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert [operation["op"] for operation in entry["patch"]] == ["add", "add"]
    # Every one of them is needed, and none is to be reviewed yet.
    assert run([*start, "exemptions", "--check", "-f", str(patched), "-o", "json", "--workers", "1", "--exit-code"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["need"] for row in found["present"]} == {"needed"}
    assert "overdue" not in found
    assert run([*start, "readiness", "--check-exemptions", "-f", str(patched), "-o", "json", "--workers", "1", "--exit-code"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_bad_questions_are_named(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["-q", "--lake", str(lake), "exemptions", "-f", str(POLICY)]
    assert run([*start, "--expires", "soon"]) == 2
    assert "--review-by: 'soon' is not a day" in capsys.readouterr().err
    assert run([*start, "--since", "1h"]) == 3
    assert "no request lies in the window" in capsys.readouterr().err
    assert run([*start, "--check", "-o", "manifests"]) == 2
    assert "--check-exemptions has no output manifests" in capsys.readouterr().err


def test_an_expiry_is_a_day_or_days_from_now() -> None:
    today = datetime(2026, 11, 21, tzinfo=UTC).date()
    assert parse_expiry("10d", today) == date(2026, 12, 1)
    with pytest.raises(InputError):
        parse_expiry("10", today)
