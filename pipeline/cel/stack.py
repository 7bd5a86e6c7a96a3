"""Room for deep expressions: work that may nest as deep as kube-apiserver allows runs where the stack is empty.

Python limits how deep calls may nest in a thread. A caller may have used up much of that; raising the limit would be a change to
the whole process that a library must not make. A new thread starts from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def on_fresh_stack(work: Callable[[], T], *otherwise: T) -> T:
    """`work()`, run again on a stack of its own if this one is too small.

    If that one is too small as well, the result is `otherwise` where it is given; without it the RecursionError is raised.
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
