"""Lakes and folders that take seconds to make: made once for all processes of a test run. Each process gets a copy of a lake.

A new test earns its seconds. It takes a lake that exists (`demo_lake`, `calibrated_lake`, `stretched_lake`), or makes one of a few
events for its whole module (`take_in` with `scope="module"`). It calls `api.cli.run` in place of a process, because a process loads
for a second; one that forks loads first, and calls `gc.freeze`. The first `readiness` or `doctor` over a lake asks for its ledger,
which takes as long as the rest; so several forms of one answer come from one lake. Hypothesis gives its simplest example first, so
a property with fewer than ten examples is better a list that is drawn once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.history.in_force import CHANGE_DELAY

# The demonstration's times are stretched, and with them how long a written policy may not have been in force yet.
STRETCHED_DELAY = CHANGE_DELAY * 6_520


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills in the first process of the run that asks. Tests only read it."""
    base = factory.getbasetemp()
    # Under pytest-xdist each process has a folder of its own in that of the run.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"shared-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder


_READ_ONLY: dict[Path, list[str]] = {}


def only_read(lake: Path) -> Path:
    """`lake`, in which no test may keep a run: the tests after it would see the run, or not, as they happen to be handed out."""
    _READ_ONLY[lake] = _runs(lake)
    return lake


def written() -> list[Path]:
    """The lakes of `only_read` whose runs are not those of the last call."""
    found = {lake: runs for lake, before in _READ_ONLY.items() if (runs := _runs(lake)) != before}
    _READ_ONLY.update(found)
    return list(found)


def _runs(lake: Path) -> list[str]:
    return sorted(run.name for run in (lake / "runs").iterdir())


def shared_lake(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A copy of its own of the lake that `make` puts at a path, which only the first process of the run is given."""
    folder = shared_folder(factory, name, lambda folder: make(folder / "lake"))
    path = factory.mktemp(name) / "lake"
    shutil.copytree(folder / "lake", path)
    return path
