"""One DuckDB database for all questions: a cursor for each question, in a bounded number of threads, with limits of time and
memory.

The lake's files change meanwhile: the drain adds new ones, and old ones are merged and later deleted. So the file list is compared
before each question, and a question whose file was just deleted runs again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import duckdb
import structlog

from ingest.errors import LakeError
from queries import open_lake

from ..confined_sql import confine
from ..errors import BusyError, TooCostlyError
from .reads import Source

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

QUESTIONS_AT_ONCE = 4
# Background answers may take longer, and run in parallel with the questions that a reader waits for.
_WORKED_OUT_AT_ONCE = 2
_TIMES_LONGER = 20
_WAITING_MAX = 64
_LOOK_AGAIN_SECONDS = 1.0
_INTERRUPT_AGAIN_SECONDS = 0.05

_log = structlog.get_logger("hindcast.query")


class Asker:
    """Answers questions of many callers about one lake. Raises LakeError when there is no lake."""

    def __init__(self, lake: Path, seconds_max: float, memory_bytes_max: int) -> None:
        self._lake = lake.resolve()
        self._seconds_max = seconds_max
        self._reader = open_lake(self._lake)
        self._reader.take_every_thread()
        confine(self._reader, self._lake, memory_bytes_max)
        self._lock = threading.Lock()  # guards the reader itself; its sessions need no lock
        self._looked = time.monotonic()
        self._executor = ThreadPoolExecutor(QUESTIONS_AT_ONCE, thread_name_prefix="ask")
        self._background = ThreadPoolExecutor(_WORKED_OUT_AT_ONCE, thread_name_prefix="work-out")
        self._waiting = 0

    @property
    def lake(self) -> Path:
        """The lake's folder, without symbolic links."""
        return self._lake

    @property
    def seconds_max(self) -> float:
        """How long one question may take."""
        return self._seconds_max

    @property
    def files(self) -> object:
        """The state of the lake at the last look; equal values mean equal answers."""
        return self._reader.files

    async def ask(
        self, question: Callable[Concatenate[Source, Arguments], Answer], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Answer:
        """The answer of `question(source, *arguments)`, found in a thread.

        Raises the errors of the question, BusyError when too many questions wait, TooCostlyError when it takes too long or too much
        memory.
        """
        if self._waiting >= _WAITING_MAX:
            raise BusyError(f"{self._waiting} questions are waiting already", "ask again in a few seconds")
        self._waiting += 1
        try:
            return await self._run(self._executor, self._seconds_max, question, arguments, named)
        finally:
            self._waiting -= 1

    async def work_out(self, question: Callable[[Source], Answer]) -> Answer:
        """The answer of a question about the whole lake that no reader waits for; it may take many times longer than others.

        Raises as `ask` does.
        """
        return await self._run(self._background, _TIMES_LONGER * self._seconds_max, question, (), {})

    async def _run(
        self, executor: ThreadPoolExecutor, seconds: float, question: Callable[..., Answer], arguments: Any, named: Any
    ) -> Answer:
        loop = asyncio.get_running_loop()
        attempt = _Attempt(seconds)
        alarm = loop.call_later(seconds, attempt.interrupt)
        try:
            return await loop.run_in_executor(executor, self._answer, attempt, question, arguments, named)
        except asyncio.CancelledError:
            attempt.interrupt()
            raise
        finally:
            alarm.cancel()

    def close(self) -> None:
        """Wait for the running questions, and release the memory."""
        for executor in (self._executor, self._background):
            executor.shutdown(cancel_futures=True)
        self._reader.close()

    def _answer(self, attempt: _Attempt, question: Callable[..., Answer], arguments: Any, named: Any) -> Answer:
        try:
            return self._ask_once(attempt, question, arguments, named, look=False)
        except duckdb.IOException as error:
            # Merged files are deleted some time after they were replaced; a question that was bound to them runs again.
            _log.warning("asked_again", reason=str(error).splitlines()[0])
        try:
            return self._ask_once(attempt, question, arguments, named, look=True)
        except duckdb.IOException as error:
            reason = str(error).splitlines()[0]
            raise LakeError(f"the lake's files cannot be read: {reason}", "`hindcast doctor` names every damaged file") from error

    def _ask_once(self, attempt: _Attempt, question: Callable[..., Answer], arguments: Any, named: Any, *, look: bool) -> Answer:
        try:
            with ExitStack() as stack:
                with self._lock:
                    if look or time.monotonic() - self._looked > _LOOK_AGAIN_SECONDS:
                        self._reader.refresh()
                        self._looked = time.monotonic()
                    reader = stack.enter_context(self._reader.session())
                stack.callback(attempt.end)
                attempt.begin(reader.connection)
                return question(Source(reader, self._lake), *arguments, **named)
        except duckdb.InterruptException:
            raise TooCostlyError(
                f"this took longer than {attempt.seconds:g} s, which is the most that one question may",
                "narrow it with since, until, cluster or another filter",
            ) from None
        except duckdb.OutOfMemoryException:
            raise TooCostlyError(
                "this needs more memory than one question may take", "narrow it with since, until, cluster or another filter"
            ) from None


class _Attempt:
    """One running question, which another thread may interrupt. `seconds` is its time limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._is_over = False
        self._ended = False

    def begin(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if self._is_over:
                raise duckdb.InterruptException("waited too long")
            self._connection = connection

    def end(self) -> None:
        with self._lock:
            self._connection, self._ended = None, True

    def interrupt(self) -> None:
        """Interrupt now, and again until it has an effect: between two statements an interruption is lost."""
        with self._lock:
            self._is_over = True
            if self._ended:
                return
            if self._connection is not None:
                self._connection.interrupt()
        asyncio.get_running_loop().call_later(_INTERRUPT_AGAIN_SECONDS, self.interrupt)
