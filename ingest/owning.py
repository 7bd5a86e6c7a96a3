"""One owner at a time: a process that makes something holds a lock on a file next to it, until it is done or ends in any way.

A second process that wants to make the same thing waits, and then finds it made or goes on with it. No process waits for a mark
that outlives the process that made it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

# Is called with a sentence when this process begins to wait for another one, and with an empty text when the wait is over.
TellWait: TypeAlias = Callable[[str], None]

_tell: ContextVar[TellWait | None] = ContextVar("tell", default=None)
_here = threading.local()  # `held`: the locks of this thread, which it may take again
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def telling_waits(tell: TellWait) -> Iterator[None]:
    """Have waits of this thread told while the context lasts."""
    before = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(before)


@contextmanager
def owned(file: Path, what: str) -> Iterator[None]:
    """Wait until this thread alone holds the lock of a file, and hold it while the context lasts.

    The file is removed afterwards. `what` names the locked thing for people. A thread may take a lock again that it holds. Where
    the folder may only be read, no process makes anything there, and there is no lock.
    """
    with _held(file, lambda handle: _wait(handle, file, what)):
        yield


@contextmanager
def owned_now(file: Path) -> Iterator[bool]:
    """Whether no other thread or process holds the lock of a file; if so, this thread does while the context lasts."""
    with _held(file, _is_free) as is_ours:
        yield is_ours


@contextmanager
def _held(file: Path, take: Callable[[int], bool]) -> Iterator[bool]:
    key = os.path.realpath(file)
    mine: set[str] = _here.__dict__.setdefault("held", set())
    if key in mine:
        yield True
        return
    handle, is_ours = _locked(file, take)
    if is_ours:
        mine.add(key)
    try:
        yield is_ours
    finally:
        if is_ours:
            mine.discard(key)
        if handle is not None:
            # Whoever waits for this file sees that its name is gone, and takes the next one.
            with suppress(OSError):
                file.unlink()
            os.close(handle)


def _locked(file: Path, take: Callable[[int], bool]) -> tuple[int | None, bool]:
    """The locked file, and whether this thread may go on. The file is None if it is not locked, or in a folder that may only be
    read."""
    while (handle := _opened(file)) is not None:
        try:
            is_ours = take(handle)
            if is_ours and os.fstat(handle).st_nlink > 1:
                file.unlink()  # somebody's file under a second name: nothing is written into it
            elif is_ours and _is_at(handle, file):
                with suppress(OSError):  # a file that may only be read
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                return handle, True
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if not is_ours:
            return None, False
        # Else its last owner has removed it meanwhile.
    return None, True


def _is_free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(handle: int, file: Path, what: str) -> bool:
    if not _is_free(handle):
        tell = _tell.get() or (lambda sentence: None)
        tell(f"waits for {_holder(file)}, which makes {what}")
        fcntl.flock(handle, fcntl.LOCK_EX)
        tell("")
    return True


def _opened(file: Path) -> int | None:
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:
            return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except FileNotFoundError:
            return None  # the folder is not there, or may only be read
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
    return None


def _is_at(handle: int, file: Path) -> bool:
    """Whether the name of a file still leads to the open one."""
    try:
        there = file.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(handle)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _holder(file: Path) -> str:
    with suppress(OSError, ValueError):
        return f"process {int(file.read_text(encoding='ascii')[:20])}"
    return "another process"
