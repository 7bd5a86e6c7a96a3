"""Keeps the drain and the answering process running in processes of their own, because in the server's process they would delay
every acknowledgement.

Such a process reads its settings from the environment. Its standard input is a pipe that is never written: when the server dies,
even by SIGKILL, the pipe closes and the process ends itself. The next process repeats its unfinished work; that work can be
interrupted at any point.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

import structlog

from ingest.errors import HindcastError
from ingest.spooling.segment_files import sealed_segments
from ingest.telemetry import DRAIN_RESULTS, SinkMetrics

from ..settings import Settings
from .preloaded import RESTARTED
from .sockets import QUERY_OPTIONS, listen

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
# A process that ran for so long was healthy; its end is a new problem and not the old one.
_WELL_AFTER_SECONDS = 60.0
# Together with `shutdown_seconds` less than the 30 s that Kubernetes gives a pod to end.
_STOP_SECONDS = 12.0


class ProcessSupervisor:
    """Starts a process, restarts it with growing pauses when it ends, and ends it with the server.

    `name` is its name in logs and metrics, `module` the argument of `python -m`.
    """

    def __init__(self, name: str, module: str, settings: Settings, metrics: SinkMetrics) -> None:
        self._name = name
        self._module = module
        self._settings = settings
        self._metrics = metrics
        self._count(up=False, restarted=False)
        self._log = structlog.get_logger(f"hindcast.{name}")
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._restarts_in_a_row = 0
        self.restarts = 0  # since the server started

    @property
    def pid(self) -> int | None:
        """The process id of the running process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Begin to keep it running; needs a running event loop."""
        self._task = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """Ask it to finish and to end; after 12 s it is killed, and the next process goes on with its work."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._log.warning(f"{self._name}_killed", reason=f"it did not end within {_STOP_SECONDS} s")
                self._process.kill()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def trouble(self) -> str | None:
        """Why its work may not be done, or None while it runs and makes progress."""
        if self.pid is None and self._restarts_in_a_row > 0:
            return f"the {self._name} process is not running; it has ended {self._restarts_in_a_row} times in a row"
        if self.pid is None:
            return f"the {self._name} process is not running yet"
        return None

    def _count(self, *, up: bool, restarted: bool) -> None:
        self._metrics.process_up.labels(self._name).set(up)
        self._metrics.process_restarts.labels(self._name).inc(restarted)

    def _hear(self, line: bytes) -> None:
        """Called with each line that the process prints."""

    def _handed(self) -> tuple[int, ...]:
        """Numbers of open files that the process gets as arguments, and inherits."""
        return ()

    async def _supervise(self) -> None:
        backoff_seconds = BACKOFF_SECONDS_MIN
        while True:
            started = time.monotonic()
            try:
                code = await self._run_once()
            except (OSError, HindcastError) as error:
                code = -1
                self._log.error(f"{self._name}_not_started", error=str(error))
            if self._stopping:
                return
            if time.monotonic() - started > _WELL_AFTER_SECONDS:
                backoff_seconds, self._restarts_in_a_row = BACKOFF_SECONDS_MIN, 0
            self._restarts_in_a_row += 1
            self.restarts += 1
            self._log.error(f"{self._name}_ended", exit_code=code, again_in_seconds=backoff_seconds)
            await asyncio.sleep(backoff_seconds)
            backoff_seconds = min(backoff_seconds * 2, BACKOFF_SECONDS_MAX)

    async def _run_once(self) -> int:
        """One life of the process; returns its exit code."""
        handed = self._handed()
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            *map(str, handed),
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=handed,
            env={**os.environ, **self._settings.environment()},
        )
        self._count(up=True, restarted=False)
        self._log.info(f"{self._name}_started", pid=process.pid)
        try:
            if process.stdout is not None:
                async for line in process.stdout:
                    self._hear(line)
            return await process.wait()
        finally:
            self._count(up=False, restarted=not self._stopping)


class DrainSupervisor(ProcessSupervisor):
    """Keeps the drain running, counts its results, and notices when it makes no progress."""

    def __init__(self, settings: Settings, metrics: SinkMetrics) -> None:
        super().__init__("drain", "api.sink.drainer", settings, metrics)
        self._oldest_segment = ""
        self._oldest_since = time.monotonic()

    def observe(self, spool: Path) -> None:
        """Check whether the oldest waiting segment is still the same one; call it every second or so."""
        waiting = sealed_segments(spool)
        oldest = waiting[0].name if waiting else ""
        if oldest != self._oldest_segment or not oldest:
            self._oldest_segment, self._oldest_since = oldest, time.monotonic()

    def trouble(self) -> str | None:
        """Why stored events would not show in the views, or None while the drain runs and makes progress."""
        if self._restarts_in_a_row > 1:
            return f"the drain process has ended {self.restarts} times since the server started; its log says why"
        waited_seconds = time.monotonic() - self._oldest_since
        if self.pid is not None and self._oldest_segment and waited_seconds > self._settings.drain_stuck_seconds:
            return f"the drain is stuck: segment {self._oldest_segment} has waited for {waited_seconds:.0f} s"
        return super().trouble()

    def _hear(self, line: bytes) -> None:
        """The result of a unit of events, or null for a pass that failed (see drainer.py)."""
        try:
            counts = json.loads(line)
        except ValueError:  # a line that a library printed
            return
        if counts is None:
            self._metrics.drain_passes_failed.inc()
            return
        for result in DRAIN_RESULTS:
            self._metrics.events_drained.labels(result).inc(counts[result])
        self._metrics.drain_timestamp_seconds.set_to_current_time()


class QuerySupervisor(ProcessSupervisor):
    """Keeps the answering process running, and its port open: during a restart, clients wait and are not refused.

    A port in use does not stop the sink; each start tries it again.
    """

    def __init__(self, settings: Settings, metrics: SinkMetrics) -> None:
        super().__init__("query", "api.ask.querier", settings, metrics)
        self._listener: socket.socket | None = None

    async def stop(self) -> None:
        """Ask it to finish and to end, and close the port."""
        await super().stop()
        if self._listener is not None:
            self._listener.close()

    def _hear(self, line: bytes) -> None:
        """Whether the answering process was restarted without loading anything (preloaded.py)."""
        if line.strip() == RESTARTED.encode():
            self._count(up=True, restarted=True)

    def _handed(self) -> tuple[int, ...]:
        """The listening socket. Raises InputError when the address is taken."""
        if self._listener is None:
            self._listener = listen(self._settings.query_host, self._settings.query_port, QUERY_OPTIONS)
        return (self._listener.fileno(),)
