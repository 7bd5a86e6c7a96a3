"""Replays started over HTTP: each in a process of its own, bounded in number, whether or not a client still watches.

A job's process runs api/work/replayer.py. It reads its order from its standard input, and writes its progress to its standard
output, one JSON object a line. When the server dies, the pipe closes and the job ends itself. A job that ended early keeps
its finished parts; the same replay, started again, goes on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from pipeline.authorization import OtherAuthorizers
from pipeline.cel.minors import DEFAULT

from ..confinement import processor_seconds
from ..errors import BusyError, NotFoundError, TooCostlyError, error_of
from . import forks
from .forks import Forked
from .shares import Shares, Turn

WAITING_MAX = 16
# Finished jobs that are remembered; their runs stay in the lake.
REMEMBERED_MAX = 200
# How many processes at one time only read manifests.
CHECKS_AT_ONCE = 2
# Where long replays hold all slots, how long a replay may take to be over before it waits for one of them.
FIRST_SECONDS = 15.0
_LINE_BYTES_MAX = 1 << 20
_STOP_SECONDS = 5.0
_SEE_LOG = "see why in this server's log; what it finished is kept, so starting it again goes on from there"

_log = structlog.get_logger("hindcast.jobs")


class State(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    PLANNING = "planning"
    RUNNING = "running"
    CALIBRATING = "calibrating"
    REPORTING = "reporting"
    EXEMPTING = "exempting"
    COSTING = "costing"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


# The fields of a job that callers see.
_SHOWN = (
    "job_id",
    "reader",
    "state",
    "waits_for",
    "run_id",
    "runs",
    "done",
    "planned",
    "created_ts",
    "started_ts",
    "ended_ts",
    "error",
)
OVER = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Order:
    """What to replay: manifests as text, and over which requests.

    For readiness, `calibrate` also compares with the record, and `exemptions` also looks for exemptions and the way to Deny. A gate
    is one question as JSON (gating.GateQuestion), which holds all these options itself. With `costs_of`, the name of a run, the job
    counts the costs of its policies instead of a replay. `rules` holds readiness rules by name. `other_authorizers` names the
    clusters' authorizers other than RBAC; None for those in the log. With `only`, given roles replace all others of the cluster.
    """

    policies: str = ""
    since: datetime | None = None
    until: datetime | None = None
    kubernetes_version: tuple[int, int] = DEFAULT
    calibrate: bool = False
    exemptions: bool = True
    gate: bytes = b""
    costs_of: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)
    other_authorizers: OtherAuthorizers | None = None
    only: bool = False

    @property
    def gate_digest(self) -> str:
        """The name of a gate's answer in the folder of its run; the same question has the same answer there."""
        return hashlib.sha256(self.gate).hexdigest()[:16]

    def line(
        self, lake: Path, memory_bytes_max: int, processor_seconds_max: int, output_bytes_max: int, *, is_check: bool = False
    ) -> bytes:
        """A Task as JSON, with its resource limits, as a job's process reads it."""
        return msgspec.json.encode(Task(str(lake), memory_bytes_max, processor_seconds_max, output_bytes_max, self, is_check))


@dataclass(frozen=True, slots=True)
class Task:
    """An order as a job's process reads it: the lake, and the bounds. With `is_check` the process only reads the manifests."""

    lake: str
    memory_bytes_max: int
    processor_seconds_max: int
    output_bytes_max: int
    order: Order
    is_check: bool = False


class CheckTime(NamedTuple):
    """How much processor time the reading of manifests may take, and how long it may wait for it on a busy machine."""

    processor_seconds_max: int = 30
    seconds_max: float = 300.0


@dataclass(slots=True)
class Job:
    """One started replay. `done` and `planned` count requests; `error` has code, message and hint, if it failed.

    `runs` are its runs by stage; `run_id` is the first. `waits_for` is a sentence while another process makes its run.
    """

    job_id: str
    reader: str
    order: Order
    created_ts: datetime
    gate_digest: str = ""  # for a gate: the name of its answer
    state: State = State.WAITING
    run_id: str | None = None
    waits_for: str = ""
    done: int = 0
    planned: int = 0
    started_ts: datetime | None = None
    ended_ts: datetime | None = None
    error: Mapping[str, str] | None = None
    runs: Mapping[str, str] = field(default_factory=dict)
    version: int = 0  # grows with every change
    changed: asyncio.Condition = field(default_factory=asyncio.Condition, repr=False)
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether nothing about it will change any more."""
        return self.state in OVER

    def document(self) -> dict[str, Any]:
        """The fields that callers see."""
        return {name: getattr(self, name) for name in _SHOWN}

    async def update(self, **values: Any) -> None:
        """Change it and wake the watchers; a finished job does not change."""
        async with self.changed:
            if not self.is_over:
                for name, value in values.items():
                    setattr(self, name, value)
                if self.state in OVER:
                    self.waits_for = ""
                self.version += 1
            self.changed.notify_all()


class Jobs:
    """All jobs of this server. Lives in its event loop."""

    def __init__(self, lake: Path, running_max: int, seconds_max: float, memory_bytes_max: int, output_bytes_max: int) -> None:
        self._lake = lake
        self._seconds_max = seconds_max
        self._memory_bytes_max = memory_bytes_max
        self._output_bytes_max = output_bytes_max
        self._check_time = CheckTime()
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._shares = Shares(running_max, FIRST_SECONDS)
        self._jobs: dict[str, Job] = {}

    async def check(self, order: Order) -> None:
        """Raise the error of manifests that no replay can judge by, before a job exists: its answer does not depend on free slots.

        A process of its own reads them, within the bounds of a job. Raises TooCostlyError if they are too much work, and BusyError
        if the machine has too much other work.
        """
        work, wait = self._check_time
        line = order.line(self._lake, self._memory_bytes_max, work, self._output_bytes_max, is_check=True)
        async with self._checks:
            try:
                async with asyncio.timeout(wait):
                    process = await forks.start(forks.REPLAYER, line + b"\n", _LINE_BYTES_MAX)
                    try:
                        told = [json.loads(line) async for line in process.answer]
                        code = await process.wait()
                    finally:
                        await _end(process)
            except TimeoutError:
                raise BusyError(
                    f"the manifests were not read within {wait:g} s", "send them again when the server is less busy"
                ) from None
        if code == -signal.SIGXCPU:
            raise TooCostlyError(f"reading the manifests took more than {work} s of processor time", "send fewer at a time")
        for error in (each["error"] for each in told if "error" in each):
            raise error_of(error["code"], error["message"], error["hint"])

    def all(self) -> list[Job]:
        """Newest first."""
        return list(reversed(self._jobs.values()))

    def get(self, job_id: str) -> Job:
        """One job. Raises NotFoundError."""
        found = self._jobs.get(job_id)
        if found is None:
            raise NotFoundError(
                f"there is no replay {ascii(job_id)[:60]} here",
                "`hindcast runs list` and the page `/runs` list the runs of the lake",
            )
        return found

    def counting(self, run_id: str) -> Job | None:
        """The newest job that counts the costs of a run, or None."""
        return next((job for job in self.all() if job.order.costs_of == run_id), None)

    def start(self, order: Order, reader: str) -> Job:
        """Begin a replay as soon as there is room for it. Raises BusyError if too many wait."""
        waiting = [job.reader for job in self._jobs.values() if job.state is State.WAITING]
        own = waiting.count(reader)
        if len(waiting) >= WAITING_MAX or own >= WAITING_MAX // 2:  # half of the room stays for other readers
            whose = f"{len(waiting)} replays" if len(waiting) >= WAITING_MAX else f"{own} replays of {reader}"
            raise BusyError(f"{whose} are waiting already", "start it again when one has ended, or cancel one")
        job = Job(uuid.uuid4().hex, reader, order, datetime.now(UTC), order.gate_digest if order.gate else "")
        self._jobs[job.job_id] = job
        self._forget()
        job.task = asyncio.create_task(self._work(job))
        _log.info("replay_ordered", job_id=job.job_id, reader=reader, calibrate=order.calibrate)
        return job

    async def cancel(self, job_id: str) -> Job:
        """End a job now; a finished one stays as it is. Raises NotFoundError."""
        job = self.get(job_id)
        await job.update(state=State.CANCELLED, ended_ts=datetime.now(UTC))
        if job.task is not None and not job.task.done():
            job.task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job.task])
        return job

    async def settled(self, job: Job, seconds: float) -> Job:
        """The job once its policies were read and its requests counted, or once it is over; after so many seconds, as it is
        then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), job.changed:
                await job.changed.wait_for(lambda: job.run_id is not None or job.is_over)
        return job

    async def changes(self, job: Job, pause_seconds: float) -> AsyncIterator[Job | None]:
        """The job now, and again after each change, until it is over; None after so many seconds without a change."""
        shown = -1
        while True:
            if job.version == shown:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_seconds), job.changed:
                        await job.changed.wait()
            if job.version == shown:
                yield None
                continue
            shown = job.version
            yield job
            if job.is_over:
                return

    async def close(self) -> None:
        """Cancel all unfinished jobs, and wait for the end of all processes."""
        await asyncio.gather(*(self.cancel(job.job_id) for job in self.all() if not job.is_over))
        await asyncio.gather(*(job.task for job in self.all() if job.task is not None), return_exceptions=True)

    def _forget(self) -> None:
        over = [job.job_id for job in self._jobs.values() if job.is_over]
        for job_id in over[: max(0, len(self._jobs) - REMEMBERED_MAX)]:
            del self._jobs[job_id]

    async def _work(self, job: Job) -> None:
        """Take turns until the job is over."""
        is_new = True
        try:
            while not job.is_over:
                async with self._shares.slot(job.reader, is_new=is_new) as turn:
                    await job.update(state=State.PLANNING, started_ts=datetime.now(UTC))
                    await self._take_turn(job, turn)
                if not job.is_over:
                    await job.update(state=State.WAITING, waits_for="", done=0)
                is_new = False
        finally:
            job.order = replace(job.order, policies="", gate=b"")  # two hundred remembered jobs need not keep a megabyte each

    async def _take_turn(self, job: Job, turn: Turn) -> None:
        """Work on a job until it is over, or until it has to stop."""
        work, ends = asyncio.create_task(self._try(job)), asyncio.create_task(turn.ends.wait())
        try:
            await asyncio.wait((work, ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, ends):
                task.cancel()
            await asyncio.gather(work, ends, return_exceptions=True)

    async def _try(self, job: Job) -> None:
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._follow(job)
        except TimeoutError:
            await self._fail(job, "too_costly", f"it took longer than {self._seconds_max:g} s", "give a shorter window")
        except OSError as error:
            await self._fail(job, "error", f"the replay's process cannot be started: {error.strerror}", "try again")
        except Exception as error:
            # Any error ends the job, and its watchers see that.
            _log.error("replay_lost", job_id=job.job_id, exc_info=error)
            await self._fail(job, "error", "what the replay's process told cannot be understood", _SEE_LOG)

    async def _follow(self, job: Job) -> None:
        """One run of a job's process."""
        processor_seconds_max = processor_seconds(self._seconds_max)
        line = job.order.line(self._lake, self._memory_bytes_max, processor_seconds_max, self._output_bytes_max)
        process = await forks.start(forks.REPLAYER, line + b"\n", _LINE_BYTES_MAX)
        try:
            async for line in process.answer:
                await job.update(**_told(line))
            code = await process.wait()
            if not job.is_over:
                await self._fail(job, "error", self._last_words(code), _SEE_LOG)
        finally:
            await _end(process)

    def _last_words(self, code: int) -> str:
        """Why a process ended without a message."""
        if code >= 0:
            return f"the replay's process ended unexpectedly ({code})"
        mib = self._memory_bytes_max // 1024**2
        return (
            f"{signal.Signals(-code).name} ended the replay's process. Perhaps it needed more memory than a replay may take "
            f"({mib:,} MiB, --replay-memory-bytes-max), or more than the machine has"
        )

    async def _fail(self, job: Job, code: str, message: str, hint: str) -> None:
        error = {"code": code, "message": message, "hint": hint}
        await job.update(state=State.FAILED, ended_ts=datetime.now(UTC), error=error)
        _log.error("replay_failed", job_id=job.job_id, error=message)


def _told(line: bytes) -> dict[str, Any]:
    """The fields of a job that a line of its process changes."""
    values: dict[str, Any] = json.loads(line)
    if "state" in values:
        values["state"] = State(values["state"])
        if values["state"] in OVER:
            values["ended_ts"] = datetime.now(UTC)
    return values


async def _end(process: Forked) -> None:
    """End a process and everything that it started."""
    if process.has_ended:
        await process.wait()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.send(number)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
            return
        except TimeoutError:
            continue
