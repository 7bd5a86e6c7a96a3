"""Options come from the command line, the environment, or hindcast.toml; errors name file and line of a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from api.cli import COMMANDS, run
from api.commands.exemptions import ExemptionFormat
from api.configuration import FORMATS
from api.printing.output import Format
from api.printing.report_options import ReportFormat

POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
HEAVY = ("celpy", "duckdb", "fastapi", "jinja2", "numpy", "polars", "pyarrow", "structlog", "zstandard")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a configuration; and the user of this machine has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("HINDCAST_CONFIG", "HINDCAST_LAKE", "HINDCAST_OUTPUT"):
        monkeypatch.delenv(name, raising=False)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What standard error says after a command that ends with exit code 2."""
    assert run(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("place", ["hindcast.toml", "xdg/hindcast/hindcast.toml", "elsewhere.toml"])
def test_the_lake_is_the_options_then_the_environments_then_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('lake = "of-file"\n')
    if place == "elsewhere.toml":
        monkeypatch.setenv("HINDCAST_CONFIG", place)
    assert "of-file: there is no lake here" in complaint(capsys, "violations")
    monkeypatch.setenv("HINDCAST_LAKE", "of-environment")
    assert "of-environment: there is no lake here" in complaint(capsys, "violations")
    assert "of-option: there is no lake here" in complaint(capsys, "--lake", "of-option", "violations")
    assert "of-option: there is no lake here" in complaint(capsys, "violations", "--lake", "of-option")


def test_relative_paths_count_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "hindcast.toml").write_text('lake = "lake"\nrules = "rules.yaml"\n')
    monkeypatch.setenv("HINDCAST_CONFIG", "team/hindcast.toml")
    assert "team/lake: there is no lake here" in complaint(capsys, "violations")
    assert "team/rules.yaml" in complaint(capsys, "readiness", "-f", "policies.yaml")
    monkeypatch.setenv("HINDCAST_CONFIG", "")
    assert "hindcast-lake: there is no lake here" in complaint(capsys, "violations")


def test_the_output_is_the_options_then_the_environments_then_the_files(
    demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hindcast.toml").write_text('output = "yaml"\n[violations]\nby = ["policy"]\n')
    asked = ["violations", "-q", "--lake", str(demo_lake)]
    assert run(asked) == 0
    assert capsys.readouterr().out.startswith("failures:\n- policy: ")
    monkeypatch.setenv("HINDCAST_OUTPUT", "json")
    assert run([*asked, "--by", "user"]) == 0
    assert "user_name" in json.loads(capsys.readouterr().out)["failures"][0]
    assert run([*asked, "-o", "csv"]) == 0
    assert capsys.readouterr().out.startswith("policy,failures,")
    monkeypatch.delenv("HINDCAST_OUTPUT")
    # A format that only reports have is not a mistake of the other commands.
    (tmp_path / "hindcast.toml").write_text('output = "sarif"\n')
    assert run(asked) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lake = "x"\ncolour = true\n', "hindcast.toml:2: found the key 'colour', wanted one of lake"),
        ("[gaet]\nworkers = 1\n", "hindcast.toml:1: found the key 'gaet'"),
        ("\n[gate]\nworker = 1\n", "hindcast.toml:3: hindcast gate has no option --worker"),
        ('workers = 2\n[gate]\nworkers = "many"\n', "hindcast.toml:3: --workers is 'many'"),
        ("[gate]\nsince = 3\n", "hindcast.toml:2: --since is 3, wanted text"),
        ("kubernetes-version = 1.30\n", "hindcast.toml:1: --kubernetes-version is 1.3, wanted text; put it in quotes"),
        ("output = 'htm'\n", "hindcast.toml:1: output is 'htm', wanted one of table"),
        ("quiet = 1\n", "hindcast.toml:1: quiet is 1, wanted true or false"),
        ("lake = 1\n", "hindcast.toml:1: lake is 1, wanted the path"),
        ("a = 1\nlake = \n", "hindcast.toml:2: this is not TOML"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (tmp_path / "hindcast.toml").write_text(text)
    err = complaint(capsys, "gate", "-f", str(POLICIES))
    assert words in err
    assert err.count("\n") == 1


def test_a_file_that_is_named_and_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HINDCAST_CONFIG", "nothing-here.toml")
    assert "HINDCAST_CONFIG: nothing-here.toml is not a file" in complaint(capsys, "violations")


def test_settings_of_the_server_in_a_file_give_way_to_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hindcast.toml").write_text('[serve]\nhost = "0.0.0.0"\n')
    assert "0.0.0.0 can be reached" in complaint(capsys, "serve")
    monkeypatch.setenv("HINDCAST_HOST", "0.0.0.1")
    assert "0.0.0.1 can be reached" in complaint(capsys, "serve")
    assert "0.0.0.2 can be reached" in complaint(capsys, "serve", "--host", "0.0.0.2")


def test_every_format_may_be_the_usual_one() -> None:
    assert set(FORMATS) == {*map(str, Format), *map(str, ReportFormat)}
    assert {*map(str, ExemptionFormat)} - set(FORMATS) == {"manifests", "merge-patch", "json-patch"}


def test_the_version_names_the_lakes_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == "hindcast 0.1.0 (lake format 2)\n"


@pytest.mark.parametrize("environment", [{}, {"_CODE_COMPLETE": "complete_bash", "COMP_WORDS": "hindcast r", "COMP_CWORD": "1"}])
def test_help_and_completion_load_no_engine(environment: dict[str, str]) -> None:
    code = f"""\
import os, sys
os.environ.update({environment!r})
sys.argv[0] = "code"
from api.cli import run
run(["--help"])
print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "loaded:"
    assert (
        shown.splitlines()[:-1] == [name for name in COMMANDS if name.startswith("r")]
        if environment
        else all(name in shown for name in COMMANDS)
    )
