"""Runs deeply nested work with room for all that may nest: how deep that is, counted limits decide, and not the interpreter.

Each Python counts other calls, and a caller may have used up much of what a thread may nest. So work that does not fit runs again
in a thread of its own, on a large stack, where calls may nest CALLS_MAX deep. Only such threads nest so deep: the interpreter's
limit is one for all threads, and goes back when the last of them ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

# LEVELS_MAX levels of expressions within each other, or data of 400 levels, take less than eight calls a level.
CALLS_MAX: Final = 8_000
LEVELS_MAX: Final = 600
# Calls through C take up to some thousand bytes. Memory that is not touched costs nothing.
_STACK_BYTES: Final = 64 * 1024 * 1024


class _Stack(threading.local):
    """What is known of the thread that asks."""

    is_large = False
    is_within = False  # a caller runs the work again on a large stack


_stack = _Stack()
_lock = threading.Lock()
_usual: list[int] = []  # the interpreter's limit, once for each thread with a large stack


def on_fresh_stack(work: Callable[[], T], *otherwise: T) -> T:
    """`work()`, run again in a thread with a large and empty stack if this stack is too small.

    Where one such work contains others, the outermost runs again as a whole. If the large stack is too small as well, the result of
    the innermost is its `otherwise`; without `otherwise` the RecursionError is raised.
    """
    was_within, _stack.is_within = _stack.is_within, True
    try:
        return work()
    except RecursionError:
        pass
    finally:
        _stack.is_within = was_within
    return again(work, *otherwise)


def again(work: Callable[[], T], *otherwise: T) -> T:
    """What `on_fresh_stack` does where `work()` has already failed for lack of room."""
    if _stack.is_within and not _stack.is_large:
        raise RecursionError("calls nest deeper than this stack allows")
    if not _stack.is_large:
        return on_large_stack(work, *otherwise)
    if not otherwise:
        raise RecursionError("calls nest deeper than the largest stack allows")
    return otherwise[0]


def on_large_stack(work: Callable[[], T], *otherwise: T) -> T:
    """`work()` in a thread with a large and empty stack. If that is too small, `otherwise`, or the RecursionError is raised."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        _stack.is_large = True
        try:
            results.append(work())
        except BaseException as problem:
            failures.append(problem.with_traceback(None))

    with _more_calls():
        _started(run).join()
    if results:
        return results[0]
    if otherwise and isinstance(failures[0], RecursionError):
        return otherwise[0]
    raise failures[0]


@contextmanager
def _more_calls() -> Iterator[None]:
    with _lock:
        _usual.append(_usual[0] if _usual else sys.getrecursionlimit())
        sys.setrecursionlimit(max(CALLS_MAX, _usual[0]))
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                sys.setrecursionlimit(usual)


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="cel-deep", daemon=True)
    with _lock:
        usual = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    return thread
