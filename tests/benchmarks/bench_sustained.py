"""Sustained ingest: senders at a fixed rate, the drain, and readers, all at the same time against the real server.

Every sender is an API server at its own pace: the next batch is due when its time has come, whether or not the last one was
acknowledged in time, and the time to its acknowledgement counts from when it was due. What is not acknowledged is sent again.
Events are those of the bundled log with new audit IDs and the time of now. Readers ask heavy questions one after the other.

`python -m tests.benchmarks.bench_sustained --seconds 600 --rate 4000 --senders 3 --readers 4` is the long form.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import zstandard

_PROJECT = Path(__file__).parents[2]
_LOG = _PROJECT / "api" / "demo" / "audit.jsonl.zst"
_BATCH_EVENTS = 400  # --audit-webhook-batch-max-size of an API server
_HEAD = (
    b"POST /audit/bench-%d?timeout=30s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
_ID = re.compile(rb'"auditID":"([0-9a-f]{8})')
_TIME = re.compile(rb'"(?:stageTimestamp|requestReceivedTimestamp)":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"')
_AGAIN_SECONDS = 1.0
_SAMPLE_SECONDS = 1.0
_REST_SECONDS_MAX = 600.0
# What reads much: views over all events, and pages that need several of them.
QUESTIONS = (
    "/api/v1/violations/rollup?by=policy&by=workload",
    "/api/v1/requests?limit=1000&verb=create",
    "/api/v1/violations?limit=1000",
    "/violations",
    "/api/v1/evidence",
    "/evidence",
    "/api/v1/sources",
    "/",
)


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of the server. `rate` is events/s of all senders together."""

    seconds: float = 40.0
    rate: float = 4000.0
    senders: int = 3
    readers: int = 4


@dataclass(slots=True)
class _Watched:
    """What was seen while it ran: lag by second, memory by process, answers of readers."""

    lag_events: list[float] = field(default_factory=list)
    lag_seconds: list[float] = field(default_factory=list)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    answer_seconds: list[float] = field(default_factory=list)


def run(load: Load | None = None, drain_interval_seconds: float = 10.0) -> list[dict[str, Any]]:
    """Rows for acknowledgements, storage, lag, readers and memory under `load`."""
    from api.settings import Settings
    from tests.serving import RunningServer

    load = load or Load()
    watched = _Watched()
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as name:
        folder = Path(name)
        settings = Settings(lake=folder / "lake", port=0, query_port=0, drain_interval_seconds=drain_interval_seconds)
        with RunningServer(settings, folder / "log") as server:
            query_port = server.port_of("query_listening")
            over = threading.Event()
            threads = [threading.Thread(target=_read, args=(query_port, number, over, watched)) for number in range(load.readers)]
            threads.append(threading.Thread(target=_watch, args=(server, over, watched)))
            before = _cpu_seconds(server)
            for thread in threads:
                thread.start()
            sent = _sent_by_another(server.port, load)
            used = {process: seconds - before.get(process, 0.0) for process, seconds in _cpu_seconds(server).items()}
            at_end = _metrics(server)
            rest_seconds = _come_to_rest(server)
            over.set()
            for thread in threads:
                thread.join()
            stored = int(_metrics(server)['hindcast_drain_events_total{result="stored"}'])
            server.stop()
    return _rows(load, sent, at_end, stored, rest_seconds, watched, used)


def _rows(
    load: Load, sent: dict[str, Any], at_end: dict[str, float], stored: int, rest: float, watched: _Watched, used: dict[str, float]
) -> list[dict[str, Any]]:
    what = f"{load.senders} senders, {load.rate:,.0f} events/s, {load.readers} readers, {load.seconds:.0f} s"
    kept = int(at_end['hindcast_drain_events_total{result="stored"}'])
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(watched.answers.items()))
    middle = sorted(watched.answer_seconds)[len(watched.answer_seconds) // 2] if watched.answer_seconds else 0.0
    rows: list[tuple[str, float, str, str]] = [
        ("acknowledged", sent["acknowledged"], "events", what),
        ("acknowledged", sent["acknowledged"] / sent["seconds"], "events/s", f"{sent['tried_again']} batches were sent again"),
        ("stored at the end", kept, "events", ""),
        ("stored after a rest", stored, "events", f"{sent['acknowledged'] - stored} of the acknowledged are missing"),
        ("acknowledgement, p50", sent["p50_ms"], "ms", "from when a batch was due"),
        ("acknowledgement, p99", sent["p99_ms"], "ms", f"at most {sent['max_ms']:.0f} ms"),
        ("lag at the end", at_end["hindcast_drain_lag_events"], "events", f"at most {max(watched.lag_events, default=0):,.0f}"),
        ("lag at the end", at_end["hindcast_drain_lag_seconds"], "s", f"at most {max(watched.lag_seconds, default=0):.1f}"),
        ("until all is stored", rest, "s", "after the last batch; with the time that a segment may stay open"),
        ("questions answered", sum(watched.answers.values()), "answers", f"{answers}; p50 {middle:.2f} s"),
        *((f"memory, {name}", size / 1e6, "MB at most", "") for name, size in sorted(watched.peak_bytes.items())),
        *((f"processor, {name}", seconds / sent["seconds"], "cores", "") for name, seconds in sorted(used.items())),
    ]
    return [{"name": name, "value": value, "unit": unit, "detail": detail} for name, value, unit, detail in rows]


def _processes(server: Any) -> Iterator[tuple[str, int]]:
    yield "sink", server.process.pid
    for name, event in (("drain", "drain_started"), ("query", "query_listening")):
        if started := server.lines(event):
            yield name, int(started[-1]["pid"])


def _cpu_seconds(server: Any) -> dict[str, float]:
    """User and system time by process."""
    found = {}
    for name, pid in _processes(server):
        with suppress(OSError):
            values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[name] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _metrics(server: Any) -> dict[str, float]:
    _, body = server.get("/metrics")
    lines = (line.rpartition(" ") for line in body.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _watch(server: Any, over: threading.Event, watched: _Watched) -> None:
    """Note the lag and the memory now and then."""
    while not over.wait(_SAMPLE_SECONDS):
        with suppress(OSError, http.client.HTTPException):
            found = _metrics(server)
            watched.lag_events.append(found["hindcast_drain_lag_events"])
            watched.lag_seconds.append(found["hindcast_drain_lag_seconds"])
        for name, pid in _processes(server):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
                watched.peak_bytes[name] = max(peak, watched.peak_bytes.get(name, 0))


def _read(port: int, number: int, over: threading.Event, watched: _Watched) -> None:
    """Ask one question after the other, each reader beginning with another one."""
    for question in islice(cycle(QUESTIONS), number, None):
        if over.is_set():
            return
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request("GET", question)
            response = connection.getresponse()
            response.read()
            watched.answers[response.status] += 1
        except (OSError, http.client.HTTPException):
            watched.answers[0] += 1
        finally:
            connection.close()
        watched.answer_seconds.append(time.perf_counter() - started)


def _come_to_rest(server: Any) -> float:
    """Wait until the lake has everything; returns the seconds that took."""
    started = time.monotonic()
    while time.monotonic() - started < _REST_SECONDS_MAX:
        if _metrics(server)["hindcast_drain_lag_events"] == 0:
            break
        time.sleep(0.2)
    return time.monotonic() - started


def _sent_by_another(port: int, load: Load) -> dict[str, Any]:
    """Send from a process of its own, whose processor time is not the server's."""
    numbers = (port, load.seconds, load.rate, load.senders)
    command = [sys.executable, __file__, "--send", *map(str, numbers)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=load.seconds + 300)
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


class _Bodies:
    """An endless supply of bodies: the batches of the bundled log in their order, with new audit IDs and the time of now."""

    def __init__(self, number: int) -> None:
        with _LOG.open("rb") as handle:
            lines = zstandard.ZstdDecompressor().stream_reader(handle, read_across_frames=True).read().splitlines()
        starts = range(0, len(lines) - _BATCH_EVENTS + 1, _BATCH_EVENTS)
        self._batches = cycle([_body(lines[start : start + _BATCH_EVENTS]) for start in starts])
        self._next_id = number << 28

    def next(self) -> bytes:
        body, ids, times = next(self._batches)
        for place in ids:
            self._next_id += 1
            body[place : place + 8] = b"%08x" % self._next_id
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
        for place in times:
            body[place : place + len(now)] = now
        return bytes(body)


def _body(lines: list[bytes]) -> tuple[bytearray, list[int], list[int]]:
    body = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[' + b",".join(lines) + b"]}\n"
    ids = [match.start(1) for match in _ID.finditer(body)]
    return bytearray(body), ids, [match.start(1) for match in _TIME.finditer(body)]


@dataclass(slots=True)
class _Sent:
    acknowledged: int = 0
    tried_again: int = 0
    seconds: list[float] = field(default_factory=list)


async def _sender(port: int, number: int, pause_seconds: float, until: float, sent: _Sent) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    bodies = _Bodies(number)
    due = time.perf_counter() + number * pause_seconds / 3
    while due < until:
        body = bodies.next()
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        while True:
            writer.write(_HEAD % (number, len(body)))
            writer.write(body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", answer)
            await reader.readexactly(int(length[1]) if length else 0)
            if answer.startswith(b"HTTP/1.1 200"):
                break
            sent.tried_again += 1
            await asyncio.sleep(_AGAIN_SECONDS)
        sent.acknowledged += _BATCH_EVENTS
        sent.seconds.append(time.perf_counter() - due)
        due += pause_seconds
    writer.close()


async def _send(port: int, seconds: float, rate: float, senders: int) -> dict[str, Any]:
    sent = _Sent()
    pause_seconds = _BATCH_EVENTS * senders / rate
    started = time.perf_counter()
    await asyncio.gather(*(_sender(port, number, pause_seconds, started + seconds, sent) for number in range(senders)))
    took = sorted(sent.seconds)
    return {
        "acknowledged": sent.acknowledged,
        "tried_again": sent.tried_again,
        "seconds": max(seconds, time.perf_counter() - started),
        "p50_ms": took[len(took) // 2] * 1e3,
        "p99_ms": took[int(len(took) * 0.99)] * 1e3,
        "max_ms": took[-1] * 1e3,
    }


def main() -> None:
    """Print a table and the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = Load()
    parser.add_argument("--seconds", type=float, default=default.seconds, help="how long senders send")
    parser.add_argument("--rate", type=float, default=default.rate, help="events/s of all senders together")
    parser.add_argument("--senders", type=int, default=default.senders)
    parser.add_argument("--readers", type=int, default=default.readers)
    parser.add_argument("--drain-interval-seconds", type=float, default=10.0)
    given = parser.parse_args()
    rows = run(Load(given.seconds, given.rate, given.senders, given.readers), given.drain_interval_seconds)
    for row in rows:
        print(f"{row['name']:24} {row['value']:>14,.1f} {row['unit']:10} {row['detail']}")
    print(json.dumps(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        port, seconds, rate, senders = sys.argv[2:]
        print(json.dumps(asyncio.run(_send(int(port), float(seconds), float(rate), int(senders)))))
    else:
        main()
