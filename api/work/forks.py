"""Processes for the work of readers, forked from one that has loaded the pipeline: to load it takes longer than most explanations.

The process that loads is multiprocessing's fork server. It takes no orders, runs no Python thread, and ends with this one.
"""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import TypeAlias

from pipeline.runs.lifetime import end_with_parent

EXPLAINER, REPLAYER = "api.work.explainer", "api.work.replayer"
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, EXPLAINER, REPLAYER])

# How long to wait before each further try, while the process that loads is ending.
_PAUSES_SECONDS = (0.05, 0.2, 1.0)

# A process, the end of its standard input to write to, and that of its standard output to read from.
_Begun: TypeAlias = "tuple[ForkServerProcess, Connection, Connection]"


class Forked:
    """A process that has its order. It ends when this one closes its standard input. `answer` is what it writes."""

    def __init__(
        self, process: ForkServerProcess, stdin: Connection, answer: asyncio.StreamReader, transport: asyncio.ReadTransport
    ) -> None:
        self.answer = answer
        self._process = process
        self._stdin = stdin
        self._transport = transport
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._end)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended.is_set()

    async def wait(self) -> int:
        """Wait for the end of the process; returns its exit code, negative for a signal. The rest of its answer is lost."""
        await self._ended.wait()
        self._transport.close()
        return self._process.exitcode or 0

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and to all that it started."""
        if self.has_ended or self._process.pid is None:
            return
        for send in (os.killpg, os.kill):  # it has no group before it begins
            with suppress(ProcessLookupError):
                send(self._process.pid, number)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._stdin.close()
        self._ended.set()


async def start(module: str, order: bytes, line_bytes_max: int = 1 << 16) -> Forked:
    """Run `main` of a module in a process of its own, with an order of one line on its standard input.

    `line_bytes_max` is the longest line of its answer. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    beginning = loop.run_in_executor(None, _begin, module, order)
    try:
        process, stdin, stdout = await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(_drop)
        raise
    answer = asyncio.StreamReader(line_bytes_max)
    with stdout:
        pipe = os.fdopen(os.dup(stdout.fileno()), "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(answer), pipe)
    return Forked(process, stdin, answer, transport)


def _begin(module: str, order: bytes) -> _Begun:
    """Start the process, and write its order. Raises OSError."""
    for seconds in (*_PAUSES_SECONDS, 0.0):
        begun = _begin_once(module)
        if begun is not None:
            break
        time.sleep(seconds)
    else:
        raise ChildProcessError(errno.ECHILD, "the process that loads ends again and again")
    process, stdin, stdout = begun
    with suppress(BrokenPipeError):
        rest = memoryview(order)
        while rest:
            rest = rest[os.write(stdin.fileno(), rest) :]
    return process, stdin, stdout


def _begin_once(module: str) -> _Begun | None:
    """None if the process that loads is ending: multiprocessing starts another one as soon as it has ended."""
    theirs_to_read, stdin = _context.Pipe(duplex=False)
    stdout, theirs_to_write = _context.Pipe(duplex=False)
    with theirs_to_read, theirs_to_write:
        process = _context.Process(target=_run, args=(module, theirs_to_read, theirs_to_write, dict(os.environ)), daemon=True)
        try:
            process.start()
        except (EOFError, ConnectionError):
            stdin.close()
            stdout.close()
            return None
    return process, stdin, stdout


def _drop(beginning: asyncio.Future[_Begun]) -> None:
    """End a process whose caller does not wait any more."""
    if beginning.exception() is None:
        _, stdin, stdout = beginning.result()
        stdin.close()
        stdout.close()


def _run(module: str, stdin: Connection, stdout: Connection, environment: Mapping[str, str]) -> None:
    """In the new process: what a process that is started as a program has."""
    os.setsid()
    end_with_parent(os.getppid())
    multiprocessing.current_process().daemon = False  # it may start others
    os.environ.clear()
    os.environ.update(environment)
    for connection, number in ((stdin, 0), (stdout, 1)):
        os.dup2(connection.fileno(), number)
        connection.close()
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.exit(import_module(module).main())
