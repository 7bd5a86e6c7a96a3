"""Takes large and broken lists apart in processes of its own, so that slow lists do not delay acknowledgements.

The server's threads share one interpreter, and one search over a hostile string of 60 MB holds it for seconds. A process starts
when it is first needed, has limits of time and memory, and ends with the server.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from .errors import LakeError
from .eventlist import BadItem, NotAnEventListError, TooMuchError, parse_event_list
from .notes import sealed
from .redaction.redact import Redactor
from .sources.reviews import event_of_review, is_review_of_request

# A batch of an API server has a third of this size. The storing thread takes smaller lists apart itself, in a fraction of a second.
APART_BYTES = 4 * 1024 * 1024
PROCESSOR_SECONDS_MAX = 20.0
WAIT_SECONDS_MAX = 25.0  # an API server gives up after 30 s
MEMORY_BYTES_MAX = 2 * 1024**3
_NICENESS = 5
_FAULTS = (NotAnEventListError, TooMuchError)
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Taken:
    """The sealed events of a list as they may be written to disk; `redacted` counts those from which credentials were removed."""

    lines: list[bytes]
    bad: list[BadItem]
    redacted: int


def take_apart(body: bytes | bytearray, items_max: int | None, redactor: Redactor | None) -> Taken:
    """Take a POST body apart in this process. Raises NotAnEventListError and TooMuchError."""
    events = parse_event_list(body, items_max)
    foreign = [sealed(line) for line in events.lines]
    bad = [BadItem(sealed(item.raw), item.reason) for item in events.bad]
    if redactor is None:
        return Taken(foreign, bad, 0)
    lines = [redactor.apply(line) for line in foreign]
    # apply returns the same object when it removed nothing.
    redacted = sum(before is not after for before, after in zip(foreign, lines, strict=True))
    return Taken(lines, [BadItem(redactor.apply(item.raw), item.reason) for item in bad], redacted)


def take_review(body: bytes | bytearray, received_ts: float, redactor: Redactor | None) -> Taken:
    """The event of an AdmissionReview that arrived at a time. Raises NotAnEventListError for another body."""
    line = event_of_review(bytes(body), datetime.fromtimestamp(received_ts, UTC).isoformat())
    if line is None and not is_review_of_request(bytes(body)):
        raise NotAnEventListError(
            "the body is not an AdmissionReview with a request", "only a ValidatingWebhookConfiguration leads an API server here"
        )
    if line is None:  # no server sends such a review
        raw = bytes(body) if redactor is None else redactor.apply(bytes(body))
        return Taken([], [BadItem(raw, "the AdmissionReview lacks what a request has, or has it in another form")], 0)
    cleaned = line if redactor is None else redactor.apply(line)
    return Taken([cleaned], [], int(cleaned is not line))


class Apart:
    """Runs at most `processes_max` processes at one time; other threads wait for a free one. Thread-safe."""

    def __init__(self, redactor: Redactor | None, processes_max: int = 2, seconds_max: float = PROCESSOR_SECONDS_MAX) -> None:
        self._redactor = redactor
        self._free = threading.BoundedSemaphore(processes_max)
        self._lock = threading.Lock()
        self._idle: list[subprocess.Popen[bytes]] = []
        self._seconds_max = seconds_max
        self._wait_seconds_max = WAIT_SECONDS_MAX

    def take_apart(self, body: bytes | bytearray, items_max: int | None) -> Taken:
        """Like the function of this name; raises TooMuchError as well when it takes too much processor time or memory.

        Raises LakeError when no process can be started, or when a busy machine does not let it end in time: try again later.
        """
        with self._free:
            process = self._process()
            try:
                answer = _asked(process, body, (items_max, self._redactor, self._seconds_max), self._wait_seconds_max)
            except (OSError, EOFError) as error:
                process.kill()
                process.wait()
                _close(process)
                if isinstance(error, TimeoutError):
                    raise LakeError(
                        "the machine is too busy to take a large list apart", "the sender tries again by itself"
                    ) from None
                raise TooMuchError(
                    f"taking the list apart took more than {self._seconds_max:.0f} s of work or {MEMORY_BYTES_MAX} bytes of memory",
                    "set a smaller --audit-webhook-batch-max-size",
                ) from error
            with self._lock:
                self._idle.append(process)
        if isinstance(answer, Taken):
            return answer
        number, message, hint = answer
        raise _FAULTS[number](message, hint)

    def _process(self) -> subprocess.Popen[bytes]:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.poll() is None:
                    return process
                _close(process)
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "ingest.apart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise LakeError(f"no process can be started to take a list apart: {error}", "free memory or processes") from error

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            for process in self._idle:
                process.kill()
                process.wait()
                _close(process)
            self._idle.clear()


def _asked(
    process: subprocess.Popen[bytes],
    body: bytes | bytearray,
    how: tuple[int | None, Redactor | None, float],
    wait_seconds_max: float,
) -> Taken | tuple[int, str, str]:
    """The answer of a process. Raises TimeoutError if it was killed because that took too long, OSError or EOFError if it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        process.kill()

    # The read of a killed process's answer fails.
    alarm = threading.Timer(wait_seconds_max, end)
    alarm.start()
    try:
        _send(process.stdin, pickle.dumps(how), body)
        answer: Taken | tuple[int, str, str] = pickle.loads(_received(process.stdout))
        return answer
    except (OSError, EOFError):
        if is_late.is_set():
            raise TimeoutError from None
        raise
    finally:
        alarm.cancel()


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _send(pipe: IO[bytes], *parts: bytes | bytearray) -> None:
    for part in parts:
        pipe.write(_LENGTH.pack(len(part)))
        pipe.write(part)
    pipe.flush()


def _received(pipe: IO[bytes]) -> bytearray:
    (size,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, size)


def _exactly(pipe: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = pipe.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        view = view[count:]
    return data


def main(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Take lists apart until the pipe closes. Its timer counts processor time, and ends the process whatever it does."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    while True:
        try:
            items_max, redactor, seconds_max = pickle.loads(_received(requests))
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds_max)
        body = _received(requests)
        answer: Any
        try:
            answer = take_apart(body, items_max, redactor)
        except _FAULTS as error:
            answer = (_FAULTS.index(type(error)), error.message, error.hint)
        del body
        text = io.BytesIO()
        pickle.dump(answer, text, pickle.HIGHEST_PROTOCOL)
        del answer
        signal.setitimer(signal.ITIMER_PROF, 0)
        with suppress(BrokenPipeError):
            _send(answers, text.getbuffer())  # type: ignore[arg-type]


if __name__ == "__main__":
    os.nice(_NICENESS)
    # Imported under the name by which the server knows its classes.
    from ingest import apart

    apart.main(sys.stdin.buffer, sys.stdout.buffer)
