"""A Ray cluster of several nodes on this machine, by Ray's own utility. All its servers listen on loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

NODES = 3
_STORE_BYTES = 80 * 1024**2  # Ray's least is 75 MiB
_LOOK_SECONDS = 0.005
_ENDING_LOOKS = 100


@contextmanager
def running_cluster() -> Iterator[Any]:
    """A cluster of NODES nodes with one CPU each, until the context ends; the environment leads commands and workers to it."""
    folder = tempfile.mkdtemp(prefix="ray-")  # names of sockets may not be long
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # without it, servers listen on every address of the machine
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "TMPDIR": folder,
        "RAY_TMPDIR": folder,
    }
    (Path(folder) / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster  # reads the settings

        node = {"num_cpus": 1, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
        cluster = Cluster(shutdown_at_exit=False)
        try:
            for _ in range(NODES):
                cluster.add_node(**node)
            yield cluster
        finally:
            cluster.shutdown()
            left = left_with(folder)
            shutil.rmtree(folder, ignore_errors=True)
            assert left == []


@contextmanager
def killing(unit: str, most: int) -> Iterator[list[int]]:
    """Kill workers of Ray in the middle of a unit, up to so many; gives the killed ones."""
    killed: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_SECONDS) and len(killed) < most:
            for pid in _doing(unit):
                if pid not in killed:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def left_with(folder: str) -> list[str]:
    """The processes that still name a folder in their command line, after they had some time to end."""
    found: list[str] = []
    for _ in range(_ENDING_LOOKS):
        found = [line for _, line in _processes() if folder in line]
        if not found:
            break
        time.sleep(0.1)
    return found


def _doing(unit: str) -> list[int]:
    """The workers of Ray that do a unit: Ray writes its name into their titles."""
    return [pid for pid, line in _processes() if line.startswith(f"ray::{unit}")]


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal():
                yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")
