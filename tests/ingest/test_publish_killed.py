"""A publisher that is killed at any of its requests harms no reader, and the next one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.published.catalogs import open_tables, static_table
from ingest.published.publish import publish
from ingest.published.tables import entries
from ingest.published.target import Target, filesystem_of, path_of
from ingest.store import EventStore, Lines
from tests.relay import Relay, relaying
from tests.storage import Storage

Event = Callable[..., bytes]
LATER = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
_STRIDE = 8
# Each line of input makes one publication in a process of its own, which costs no new start.
_PROGRAM = """
import os, sys, time
from pathlib import Path
from ingest.lake import Lake
from ingest.published.publish import publish
from ingest.published.target import Target
for line in sys.stdin:
    process = os.fork()
    if not process:
        sys.stdin.readline()
        now = time.time()
        publish(Lake.open(Path(sys.argv[1])), Target(sys.argv[2]), now, now - 2)
        os._exit(0)
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Publisher:
    """Publications through a relay that can kill them."""

    def __init__(self, process: subprocess.Popen[str], relay: Relay) -> None:
        self._process = process
        self._relay = relay

    def run(self, last: int = 0, *, is_answered: bool = False) -> bool:
        """Publish, and die at request number `last`; whether the publication came to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._relay.arm(last, is_answered=is_answered)
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._relay.watch(int(self._process.stdout.readline()))
        self._process.stdin.write("watched\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -9)
        return code == 0


@contextmanager
def publishing(lake: Lake, target: Target, relay: Relay) -> Iterator[Publisher]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(lake.path), target.url],
        env={**os.environ, "AWS_ENDPOINT_URL": relay.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Publisher(process, relay)
        assert process.stdin is not None
        process.stdin.close()


def ids_of(paths: list[str], target: Target | None = None) -> list[str]:
    filesystem = filesystem_of(target.url) if target else None
    tables = [pq.read_table(path_of(path), partitioning=None, columns=["audit_id"], filesystem=filesystem) for path in paths]
    return sorted(value for table in tables for value in table["audit_id"].to_pylist())


def published(target: Target, lake: Lake) -> tuple[list[str], list[str]]:
    """The audit IDs that a reader sees who asks the hint, and those that one sees who asks the catalog."""
    tables = open_tables(target, lake.path)
    by_hint, by_catalog = static_table(target, "events"), tables.find("events")
    tables.close()
    assert by_hint is not None
    assert by_catalog is not None
    return ids_of(list(entries(by_hint)), target), ids_of(list(entries(by_catalog)), target)


def test_a_publisher_may_die_at_any_request(lake: Lake, event: Event, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in storage.environment().items():
        monkeypatch.setenv(name, value)
    target = Target.parse("s3://lakes/killed")
    kills = 0
    with relaying(storage.endpoint) as relay, publishing(lake, target, relay) as publisher:
        assert publisher.run()
        before: list[str] = []
        for number in range(1, 200):
            with lake.writer() as writer:
                EventStore(writer).store([Lines("c", "test", 0.0, [event(number), event(number + 86_400)])], {}, "q")
                if number % 3 == 0:
                    compact(writer, LATER)
            now = ids_of([str(path) for path in lake.files()])
            is_whole = publisher.run(1 + (number - 1) * _STRIDE, is_answered=number % 2 == 0)
            for seen in published(target, lake):
                assert seen in (before, now), "a reader sees an event twice, or not at all"
            if is_whole:
                break
            kills += 1
            assert publisher.run()
            assert published(target, lake) == (now, now)
            before = now
    assert kills >= 6
    with lake.writer() as writer:
        remove_retired(writer, LATER + 86_400)
    publish(lake, target, time.time(), time.time())
    found = filesystem_of(target.url).get_file_info(fs.FileSelector(path_of(f"{target.url}/events/data"), recursive=True))
    names = {Path(info.path).stem.partition("-")[0] for info in found if info.is_file}
    assert names == {path.stem for path in lake.files()}, "no object of a killed publication is left"
