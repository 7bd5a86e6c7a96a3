"""Events acknowledged per second, each after an fdatasync, while the drain stores them: real server, real bodies, loopback.

The senders are closed loops in a process of their own on the same machine: the next batch leaves when the last one is acknowledged.
Every body is new: the audit IDs of a recorded batch are changed in place before it is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import trustme
import zstandard

POST = Path(__file__).parents[1] / "cases" / "posts" / "000005.json.zst"
SECONDS = 4.0
POSTERS = (1, 3, 10)
_HEAD = b"POST /audit/bench?timeout=30s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_AUDIT_ID = re.compile(rb'"auditID":"([0-9a-f]{8})')


def run() -> list[dict[str, Any]]:
    """Rows for 1, 3 and 10 senders, over plain HTTP and over TLS."""
    from api.settings import Settings
    from tests.serving import RunningServer

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as name:
        folder = Path(name)
        certificate, key = _certificate(folder)
        for posters, tls in product(POSTERS, (False, True)):
            label = f"{posters} sender{'s' * (posters > 1)}{', TLS' * tls}"
            lake = folder / f"{posters}-{tls}"
            settings = Settings(
                lake=lake,
                port=0,
                query=False,
                drain_interval_seconds=1.0,
                tls_certificate=certificate if tls else None,
                tls_key=key if tls else None,
            )
            with RunningServer(settings, folder / f"{lake.name}.log") as server:
                before = _cpu_seconds(server.process.pid)
                found = _measure(server.port, posters, tls)
                cpu_seconds = _cpu_seconds(server.process.pid) - before
                server.stop()
            batches = f"{found['batches']} batches of {found['events_each']} events, {found['bytes_each'] / 1e6:.1f} MB each"
            cpu_ms = cpu_seconds * 1e3 / found["batches_in_all"]
            for what, value, unit, detail in (
                ("acknowledged", found["events_per_second"], "events/s", batches),
                ("p99", found["p99_ms"], "ms", f"p50 {found['p50_ms']:.1f} ms"),
                ("server CPU", cpu_ms, "ms/batch", "without drain and senders"),
            ):
                rows.append({"name": f"{what}, {label}", "value": value, "unit": unit, "detail": detail})
    return rows


def _measure(port: int, posters: int, tls: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, str(port), str(posters), "tls" if tls else "plain"]
    result: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=SECONDS + 60).stdout)
    return result


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process; unlike the rate it hardly depends on who else uses the machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_pem.write_to_path(str(key))
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    return certificate, key


class _Bodies:
    """An endless supply of bodies that no server has seen."""

    def __init__(self) -> None:
        self._body = bytearray(zstandard.ZstdDecompressor().decompress(POST.read_bytes()))
        self.places = [match.start(1) for match in _AUDIT_ID.finditer(self._body)]
        self._number = 0

    def next(self) -> bytes:
        self._number += 1
        prefix = b"%08x" % self._number
        for place in self.places:
            self._body[place : place + 8] = prefix
        return bytes(self._body)


async def _sender(port: int, context: ssl.SSLContext | None, bodies: _Bodies, until: float, seconds: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    while time.perf_counter() < until:
        body = bodies.next()
        started = time.perf_counter()
        writer.write(_HEAD % len(body))
        writer.write(body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", answer)[1])  # type: ignore[index]
        await reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        seconds.append(time.perf_counter() - started)
    writer.close()


async def _send(port: int, posters: int, tls: bool) -> dict[str, Any]:
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    bodies = _Bodies()
    first: list[float] = []
    await _sender(port, context, bodies, time.perf_counter() + 0.5, first)
    seconds: list[float] = []
    started = time.perf_counter()
    await asyncio.gather(*(_sender(port, context, bodies, started + SECONDS, seconds) for _ in range(posters)))
    elapsed = time.perf_counter() - started
    seconds.sort()
    return {
        "batches": len(seconds),
        "batches_in_all": len(first) + len(seconds),
        "events_each": len(bodies.places),
        "bytes_each": len(bodies.next()),
        "events_per_second": len(seconds) * len(bodies.places) / elapsed,
        "p50_ms": seconds[len(seconds) // 2] * 1e3,
        "p99_ms": seconds[int(len(seconds) * 0.99)] * 1e3,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_send(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "tls"))))
