"""Answers that take longer than a reader waits: computed once for all clients, in parallel with other questions, and kept.

So a page always comes. A part that is not ready is shown when the page is loaded again. While a part is computed again because the
lake has grown, the page shows the old one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from ingest.errors import HindcastError

from ..errors import BusyError, TooCostlyError
from .asking import Asker
from .kept import view_of
from .reads import Source

Answer = TypeVar("Answer")

# How long a page waits for a part that was never computed, and for a newer version of a part that was.
PAGE_SECONDS = 2.0
_NEWER_SECONDS = 0.25
_ANSWERS_MAX = 128

Name = tuple[str, str]
# The running computations, one for each name, and their last results. The questions know how long a result holds, see kept.py.
_working: dict[Name, asyncio.Task[Any]] = {}
_last: OrderedDict[Name, Any] = OrderedDict()


async def in_time(asker: Asker, name: str, question: Callable[[Source], Answer], seconds: float = PAGE_SECONDS) -> Answer | None:
    """The answer; if it takes longer, the previous one, or None. The new one is still computed, for the next look.

    Questions of one name have answers of one kind.
    """
    task = _task(asker, name, question)
    key = (str(asker.lake), name)
    await asyncio.wait([task], timeout=min(seconds, _NEWER_SECONDS) if key in _last else seconds)
    if task.done():
        with suppress(BusyError, TooCostlyError):
            return task.result()
    return _last.get(key)


async def view_in_time(asker: Asker, name: str) -> pa.Table | None:
    """Like in_time, for the whole of a small view in questions.TABLES."""
    return await in_time(asker, _view(name), partial(view_of, name=name))


async def view_at_last(asker: Asker, name: str) -> pa.Table:
    """The same for a program. Raises BusyError if it takes longer, because it will be ready later."""
    task = _task(asker, _view(name), partial(view_of, name=name))
    await asyncio.wait([task], timeout=asker.seconds_max)
    if not task.done():
        raise BusyError(f"{name} is being worked out over the whole lake, which takes long", "ask again in half a minute")
    return task.result()


def _view(name: str) -> str:
    return f"view {name}"


def _task(asker: Asker, name: str, question: Callable[[Source], Answer]) -> asyncio.Task[Answer]:
    key = (str(asker.lake), name)
    task = _working.get(key)
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = _working[key] = asyncio.create_task(asker.work_out(question))
        task.add_done_callback(partial(_end, key))
    return task


def _end(key: Name, task: asyncio.Task[Any]) -> None:
    """Remember an answer. If no client waits for a failed task any more, its error is raised for the next client."""
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        _last[key] = task.result()
        _last.move_to_end(key)
        while len(_last) > _ANSWERS_MAX:
            _last.popitem(last=False)
    elif isinstance(error, Exception) and not isinstance(error, HindcastError):
        task.get_loop().call_exception_handler({"message": "working out an answer failed", "exception": error, "task": task})
