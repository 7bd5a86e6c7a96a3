"""Answers that take longer than a reader waits: worked out once for all who ask, beside all other questions, and kept.

So a page always comes, and what it could not show is there at a later look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ingest.errors import HindcastError

from .asking import Asker
from .errors import BusyError, TooCostlyError
from .reads import Source

Answer = TypeVar("Answer")

PAGE_SECONDS = 4.0

# What is being worked out, one of each name; the results are kept by the questions themselves, see kept.py.
_working: dict[tuple[str, str], asyncio.Task[Any]] = {}


async def in_time(asker: Asker, name: str, question: Callable[[Source], Answer], seconds: float = PAGE_SECONDS) -> Answer | None:
    """The answer, or None where it takes longer; it is then worked out all the same, for the next look."""
    task = _task(asker, name, question)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        return None
    try:
        return task.result()
    except (BusyError, TooCostlyError):
        return None


async def at_last(asker: Asker, name: str, question: Callable[[Source], Answer], seconds: float) -> Answer:
    """The same for a program. Raises BusyError where it takes longer, because it will be there later."""
    task = _task(asker, name, question)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        raise BusyError(f"{name} is being worked out over the whole lake, which takes long", "ask again in half a minute")
    return task.result()


def _task(asker: Asker, name: str, question: Callable[[Source], Answer]) -> asyncio.Task[Answer]:
    key = (str(asker.lake), name)
    task = _working.get(key)
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = _working[key] = asyncio.create_task(asker.work_out(question))
        task.add_done_callback(_look)
    return task


def _look(task: asyncio.Task[Any]) -> None:
    """An error of a task that nobody waits for any more is raised again for the next one who asks."""
    if not task.cancelled() and isinstance(error := task.exception(), Exception) and not isinstance(error, HindcastError):
        task.get_loop().call_exception_handler({"message": "working out an answer failed", "exception": error, "task": task})
