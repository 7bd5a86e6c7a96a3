"""Events and reviews acknowledged per second, each after an fdatasync, while the drain stores them: real server, over loopback.

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
_HEAD = b"POST /%s/bench?timeout=30s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_AUDIT_ID = re.compile(rb'"auditID":"([0-9a-f]{8})')


def run() -> list[dict[str, Any]]:
    """Rows for 1, 3 and 10 senders of batches, over plain HTTP and over TLS, and of reviews over TLS, as API servers send them."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as name:
        folder = Path(name)
        keys = _certificate(folder)
        for posters, tls in product(POSTERS, (False, True)):
            label = f"{posters} sender{'s' * (posters > 1)}{', TLS' * tls}"
            found = _load(folder / f"audit-{posters}-{tls}", "audit", posters, keys if tls else None)
            batches = f"{found['batches']} batches of {found['events_each']} events, {found['bytes_each'] / 1e6:.1f} MB each"
            rows += _rows(label, found, "acknowledged", "events/s", "ms/batch", batches)
        for posters in POSTERS:
            label = f"{posters} sender{'s' * (posters > 1)} of reviews, TLS"
            found = _load(folder / f"admission-{posters}", "admission", posters, keys)
            reviews = f"{found['batches']} reviews of {found['bytes_each'] / 1e3:.1f} kB each"
            rows += _rows(label, found, "recorded", "reviews/s", "ms/review", reviews)
    return rows


def _load(lake: Path, route: str, posters: int, keys: tuple[Path, Path] | None) -> dict[str, Any]:
    from api.settings import Settings
    from tests.serving import RunningServer

    certificate, key = keys or (None, None)
    settings = Settings(lake=lake, port=0, query=False, drain_interval_seconds=1.0, tls_certificate=certificate, tls_key=key)
    with RunningServer(settings, lake.with_suffix(".log")) as server:
        before = _cpu_seconds(server.process.pid)
        found = _measure(server.port, posters, route, tls=keys is not None)
        found["cpu_ms"] = (_cpu_seconds(server.process.pid) - before) * 1e3 / found["batches_in_all"]
        server.stop()
    return found


def _rows(label: str, found: dict[str, Any], what: str, unit: str, cost: str, detail: str) -> list[dict[str, Any]]:
    cells = (
        (what, found["events_per_second"], unit, detail),
        ("p99", found["p99_ms"], "ms", f"p50 {found['p50_ms']:.1f} ms"),
        ("server CPU", found["cpu_ms"], cost, "without drain and senders"),
    )
    return [{"name": f"{name}, {label}", "value": value, "unit": each, "detail": words} for name, value, each, words in cells]


def _measure(port: int, posters: int, route: str, *, tls: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, str(port), str(posters), route, "tls" if tls else "plain"]
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


class _Reviews(_Bodies):
    """The same supply of reviews of the objects in that batch, one of them a body."""

    def __init__(self) -> None:
        super().__init__()
        events = json.loads(self._body)["items"]
        self._reviews = [_review(event) for event in events if event.get("objectRef") and event.get("responseObject")]
        self.places = [0]

    def next(self) -> bytes:
        self._number += 1
        uid = b"%08x-0000-0000-0000-000000000000" % self._number
        return self._reviews[self._number % len(self._reviews)].replace(b"UID", uid, 1)


def _review(event: dict[str, Any]) -> bytes:
    """An update of the object that the answer of an event has."""
    place = {"group": event["objectRef"].get("apiGroup", ""), "version": "v1", "resource": event["objectRef"]["resource"]}
    asked = {"uid": "UID", "operation": "UPDATE", "resource": place, "requestResource": place, "userInfo": event["user"]}
    asked |= {"object": event["responseObject"], "oldObject": event["responseObject"], "dryRun": False}
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked}).encode()


async def _sender(port: int, context: ssl.SSLContext | None, bodies: _Bodies, until: float, seconds: list[float]) -> None:
    route = b"admission" if isinstance(bodies, _Reviews) else b"audit"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    while time.perf_counter() < until:
        body = bodies.next()
        started = time.perf_counter()
        writer.write(_HEAD % (route, len(body)))
        writer.write(body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", answer)[1])  # type: ignore[index]
        await reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        seconds.append(time.perf_counter() - started)
    writer.close()


async def _send(port: int, posters: int, route: str, *, tls: bool) -> dict[str, Any]:
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    bodies = _Reviews() if route == "admission" else _Bodies()
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
    print(json.dumps(asyncio.run(_send(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], tls=sys.argv[4] == "tls"))))
