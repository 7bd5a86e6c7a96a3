"""Forked processes have their order and the environment of now, and end with what they are for."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from api.work import forks

MODULE = """
import os, sys

def main():
    order = sys.stdin.readline().strip()
    if order == "die":
        os.kill(os.getpid(), 9)
    print(os.getpid(), os.environ["SAID"], order, flush=True)
    if order == "wait":
        sys.stdin.read()
    return 3
"""

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="it looks for processes in /proc")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ordered.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SAID", "before")
    return "ordered"


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


async def told(module: str, order: bytes) -> tuple[list[str], int]:
    process = await forks.start(module, order + b"\n")
    answer = await process.answer.read()
    code = await process.wait()
    assert process.has_ended
    return answer.decode().split()[1:], code


def test_a_process_has_its_order_and_the_environment_of_now(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(told(module, b"hello")) == (["before", "hello"], 3)
    monkeypatch.setenv("SAID", "later")
    assert asyncio.run(told(module, b"x" * 200_000)) == (["later", "x" * 200_000], 3)
    assert asyncio.run(told(module, b"die")) == ([], -signal.SIGKILL)


def test_another_process_loads_if_the_first_one_ended(module: str) -> None:
    async def loader() -> int:
        process = await forks.start(module, b"wait\n")
        pid = int((await process.answer.readline()).split()[0])
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        process.send(signal.SIGKILL)
        await process.wait()
        return parent

    first = asyncio.run(loader())
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_there(first) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert asyncio.run(told(module, b"hello")) == (["before", "hello"], 3)
    assert asyncio.run(loader()) != first


def test_a_signal_ends_it(module: str) -> None:
    async def stopped() -> tuple[int, int]:
        process = await forks.start(module, b"wait\n")
        pid = int((await process.answer.readline()).split()[0])
        assert os.getpgid(pid) == pid
        process.send(signal.SIGTERM)
        return pid, await process.wait()

    pid, code = asyncio.run(stopped())
    assert code == -signal.SIGTERM
    assert not is_there(pid)


def test_a_start_that_is_cancelled_leaves_no_process(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ordered.py").write_text(
        "import os, sys\ndef main():\n    open(os.environ['SAID'], 'w').write(str(os.getpid()))\n    sys.stdin.read()\n"
    )
    place = tmp_path / "pid"
    monkeypatch.setenv("SAID", str(place))

    async def cancelled() -> None:
        starting = asyncio.create_task(forks.start(module, b"wait\n"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        while not (place.exists() and place.read_text()):
            await asyncio.sleep(0.01)

    asyncio.run(cancelled())
    deadline = time.monotonic() + 30
    while is_there(int(place.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_there(int(place.read_text()))
