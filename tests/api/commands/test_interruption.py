"""Ctrl-C reaches every process of a terminal, at any moment, and so does what ends a job: one line, and the next goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from api.cli import EXIT_INTERRUPTED, run

POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
# Whoever runs the tests in the background may have SIGINT ignored.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from api.cli import main
print("loaded", flush=True)
main()
"""


@pytest.mark.parametrize(
    ("number", "seconds"),
    [(signal.SIGINT, 0.3), (signal.SIGINT, 0.8), (signal.SIGTERM, 1.3), (signal.SIGINT, 2.0)],
)
def test_a_replay_is_interrupted_without_a_traceback(demo_lake: Path, tmp_path: Path, number: int, seconds: float) -> None:
    lake = shutil.copytree(demo_lake, tmp_path / "lake")
    command = ["--quiet", "--lake", str(lake), "replay", "-f", str(POLICIES), "--workers", "2"]
    program = [sys.executable, "-c", PROGRAM, *command]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as interrupted:
        assert interrupted.stdout is not None
        assert interrupted.stdout.readline() == "loaded\n"
        time.sleep(seconds)
        os.killpg(interrupted.pid, number)
        _, complaint = interrupted.communicate()
    said = "hindcast: interrupted; finished parts stay: run the command again to go on\n"
    assert (interrupted.returncode, complaint) in [(EXIT_INTERRUPTED, said), (0, "")]
    assert run([*command[:-2]]) == 0
