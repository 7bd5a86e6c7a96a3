"""Standard output whose reader may leave early, as `head` does: a command then ends as if all had been read."""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

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
    """A stream that writes to the same place as `stream`, and drops all output after its reader has left. Close it after use.

    So a command does the rest of its work, and its exit code says how that ended. It has a descriptor of its own: the last owner of
    `stream` may close it, and the next file that opens, such as the lake's manifest, would get its number.
    """
    if stream is None:  # the shell closed it (`>&-`); another file must not take its number
        return Path(os.devnull).open("w", encoding="utf-8")
    try:
        stream.flush()
        raw = _Pipe(os.dup(stream.fileno()), "w")
    except io.UnsupportedOperation:  # a stream without a file, in the memory of a caller
        return cast(TextIO, _Kept(stream))
    except (OSError, ValueError):  # it is closed, or its descriptor is
        return Path(os.devnull).open("w", encoding="utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=raw.isatty() or stream is sys.stderr,
        write_through=stream is sys.stderr,
    )


def readable(stream: TextIO | None) -> TextIO:
    """Standard input as commands read it: with bytes, and empty if it is closed. The number of a closed one is taken."""
    try:
        if stream is not None and not stream.closed and hasattr(stream, "buffer"):
            return stream
        if stream is not None and not stream.closed:
            return io.TextIOWrapper(io.BytesIO(stream.read().encode()), "utf-8")
    except (OSError, ValueError):
        pass
    return Path(os.devnull).open(encoding="utf-8")


class _Kept(io.TextIOBase):
    """Writes into a caller's stream, which stays open when this one is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return self._stream.write(text)

    def flush(self) -> None:
        if not self.closed:
            self._stream.flush()


def has_reader(stream: TextIO) -> bool:
    """Whether a process may still read a stream. A command that runs without an end stops when its reader has left."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # a stream that is not a file
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))
