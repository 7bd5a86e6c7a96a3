"""Standard output whose reader may leave early, as `head` does: a command then ends as if all had been read."""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Pipe(io.FileIO):
    """A file whose writes after the end of its reader go nowhere."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def patient(stream: TextIO | None) -> TextIO:
    """A stream that writes to the same place as `stream`, and drops all output after its reader has left.

    So a command does the rest of its work, and its exit code says how that ended.
    """
    if stream is None:  # the shell closed it (`>&-`); another file must not take its number
        return Path(os.devnull).open("w", encoding="utf-8")
    stream.flush()
    raw = _Pipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=raw.isatty() or stream is sys.stderr,
        write_through=stream is sys.stderr,
    )


def has_reader(stream: TextIO) -> bool:
    """Whether a process may still read a stream. A command that runs without an end stops when its reader has left."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # a stream that is not a file
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))
