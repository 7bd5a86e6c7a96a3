"""The real server under senders that repeat like an API server, killed again and again, on a disk that fills up and comes back."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from api.settings import Settings
from ingest.lake import Lake
from ingest.maintain import verify
from tests.serving import RunningServer, send

POST = Path(__file__).parents[1] / "cases" / "posts" / "000005.json.zst"
EVENTS_PER_BATCH = 25
# kubernetes/apiserver plugin/pkg/audit/webhook/webhook.go: five tries, each pause half as long again. 10 s there, a hundredth here.
TRIES = 5
PAUSE_SECONDS = 0.1
_DISK_BYTES = 1 << 30  # merged files stay for a quarter of an hour, and merging goes on all the time
_FULL_EVERY = 5
_PATIENCE_SECONDS = 90.0


class Sender(threading.Thread):
    """One API server: sends batch after batch, repeats what is not acknowledged, and drops a batch after the fifth try.

    `names` holds the audit IDs of every acknowledged batch, `dropped` those of the others.
    """

    def __init__(self, number: int, seed: int, port: list[int], over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.cluster = f"lab-{number % 2}"
        self.names: list[str] = []
        self.dropped: list[str] = []
        self.answers: Counter[int] = Counter()
        self._number, self._port, self._over = number, port, over
        self._chance = random.Random(f"{seed}-{number}")
        self._items: list[dict[str, Any]] = json.loads(zstandard.ZstdDecompressor().decompress(POST.read_bytes()))["items"]

    def run(self) -> None:
        sequence = 0
        while not self._over.is_set():
            sequence += 1
            start = self._chance.randrange(len(self._items) - EVENTS_PER_BATCH)
            names = [f"{self._number}-{sequence}-{n}" for n in range(EVENTS_PER_BATCH)]
            items = [{**item, "auditID": name} for item, name in zip(self._items[start:], names, strict=False)]
            body = event_list(items)
            if not self._sent(body):
                self.dropped += names
                continue
            self.names += names
            if self._chance.random() < 0.15:
                self._post(body)
            if self._chance.random() < 0.1:
                # The same events in another body: only the drain can tell.
                self._post(event_list(items[::-1]))

    def _sent(self, body: bytes) -> bool:
        pause_seconds = PAUSE_SECONDS
        for attempt in range(TRIES):
            if attempt:
                time.sleep(pause_seconds * self._chance.uniform(1.0, 1.2))
                pause_seconds *= 1.5
            if self._post(body) == 200:
                return True
        return False

    def _post(self, body: bytes) -> int:
        """The status of the answer; 0 for none."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port[0], timeout=30)
        try:
            status, _ = send(connection, "POST", f"/audit/{self.cluster}?timeout=30s", body)
        except (OSError, http.client.HTTPException, ValueError):
            status = 0
        self.answers[status] += 1
        return status


def event_list(items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}).encode()


def run_rounds(folder: Path, *, rounds: int, seconds: float, senders: int, seed: int) -> dict[str, Any]:
    """Kill `rounds` times, or for `seconds`, then let everything come to rest and compare; `complaints` should be empty."""
    with _own_disk(folder / "disk") as has_own_disk:
        settings = Settings(
            lake=folder / "disk" / "lake",
            port=0,
            drain_interval_seconds=0.2,
            maintain_interval_seconds=1.5,
            disk_free_bytes_min=0,
            query=False,
        )
        attack = _Attack(settings, folder / "server.log", random.Random(seed), has_own_disk)
        threads = [Sender(number, seed, attack.port, attack.over) for number in range(senders)]
        try:
            attack.run(threads, rounds, time.monotonic() + seconds)
            complaints = attack.come_to_rest(threads)
        finally:
            attack.server.kill()
        return {**_compare(settings, threads, complaints), "kills": dict(attack.kills), "times_full": attack.times_full}


class _Attack:
    def __init__(self, settings: Settings, log: Path, chance: random.Random, has_own_disk: bool) -> None:
        self.settings, self.over, self.port = settings, threading.Event(), [1]
        self.kills: Counter[str] = Counter()
        self.times_full = 0
        self._log, self._chance, self._has_own_disk = log, chance, has_own_disk
        self._start()

    def _start(self) -> None:
        self.server = RunningServer(self.settings, self._log)
        self.port[0] = self.server.port

    def run(self, threads: list[Sender], rounds: int, deadline: float) -> None:
        for thread in threads:
            thread.start()
        for number in range(rounds):
            if time.monotonic() > deadline:
                return
            time.sleep(self._chance.uniform(0.0, 0.5))
            full = self._has_own_disk and number % _FULL_EVERY == _FULL_EVERY - 1
            if full:
                self._fill()
                time.sleep(self._chance.uniform(0.1, 0.6))
            # Whatever chance says, both are killed at least once.
            victim = next(
                (name for name in ("drain", "server") if not self.kills[name]), self._chance.choice(("drain", "drain", "server"))
            )
            self.kills[victim] += 1
            if victim == "drain":
                self.server.kill_drain()
            else:
                self.server.kill()
            if full:
                self._ballast.unlink()
            if victim == "server":
                self._start()

    @property
    def _ballast(self) -> Path:
        return self.settings.lake.parent / "ballast"

    def _fill(self) -> None:
        self.times_full += 1
        handle = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        os.write(handle, bytes(size))
                except OSError:
                    continue
        finally:
            os.close(handle)

    def come_to_rest(self, threads: list[Sender]) -> list[str]:
        """Stop the senders, start once more, and end in order when everything is stored."""
        self.over.set()
        for thread in threads:
            thread.join(timeout=_PATIENCE_SECONDS)
        self.server.kill()
        self._start()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while any(path.name != "lock" for path in self.settings.spool.iterdir()):
            if time.monotonic() > deadline:
                failed = [entry["error"] for entry in self.server.lines("drain_failed")]
                return [f"the spool does not empty: {len(list(self.settings.spool.iterdir()))} files, {failed[-1:]}"]
            time.sleep(0.05)
        code = self.server.stop()
        text = self._log.read_text()
        found = [f"the server ended with {code}"] if code else []
        return found + ["a traceback is in the log"] * ("Traceback" in text)


def _compare(settings: Settings, threads: list[Sender], complaints: list[str]) -> dict[str, Any]:
    lake = Lake.open(settings.lake)
    stored: Counter[tuple[str, str]] = Counter()
    for path in lake.files():
        table = pq.read_table(path, columns=["cluster", "audit_id"], partitioning=None)
        stored.update(zip(table["cluster"].to_pylist(), table["audit_id"].to_pylist(), strict=True))
    damaged = verify(lake)
    lake.close()
    acknowledged = [(thread.cluster, name) for thread in threads for name in thread.names]
    lost = [key for key in acknowledged if not stored[key]]
    doubled = [key for key, count in stored.items() if count > 1]
    odd = list((settings.lake / "quarantine").glob("*.zst"))
    kinds = {"lost": lost, "stored more than once": doubled, "damaged": damaged, "in quarantine": odd}
    complaints += [f"{len(found)} {kind}, e.g. {found[0]}" for kind, found in kinds.items() if found]
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "duplicated": len(doubled),
        "stored": len(stored),
        "given_up_by_senders": sum(len(thread.dropped) for thread in threads),
        "answers": dict(sum((thread.answers for thread in threads), Counter())),
        "complaints": complaints,
    }


@contextmanager
def _own_disk(folder: Path) -> Iterator[bool]:
    """A small file system of its own at `folder`, where mounting is allowed; else a plain folder and False."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    own = not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%d" % _DISK_BYTES) if hasattr(libc, "mount") else False
    try:
        yield own
    finally:
        if own:
            libc.umount2(os.fsencode(folder), 2)
