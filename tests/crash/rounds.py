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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from api.settings import Settings
from ingest.lake import Lake
from ingest.maintain import verify
from ingest.spooling.spool import Batch, read_segment, sealed_segments
from tests.serving import RunningServer, send

POST = Path(__file__).parents[1] / "cases" / "posts" / "000005.json.zst"
EVENTS_PER_BATCH = 25
# kubernetes/apiserver plugin/pkg/audit/webhook/webhook.go: five tries, each pause half as long again. 10 s there, a hundredth here.
TRIES = 5
PAUSE_SECONDS = 0.1
# Between two batches; without it a drain that is killed all the time never gets through what waits, nor to its upkeep.
REST_SECONDS = 0.1
_LOCKS = Path("/proc/locks")
_DISK_BYTES = 1 << 30  # merged files stay for a quarter of an hour, and merging goes on all the time
_FULL_EVERY = 5
_DRAIN_PATIENCE_SECONDS = 15.0  # its supervisor waits longer after each end
# At the end the drain may take as long as it gets on: how fast depends on the machine, and not on what is proven here.
_REST_SECONDS_MAX = 600.0
_STALL_SECONDS = 60.0


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
            time.sleep(self._chance.uniform(0.0, 2 * REST_SECONDS))
            sequence += 1
            start = self._chance.randrange(len(self._items) - EVENTS_PER_BATCH)
            names = [f"{self._number}-{sequence}-{n}" for n in range(EVENTS_PER_BATCH)]
            # Of now, as an API server's are: the drain looks for repeats among the stored events of the same time.
            now = {"stageTimestamp": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")}
            items = [{**item, **now, "auditID": name} for item, name in zip(self._items[start:], names, strict=False)]
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
            maintain_interval_seconds=0.5,
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
        return {**attack.figures(), **_compare(settings, threads, complaints)}


class _Attack:
    def __init__(self, settings: Settings, log: Path, chance: random.Random, has_own_disk: bool) -> None:
        self.settings, self.over, self.port = settings, threading.Event(), [1]
        self.kills: Counter[str] = Counter()
        self.times_full = self.kills_while_writing = 0
        self._waiting_before: set[Path] = set()
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
            if not (victim == "drain" and self._kill_drain()):
                victim = "server"
                self.server.kill()
            self.kills[victim] += 1
            if full:
                self._ballast.unlink()
            if victim == "server":
                self._start()

    def _kill_drain(self) -> bool:
        """Kill the drain at some moment of its life; False when none runs.

        Where it only killed at once, no unit would ever be committed; where it always waited, nothing would be torn.
        """
        waited_for = self._chance.choice((self._is_alive, self._writes, self._writes, self._has_stored, self._is_idle))
        deadline = time.monotonic() + _DRAIN_PATIENCE_SECONDS
        self._waiting_before = set(sealed_segments(self.settings.spool))
        while not (self._is_alive() and waited_for()) and time.monotonic() < deadline:
            time.sleep(0.01)
        # Upkeep comes when the drain is idle.
        time.sleep(self._chance.uniform(0.0, 2.0 if waited_for == self._is_idle else 0.4))
        writes = self._is_alive() and self._writes()
        killed = self.server.kill_drain()
        self.kills_while_writing += writes and killed
        return killed

    def _is_alive(self) -> bool:
        return self.server.drain_runs

    def _writes(self) -> bool:
        return _holds_a_lock(self.server.drain_pid)

    def _has_stored(self) -> bool:
        return not self._waiting_before <= set(sealed_segments(self.settings.spool))

    def _is_idle(self) -> bool:
        return len(sealed_segments(self.settings.spool)) <= 1

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
            thread.join(timeout=_STALL_SECONDS)
        self.server.kill()
        self._start()
        if (left := self._left_in_spool()) > 0:
            failed = [entry["error"] for entry in self.server.lines("drain_failed")]
            return [f"the spool does not empty: {left} files, {failed[-1:]}"]
        code = self.server.stop()
        text = self._log.read_text()
        found = [f"the server ended with {code}"] if code else []
        return found + ["a traceback is in the log"] * ("Traceback" in text)

    def _left_in_spool(self) -> int:
        """How many segments remain when the drain has none left, or gets on no more."""
        started = changed = time.monotonic()
        before = -1
        while (left := sum(path.name != "lock" for path in self.settings.spool.iterdir())) > 0:
            now = time.monotonic()
            if left != before:
                before, changed = left, now
            if now - changed > _STALL_SECONDS or now - started > _REST_SECONDS_MAX:
                break
            time.sleep(0.05)
        return left

    def figures(self) -> dict[str, Any]:
        """What was done to the server, and what its log says of it."""
        entries = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        events = Counter(entry["event"] for entry in entries)
        return {
            "kills": dict(self.kills),
            "drain_killed_while_writing": self.kills_while_writing,
            "times_full": self.times_full,
            "segments_repaired": events["segment_repaired"],
            "segments_torn": sum(entry["event"] == "segment_repaired" and entry["bytes_cut"] > 0 for entry in entries),
            "drain_passes": events["drained"],
            "drain_passes_failed": events["drain_failed"],
            "upkeep_passes": events["maintained"],
        }


def _holds_a_lock(pid: int) -> bool:
    """Whether a process holds a file lock: the drain has the lake's while it writes (proc_locks(5))."""
    return any(line.split()[1:2] == ["FLOCK"] and line.split()[4] == str(pid) for line in _LOCKS.read_text().splitlines())


def _compare(settings: Settings, threads: list[Sender], complaints: list[str]) -> dict[str, Any]:
    lake = Lake.open(settings.lake)
    stored: Counter[tuple[str, str]] = Counter()
    for path in lake.files():
        table = pq.read_table(path, columns=["cluster", "audit_id"], partitioning=None)
        stored.update(zip(table["cluster"].to_pylist(), table["audit_id"].to_pylist(), strict=True))
    damaged = verify(lake)
    lake.close()
    acknowledged = [(thread.cluster, name) for thread in threads for name in thread.names]
    waiting = {key for key in _waiting(settings.spool) if not stored[key]}
    lost = [key for key in acknowledged if not stored[key] and key not in waiting]
    doubled = [key for key, count in stored.items() if count > 1]
    odd = list((settings.lake / "quarantine").glob("*.zst"))
    kinds = {"lost": lost, "stored more than once": doubled, "damaged": damaged, "in quarantine": odd}
    complaints += [f"{len(found)} {kind}, e.g. {found[0]}" for kind, found in kinds.items() if found]
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "left_waiting": len(waiting),
        "duplicated": len(doubled),
        "stored": len(stored),
        "given_up_by_senders": sum(len(thread.dropped) for thread in threads),
        "answers": dict(sum((thread.answers for thread in threads), Counter())),
        "complaints": complaints,
    }


def _waiting(spool: Path) -> Iterator[tuple[str, str]]:
    """What is durable and was not stored; nothing, when all came to rest."""
    for segment in sealed_segments(spool):
        for found in read_segment(segment):
            if isinstance(found, Batch):
                yield from ((found.cluster, json.loads(line)["auditID"]) for line in found.lines)


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
