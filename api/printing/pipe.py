"""Standard output whose reader may leave early, as `head` does: a command then ends as if all had been read."""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import TextIO


class _Pipe(io.FileIO):
    """A file whose writes after the end of its reader go nowhere."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def patient(stream: TextIO | None) -> TextIO:
    """A stream that writes to the same place as `stream`, and drops what its reader does not want any more.

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
    """Whether somebody may still read what is written to a stream; a command without an end asks this."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # a stream that is not a file
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))
