"""Logs are followed while they are written, rotated, compressed and cut off: each complete event is stored, once."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, LakeError
from ingest.lake import Lake
from ingest.sources import follow
from ingest.sources.follow import Follower, follow_files, rotated
from ingest.sources.logfile import Reading
from ingest.store import Counts

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]
PROJECT = Path(__file__).parents[2]


def nothing() -> None:
    pass


class Cluster:
    """A kube-apiserver's log in a folder, and one follower of it at a time. Time stands still."""

    def __init__(self, folder: Path, event: Event) -> None:
        self.lake = Lake.create(folder / "lake")
        self.log = folder / "logs" / "audit.log"
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        self.event = event
        self.count = 0
        self.rotations = 0
        self.torn = b""
        self.follower = self.new_follower()

    def new_follower(self) -> Follower:
        return Follower(self.lake, [self.log], Reading("c"), None)

    def write(self, events: int, torn: bool) -> None:
        lines = b""
        for _ in range(events):
            self.count += 1
            lines += self.event(self.count) + b"\n"
        cut = len(lines) - 20 if torn and events else len(lines)
        with self.log.open("ab") as handle:
            handle.write(self.torn + lines[:cut])
        self.torn = lines[cut:]

    def finish_line(self) -> None:
        self.write(0, torn=False)

    def rotate(self, compress: bool) -> None:
        """As kube-apiserver: a line is never cut in two by it."""
        self.finish_line()
        self.rotations += 1
        copy = self.log.with_name(f"audit-2026-11-01T00-00-{self.rotations:02}.000.log")
        self.log.rename(copy)
        if compress:
            copy.with_name(copy.name + ".gz").write_bytes(gzip.compress(copy.read_bytes()))
            copy.unlink()
        self.log.touch()

    def copy_and_cut_off(self) -> None:
        self.finish_line()
        self.rotations += 1
        self.log.with_name(f"audit.log.{self.rotations}").write_bytes(self.log.read_bytes())
        os.truncate(self.log, 0)

    def look(self, is_last: bool = False) -> None:
        if self.follower.look() or is_last:
            self.follower.store(0.0, nothing, is_last=is_last)

    def kill(self) -> None:
        self.follower.close()
        self.follower = self.new_follower()

    def fail(self) -> None:
        """The lake cannot be written for a while."""
        with self.lake.writer():
            if self.follower.look():
                with pytest.raises(LakeError):
                    self.follower.store(0.0, nothing, is_last=False)


ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("rotate"), st.booleans()),
    st.tuples(st.just("copy_and_cut_off")),
    st.tuples(st.just("look")),
    st.tuples(st.just("look")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("fail")),
)


@settings(max_examples=30, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=14))
def test_whatever_happens_to_a_log_its_events_are_stored_once(
    tmp_path_factory: pytest.TempPathFactory, event: Event, ids: Ids, actions: list[tuple[Any, ...]]
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("follow"), event)
    for name, *arguments in actions:
        getattr(cluster, name)(*arguments)
    cluster.finish_line()
    # A file that does not grow by lines is taken when two looks found it unchanged.
    cluster.look()
    cluster.look()
    cluster.look(is_last=True)
    assert ids(cluster.lake) == sorted(f"id-{number}" for number in range(1, cluster.count + 1))
    assert cluster.follower.summary.counts.quarantined == 0
    cluster.follower.close()
    cluster.lake.close()


@pytest.fixture
def cluster(tmp_path: Path, event: Event) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, event)
    yield cluster
    cluster.follower.close()


def test_a_torn_line_waits_for_its_end(cluster: Cluster, ids: Ids) -> None:
    cluster.write(3, torn=True)
    cluster.look()
    assert ids(cluster.lake) == ["id-1", "id-2"]
    cluster.look(is_last=True)
    assert cluster.follower.summary.files[0].note == "line 3 is not finished; it is taken by the next ingest once it is"
    cluster.finish_line()
    cluster.look()
    assert ids(cluster.lake) == ["id-1", "id-2", "id-3"]


def test_what_was_written_just_before_the_rotation_and_removed_is_read(cluster: Cluster, ids: Ids) -> None:
    cluster.write(1, torn=False)
    cluster.look()
    cluster.write(1, torn=False)
    cluster.log.unlink()
    cluster.look()
    assert ids(cluster.lake) == ["id-1", "id-2"]


@pytest.mark.parametrize("events", [1, 2, 5])
def test_a_log_that_is_cut_off_in_its_place_begins_anew(cluster: Cluster, ids: Ids, events: int) -> None:
    cluster.write(2, torn=False)
    cluster.look()
    cluster.write(1, torn=False)
    cluster.copy_and_cut_off()
    cluster.write(events, torn=False)
    cluster.look()
    cluster.look()
    assert ids(cluster.lake) == sorted(f"id-{number}" for number in range(1, events + 4))


def test_only_what_is_new_is_read(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.write(2, torn=False)
        cluster.look()
        cluster.rotate(compress=True)
    cluster.kill()
    cluster.look()
    cluster.look()
    cluster.write(1, torn=False)
    cluster.look()
    assert cluster.follower.summary.counts == Counts(read=1, stored=1)


def test_an_archive_that_is_being_written_is_taken_when_it_is_whole(cluster: Cluster, event: Event, ids: Ids) -> None:
    packed = gzip.compress(b"".join(event(number, x=os.urandom(500).hex()) + b"\n" for number in range(9)))
    archive = cluster.log.with_name("audit-2026-10-31T00-00-00.000.log.gz")
    for end in (len(packed) // 3, len(packed) // 2, len(packed)):
        archive.write_bytes(packed[:end])
        cluster.look()
        assert cluster.follower.summary.counts.read == 0
    cluster.look()
    assert len(ids(cluster.lake)) == 9
    assert cluster.follower.summary.files[0].note == ""


def test_other_files_of_a_followed_folder_are_passed_over(cluster: Cluster, ids: Ids) -> None:
    cluster.follower = Follower(cluster.lake, [cluster.log.parent], Reading("c"), None)
    other = cluster.log.with_name("kubelet.log")
    for lines in (1, 2, 3):
        other.write_text("I1121 started\n" * lines)
        cluster.look()
        cluster.look()
    cluster.write(1, torn=False)
    cluster.look()
    notes = {Path(file.path).name: file.note for file in cluster.follower.summary.files}
    message = f"passed over: {other}: found text that is not JSON ('I1121 started'), wanted audit events"
    assert notes == {"kubelet.log": message, "audit.log": ""}
    assert ids(cluster.lake) == ["id-1"]


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("audit.log", True),
        ("audit-2026-07-24T10-11-12.345.log", True),
        ("audit-2026-07-24T10-11-12.345.log.gz", True),
        ("audit.log.1", True),
        ("audit.log.12.gz", True),
        ("audit.log-20260724.zst", True),
        ("audit-other.log", False),
        ("audit.log.swp", False),
        ("myaudit.log", False),
    ],
)
def test_the_names_of_rotated_logs(name: str, belongs: bool) -> None:
    assert (rotated(Path("/x/audit.log")).fullmatch(name) is not None) is belongs


def test_paths_that_cannot_be_followed(lake: Lake, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (("-", "standard input"), (tmp_path / "gone/audit.log", "no such file"), (tmp_path / "pipe", "is neither")):
        with pytest.raises(InputError, match=words):
            follow_files(lake, [path], "c", time.time, threading.Event())


def test_a_lake_that_stays_busy_is_an_error_in_the_end(
    lake: Lake, tmp_path: Path, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(follow, "PATIENCE_SECONDS", 0.05)
    (tmp_path / "audit.log").write_bytes(event(1) + b"\n")
    stop, problems = threading.Event(), []
    stop.set()
    with lake.writer(), pytest.raises(LakeError, match="another process is writing"):
        follow_files(lake, [tmp_path], "c", time.time, stop, report=lambda summary, problem: problems.append(problem))
    assert len(problems) > 1


def stored(lake: Path) -> int:
    found = Lake.open(lake)
    try:
        return sum(file.rows for file in found.manifest.files("events"))
    finally:
        found.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_end_it_in_order_and_a_kill_costs_nothing(tmp_path: Path, event: Event, number: int, code: int) -> None:
    log, lake = tmp_path / "audit.log", tmp_path / "lake"
    program = [sys.executable, "-c", "from api.cli import main; main()"]
    command = [*program, "--lake", str(lake), "ingest", "--follow", str(log)]
    Lake.create(lake).close()

    def until(count: int) -> None:
        deadline = time.monotonic() + 60
        while stored(lake) < count:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    # It waits for a log that is not there yet.
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        log.write_bytes(event(1) + b"\n")
        until(1)
        process.kill()
    with log.open("ab") as handle:
        handle.write(event(2) + b"\n")
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(2)
        with log.open("ab") as handle:
            handle.write(event(3) + b"\n" + event(4)[:30])
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == code, err
    assert stored(lake) == 3
    assert b"Traceback" not in err
    assert b"audit.log" in out
