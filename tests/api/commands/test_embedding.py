"""A caller of the command line may replace or close standard input, output and errors: no file of a lake gets their numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.lake import MANIFEST, Lake
from tests.recording import START, deployment, recorded, take_in

# Every command that opens a lake, with what it needs to get so far.
COMMANDS = (
    "least-privilege --unused -o json", "violations -o json", "doctor -o json", "runs", "compact", "pod-security", "calibrate",
    "quarantine", "explain id-1", "webhooks", "sql SELECT", "expire --before 1d --plan", "replay -f -", "ingest - --cluster lab",
)  # fmt: skip
_SCRIPT = """
import io, os, sys
lake, how, *commands = sys.argv[1:]
from api.cli import main
for text in commands:
    if how == "file":
        sys.stdout = open(os.devnull, "w")
    elif how == "memory":
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(""), io.StringIO(), io.StringIO()
    elif how == "closed":
        sys.stdout.close()
    elif how == "none":
        sys.stdin = sys.stdout = sys.stderr = None
    sys.argv = ["hindcast", "--lake", lake, *text.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code in (0, 1, 2, 3), (text, end.code)
    with open(os.path.join(lake, "manifest.sqlite"), "rb") as manifest:
        assert manifest.read(15) == b"SQLite format 3", text
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding")
    return take_in(folder / "lake", [recorded("id-1", START, "create", deployment("web", 1))])


@pytest.mark.parametrize("how", ["file", "memory", "closed", "none"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_replaced_output_is_not_the_lake(how: str, lake: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(own), how, *COMMANDS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("command", ["replay -f -", "violations", "doctor"])
def test_a_closed_descriptor_is_no_traceback(number: int, command: str, lake: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    words = [sys.executable, "-c", "from api.cli import main; main()", "--lake", str(own), *command.split()]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {number}>&-', "sh", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 2, 3), done.stderr[-2_000:]
    assert "Traceback" not in done.stderr
    assert (own / MANIFEST).read_bytes()[:15] == b"SQLite format 3"


# Commands that a person runs over a lake. Nothing of theirs may end in a traceback, and 1 is what a gate says.
_WITHOUT_RIGHTS = (
    "readiness -f {policies}", "gate -f {policies}", "replay -f {policies}", "exemptions -f {policies}",
    "watch --once -f {policies}",
    "fleet readiness -f {policies}", "doctor", "sql SELECT", "violations", "explain id-1", "ingest {policies} --cluster c",
    "runs", "compact", "expire --before 1d", "calibrate", "least-privilege --unused", "quarantine", "pod-security", "webhooks",
    "serve",
)  # fmt: skip
_POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; CI runs these as a user without rights")
@pytest.mark.parametrize("command", _WITHOUT_RIGHTS)
def test_no_right_to_read_a_lake_is_one_line(command: str, lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "private"
    shutil.copytree(lake, folder / "lake")
    folder.chmod(0)
    try:
        words = [sys.executable, "-c", "from api.cli import main; main()", "--lake", str(folder / "lake")]
        done = subprocess.run(
            [*words, *command.format(policies=_POLICIES).split()], capture_output=True, text=True, check=False, timeout=60
        )
    finally:
        folder.chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hindcast: ")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; CI runs these as a user without rights")
@pytest.mark.parametrize("where", ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"])
def test_a_home_that_is_somebody_elses_stops_no_command(where: str, lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0)
    words = [sys.executable, "-c", "from api.cli import main; main()", "--lake", str(lake), "violations"]
    environment = {name: text for name, text in os.environ.items() if name not in ("HINDCAST_CONFIG", "XDG_CACHE_HOME")}
    done = subprocess.run(words, env=environment | {where: str(folder)}, capture_output=True, text=True, check=False)
    folder.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lake_of_these_tests_is_one(lake: Path) -> None:
    Lake.open(lake).close()
