"""Keeps the drain running in a second process: a busy drain in the server's own process would hold up every acknowledgement.

The process learns its settings from the environment. Its standard input is a pipe that nobody writes to: when the server dies, even
by SIGKILL, the pipe closes and the drain ends itself. What it was doing is repeated by the next one; it is made to be interrupted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

import structlog

from ingest.spool import sealed_segments
from ingest.telemetry import SinkMetrics

from .settings import Settings

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
# A drain that ran for so long was well; its end is a new trouble and not the old one.
_WELL_AFTER_SECONDS = 60.0
# With `shutdown_seconds` less than the 30 s that Kubernetes gives a pod to end.
_STOP_SECONDS = 12.0

_log = structlog.get_logger("hindcast.drain")


class DrainSupervisor:
    """Starts the drain process, starts it again with growing pauses when it ends, and ends it with the server."""

    def __init__(self, settings: Settings, metrics: SinkMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._restarts_in_a_row = 0
        self._oldest_segment = ""
        self._oldest_since = time.monotonic()

    @property
    def pid(self) -> int | None:
        """The process id of the drain that runs now."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Begin to keep a drain running; needs a running event loop."""
        self._task = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """Ask the drain to store what is sealed and to end; after 12 s it is killed, and the next one goes on."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                _log.warning("drain_killed", reason=f"it did not end within {_STOP_SECONDS} s")
                self._process.kill()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def observe(self, spool: Path) -> None:
        """Look whether the oldest waiting segment is still the same one; call it every second or so."""
        waiting = sealed_segments(spool)
        oldest = waiting[0].name if waiting else ""
        if oldest != self._oldest_segment or not oldest:
            self._oldest_segment, self._oldest_since = oldest, time.monotonic()

    def trouble(self) -> str | None:
        """Why stored events would not show in the views, or None when the drain runs and gets on."""
        if self.pid is None and self._restarts_in_a_row > 0:
            return f"the drain process is not running; it has ended {self._restarts_in_a_row} times in a row"
        if self.pid is None:
            return "the drain process is not running yet"
        waited_seconds = time.monotonic() - self._oldest_since
        if self._oldest_segment and waited_seconds > self._settings.drain_stuck_seconds:
            return f"the drain is stuck: segment {self._oldest_segment} has waited for {waited_seconds:.0f} s"
        return None

    async def _supervise(self) -> None:
        backoff_seconds = BACKOFF_SECONDS_MIN
        while True:
            started = time.monotonic()
            try:
                code = await self._run_once()
            except OSError as error:
                code = -1
                _log.error("drain_not_started", error=str(error))
            if self._stopping:
                return
            if time.monotonic() - started > _WELL_AFTER_SECONDS:
                backoff_seconds, self._restarts_in_a_row = BACKOFF_SECONDS_MIN, 0
            self._restarts_in_a_row += 1
            self._metrics.drain_restarts.inc()
            _log.error("drain_ended", exit_code=code, again_in_seconds=backoff_seconds)
            await asyncio.sleep(backoff_seconds)
            backoff_seconds = min(backoff_seconds * 2, BACKOFF_SECONDS_MAX)

    async def _run_once(self) -> int:
        """One life of the drain process; returns its exit code."""
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "api.drainer",
            stdin=PIPE,
            stdout=DEVNULL,
            env={**os.environ, **self._settings.environment()},
        )
        self._metrics.drain_up.set(1)
        _log.info("drain_started", pid=process.pid)
        try:
            return await process.wait()
        finally:
            self._metrics.drain_up.set(0)
