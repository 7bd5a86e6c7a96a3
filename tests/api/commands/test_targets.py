"""Files and folders to write to: a command refuses unusable ones before it begins to work."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli import run
from api.printing.targets import check_file, check_folder

POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"


@pytest.mark.parametrize("command", ["gate", "readiness"])
@pytest.mark.parametrize(
    ("option", "name", "found"),
    [
        (
            "--report-file",
            "out/report.xml",
            "cannot be written: the folder {0}/out does not exist; make it first: mkdir -p {0}/out",
        ),
        ("--report-file", "taken/report.xml", "cannot be written: the folder {0}/taken is not a folder"),
        ("--report-file", "folder.md", "{0}/folder.md is a folder, wanted a file"),
        ("--report-file", "report.pdf", "report.pdf ends in .pdf; use one of"),
        ("--export", "taken/tables", "cannot be written: {0}/taken is not a folder"),
    ],
)
def test_an_unusable_target_is_refused_before_the_work(
    command: str, option: str, name: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    (tmp_path / "folder.md").mkdir()
    # There is no lake: whatever asks one fails with another error.
    assert run(["--lake", str(tmp_path / "none"), command, "-f", str(POLICY), option, str(tmp_path / name)]) == 2
    assert found.format(tmp_path) in capsys.readouterr().err


def test_init_and_watch_refuse_their_targets_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    assert run(["init", "--out", str(taken / "out")]) == 2
    assert f"--out: {taken / 'out'} cannot be written: {taken} is not a folder" in capsys.readouterr().err
    # There is no lake: whatever asks one fails with another error.
    watch = ["--lake", str(tmp_path / "none"), "watch", "-f", str(POLICY), "--cursor"]
    assert run([*watch, str(taken / "made" / "cursor.json")]) == 2
    assert f"the folder {taken} is not a folder" in capsys.readouterr().err
    assert run([*watch, str(tmp_path / "made" / "cursor.json")]) == 2
    assert "there is no lake here" in capsys.readouterr().err


def test_usable_targets_pass(tmp_path: Path) -> None:
    check_file("--report-file", tmp_path / "new.md")
    (tmp_path / "old.md").write_text("")
    check_file("--report-file", tmp_path / "old.md")
    check_folder("--export", tmp_path)
    check_folder("--export", tmp_path / "made" / "on" / "demand")
