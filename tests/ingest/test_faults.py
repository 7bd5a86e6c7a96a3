"""A system call fails, is done by half, or is the last before the power goes: nothing acknowledged is lost, nothing is there twice.

This is a sample; `make crash` walks every fault through every call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.scenarios import SCENARIOS
from tests.crash.syscalls import unavailable

TRIES, PAIRS = 5, 2


def test_a_fault_at_a_system_call_loses_nothing_and_stores_nothing_twice(tmp_path: Path) -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    # In a process that has no threads yet: its children are forked.
    command = [sys.executable, "-m", "tests.crash", "walk", "--tries", str(TRIES), "--pairs", str(PAIRS), "--folder", str(tmp_path)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    walked = json.loads(ended.stdout)
    assert walked["lives"] == len(SCENARIOS) * (1 + TRIES + PAIRS)
    assert walked["complaints"] == []
