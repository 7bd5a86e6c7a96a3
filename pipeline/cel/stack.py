"""Runs deeply nested work on an empty stack, so that it may nest as deep as kube-apiserver allows.

Python limits the depth of calls in a thread, and a caller may have used up much of it. Raising the limit would change the whole
process, which a library must not do. A new thread starts from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def on_fresh_stack(work: Callable[[], T], *otherwise: T) -> T:
    """`work()`, run again in a thread with an empty stack if this stack is too small.

    If the new stack is too small as well, the result is `otherwise`; without `otherwise` the RecursionError is raised.
    """
    try:
        return work()
    except RecursionError:
        pass
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as problem:
            failures.append(problem.with_traceback(None))

    thread = Thread(target=run, name="cel-deep", daemon=True)
    thread.start()
    thread.join()
    if results:
        return results[0]
    if otherwise and isinstance(failures[0], RecursionError):
        return otherwise[0]
    raise failures[0]
