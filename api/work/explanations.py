"""Explanations requested over HTTP: a process of its own makes each, bounded in number, memory and time; the answers are kept.

The process runs api/work/explainer.py. It is another one, because any reader may post policies. Further requests with the same
question wait for the same answer. A page waits only a moment, and shows the answer when it is loaded again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import structlog
from pydantic import AfterValidator, WithJsonSchema

from ingest.errors import HindcastError
from pipeline.authorization import OtherAuthorizers
from pipeline.explaining.explanation import Explanation
from pipeline.stages.names import DEFAULT as DEFAULT_STAGE

from ..ask.asking import Asker
from ..errors import BusyError, TooCostlyError, error_of
from . import forks
from .explained_stages import EXPLAINED
from .explainer import ANSWER_BYTES_MAX

AT_ONCE = 2
_WAITING_MAX = 16
_KEPT_BYTES_MAX = 64 * 1024**2
_KEPT_SECONDS = 60.0

_log = structlog.get_logger("hindcast.query")


def _explained(name: str) -> str:
    if name not in EXPLAINED:
        raise ValueError(f"{name!r} is not a stage that explains itself: {', '.join(EXPLAINED)}")
    return name


# The name of a stage that explains itself, as clients give it.
StageName = Annotated[str, AfterValidator(_explained), WithJsonSchema({"type": "string", "enum": list(EXPLAINED)})]


@dataclass(frozen=True, slots=True)
class Question:
    """Which request to explain, and with which policies: those posted as `policies`, those of a run, or those in force then.

    Webhooks and mutating policies may be posted too, and the run may be of them; `stage` says what to take of those in force.

    `at` distinguishes requests with one audit ID; `names` keeps only policies of these names. `other_authorizers` are those of the
    cluster in addition to RBAC. Without them or `kubernetes_version`, those of the run hold, or what the log shows and the newest.
    """

    cluster: str
    audit_id: str
    at: str | None = None
    run_id: str | None = None
    policies: str | None = None
    names: tuple[str, ...] = ()
    kubernetes_version: tuple[int, int] | None = None
    other_authorizers: OtherAuthorizers | None = None
    stage: str = DEFAULT_STAGE


class _Answer(msgspec.Struct):
    """The output of the process."""

    explanations: list[Explanation] | None = None
    error: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    body: bytes
    files: object
    made: float
    is_error: bool

    def holds(self, files: object) -> bool:
        """Whether the answer still holds: as long as the lake is the same; for an error, a minute."""
        return (self.files == files and not self.is_error) or time.monotonic() - self.made < _KEPT_SECONDS


class Explanations:
    """Explains for many clients. Lives in the server's event loop."""

    def __init__(self, asker: Asker, memory_bytes_max: int) -> None:
        self._asker = asker
        self._memory_bytes_max = memory_bytes_max
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[Question, asyncio.Task[bytes]] = {}
        self._kept: OrderedDict[Question, _Kept] = OrderedDict()

    async def body(self, question: Question) -> bytes:
        """The answer as JSON: {"explanations": [...]}.

        Raises what `explain_one` raises, BusyError where too many wait, TooCostlyError where it takes too much time or memory.
        """
        return await asyncio.shield(self._task(question))

    async def in_time(self, question: Question, seconds: float) -> list[Explanation] | None:
        """The explanations for a page; None if they take longer; then the page has them when it is loaded again. Raises as
        `body` does."""
        task = self._task(question)
        await asyncio.wait([task], timeout=seconds)
        return (_read(task.result()).explanations or []) if task.done() else None

    async def close(self) -> None:
        """End all running explanations."""
        tasks = [task for task in self._tasks.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, question: Question) -> asyncio.Task[bytes]:
        task = self._tasks.get(question)
        if task is None:
            if len(self._tasks) >= _WAITING_MAX:
                raise BusyError(f"{len(self._tasks)} explanations are waiting already", "ask again in a few seconds")
            task = self._tasks[question] = asyncio.create_task(self._explain(question))
            task.add_done_callback(lambda done: self._end(question, done))
        return task

    def _end(self, question: Question, task: asyncio.Task[bytes]) -> None:
        del self._tasks[question]
        if not task.cancelled():
            task.exception()  # clients that wait already have it; if no client waits any more, it is not needed

    async def _explain(self, question: Question) -> bytes:
        kept = self._kept.get(question)
        if kept is None or not kept.holds(self._asker.files):
            async with self._slots:
                files = self._asker.files
                body = await self._work(question)
            kept = _Kept(body, files, time.monotonic(), _read(body).error is not None)
            self._keep(question, kept)
        error = _read(kept.body).error if kept.is_error else None
        if error is not None:
            raise error_of(error["code"], error["message"], error["hint"])
        return kept.body

    def _keep(self, question: Question, kept: _Kept) -> None:
        self._kept[question] = kept
        self._kept.move_to_end(question)
        while len(self._kept) > 1 and sum(len(each.body) for each in self._kept.values()) > _KEPT_BYTES_MAX:
            self._kept.popitem(last=False)

    async def _work(self, question: Question) -> bytes:
        """The answer of a process, or the error in its place, so that later requests do not start the process again and again."""
        seconds_max = self._asker.seconds_max
        try:
            async with asyncio.timeout(seconds_max):
                return await self._run(self._order(question))
        except TimeoutError:
            hint = "name fewer policies, or ask `hindcast explain`"
            error = TooCostlyError(f"the explanation took longer than {seconds_max:g} s", hint)
        except TooCostlyError as found:
            error = found
        except OSError as found:
            raise HindcastError(f"the explanation's process cannot be started: {found.strerror}", "ask again") from found
        return json.dumps({"error": {"code": "too_costly", "message": error.message, "hint": error.hint}}).encode()

    def _order(self, question: Question) -> bytes:
        order: dict[str, Any] = {
            "lake": str(self._asker.lake),
            "memory_bytes_max": self._memory_bytes_max,
            "seconds_max": self._asker.seconds_max,
            **{name: getattr(question, name) for name in question.__dataclass_fields__},
        }
        return json.dumps(order).encode() + b"\n"

    async def _run(self, order: bytes) -> bytes:
        process = await forks.start(forks.EXPLAINER, order)
        try:
            body = await _all_of(process.answer)
            code = await process.wait()
        finally:
            process.send(signal.SIGKILL)
            await process.wait()
        if not body:
            _log.error("explanation_lost", code=code)
            raise TooCostlyError("the explanation's process was ended, most often for want of memory", "name fewer policies")
        return body


async def _all_of(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while part := await stream.read(1 << 16):
        found += part
        if len(found) > 2 * ANSWER_BYTES_MAX:
            raise TooCostlyError("the explanation is too large", "name fewer policies")
    return bytes(found)


def _read(body: bytes) -> _Answer:
    return msgspec.json.decode(body, type=_Answer)
