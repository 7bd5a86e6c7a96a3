"""Log files are taken whole, once, and on from where an earlier ingest stopped."""

from __future__ import annotations

import errno
import gzip
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, LakeError
from ingest.lake import Lake
from ingest.quarantine import read_quarantine
from ingest.redaction.redact import Redactor
from ingest.sources import logfile
from ingest.sources.files import IngestSummary, files_below, ingest_files
from ingest.store import Counts

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]
PROJECT = Path(__file__).parents[2]


def ingest(lake: Lake, *paths: Path, **options: Any) -> IngestSummary:
    return ingest_files(lake, paths, "c", 0.0, **options)


def log(event: Event, *numbers: int) -> bytes:
    return b"".join(event(number) + b"\n" for number in numbers)


def names(*numbers: int) -> list[str]:
    return sorted(f"id-{number}" for number in numbers)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_file_is_stored_once_however_it_is_compressed(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(compress(log(event, 1, 2, 3)))
    first, second = ingest(lake, path), ingest(lake, path)
    assert first.counts == Counts(read=3, stored=3)
    assert second.counts == Counts()
    assert second.files[0].known_lines == 3
    assert ids(lake) == names(1, 2, 3)


def test_a_growing_log_and_its_rotated_copy_are_read_on(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(log(event, 1, 2))
    ingest(lake, path)
    path.write_bytes(log(event, 1, 2, 3) + event(4)[:40])
    grown = ingest(lake, path)
    assert grown.counts == Counts(read=1, stored=1)
    assert grown.files[0].note == "line 4 is not finished; it is taken by the next ingest once it is"
    path.unlink()
    (tmp_path / "audit-2026-11-01T00-00-09.000.log.gz").write_bytes(gzip.compress(log(event, 1, 2, 3, 4)))
    path.write_bytes(log(event, 5))
    rotated = ingest(lake, tmp_path)
    assert [(file.counts.stored, file.known_lines) for file in rotated.files] == [(1, 3), (1, 0)]
    assert ids(lake) == names(1, 2, 3, 4, 5)


def test_a_last_line_without_newline_is_taken_when_it_is_whole(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(log(event, 1) + event(2))
    assert ingest(lake, path).counts == Counts(read=2, stored=2)
    path.write_bytes(log(event, 1, 2, 3))
    assert ingest(lake, path).counts == Counts(read=1, stored=1)
    assert ids(lake) == names(1, 2, 3)


def test_another_file_with_the_same_first_line_is_read_in_full(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    (tmp_path / "a.log").write_bytes(log(event, 1, 2, 3))
    (tmp_path / "b.log").write_bytes(log(event, 1, 30, 40, 50))
    assert ingest(lake, tmp_path / "a.log", tmp_path / "b.log").counts == Counts(read=7, stored=6, duplicate=1)
    (tmp_path / "c.log").write_bytes(log(event, 1))
    assert ingest(lake, tmp_path / "c.log").counts == Counts(read=1, duplicate=1)
    assert ids(lake) == names(1, 2, 3, 30, 40, 50)


def test_the_same_file_for_another_cluster_is_another_log(lake: Lake, tmp_path: Path, event: Event) -> None:
    (tmp_path / "a.log").write_bytes(log(event, 1))
    ingest(lake, tmp_path / "a.log")
    assert ingest_files(lake, [tmp_path / "a.log"], "d", 0.0).counts == Counts(read=1, stored=1)


def test_a_folder_is_read_in_the_order_of_writing(tmp_path: Path, event: Event) -> None:
    in_order = ["audit-2026-11-01T00-00-00.000.log.gz", "audit-2026-11-02T00-00-00.000.log", "audit.log", "audit.log.1"]
    for name in (*reversed(in_order), ".audit.log.swp"):
        (tmp_path / name).write_bytes(log(event, 1))
    assert [path.name for path in files_below(tmp_path)] == in_order


def test_a_folder_is_read_with_all_below_but_no_lake_in_it(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    # As a log group lies in a bucket: no suffix tells what the files are.
    for number, name in enumerate(("a/000000.gz", "a/b/PT1H", "audit.log", ".hidden/audit.log", "lake/quarantine/x.jsonl")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(log(event, number)))
    (tmp_path / "a/readme").write_text("nothing about it")
    assert [Path(file.path).name for file in ingest(lake, tmp_path).files] == ["audit.log", "000000.gz", "PT1H"]
    assert ids(lake) == names(0, 1, 2)


def test_a_pipe_is_read_as_its_lines_come(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, gzip.compress(log(event, 1, 2)))
        assert ingest(lake, pipe).counts == Counts(read=2, stored=2)
    assert ids(lake) == names(1, 2)


def test_other_files_of_a_folder_are_passed_over_with_a_note(lake: Lake, tmp_path: Path, event: Event) -> None:
    (tmp_path / "audit.log").write_bytes(log(event, 1))
    (tmp_path / "policy.json").write_text('{"kind":"Policy","apiVersion":"audit.k8s.io/v1"}')
    summary = ingest(lake, tmp_path)
    assert summary.counts == Counts(read=1, stored=1)
    note = f"passed over: {tmp_path}/policy.json: found Policy of audit.k8s.io/v1, wanted audit events"
    assert {Path(file.path).name: file.note for file in summary.files} == {"audit.log": "", "policy.json": note}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b'{"kind":"Pod","apiVersion":"v1"}', "x.json: found Pod of v1, wanted audit events"),
        ("x.log", b"plain text", r"x.log: found text that is not JSON \('plain text'\), wanted audit events"),
        ("x.gz", gzip.compress(b"plain text", mtime=0), r"x.gz: found text that is not JSON \('plain text'\), wanted"),
        ("x.gz", gzip.compress(b"plain text", mtime=0)[:5], r"x.gz: found nothing \(the gzip stream breaks off"),
        (None, b"", "gone.log: no such file or folder"),
    ],
)
def test_nothing_is_stored_when_one_path_is_no_audit_log(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, name: str | None, content: bytes, message: str
) -> None:
    (tmp_path / "good.log").write_bytes(log(event, 1))
    other = tmp_path / (name or "gone.log")
    if name is not None:
        other.write_bytes(content)
    with pytest.raises(InputError, match=message):
        ingest(lake, tmp_path / "good.log", other)
    assert ids(lake) == []


def test_an_empty_folder_is_an_error_and_an_empty_file_is_not(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: the folder has no audit log; give a folder"):
        ingest(lake, tmp_path / "empty")
    (tmp_path / "audit.log").write_bytes(b"")
    assert ingest(lake, tmp_path / "audit.log").counts == Counts()


def test_a_large_first_event_is_an_event(lake: Lake, tmp_path: Path, event: Event) -> None:
    (tmp_path / "audit.log").write_bytes(event(1, requestObject="x" * (3 << 20)) + b"\n" + log(event, 2))
    assert ingest(lake, tmp_path / "audit.log").counts == Counts(read=2, stored=2)


@pytest.mark.parametrize(("codec", "kind"), [(gzip.compress, "gzip"), (zstandard.ZstdCompressor().compress, "zstd")])
def test_a_cut_file_keeps_what_stands_before_the_damage(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, codec: Callable[[bytes], bytes], kind: str
) -> None:
    # Bodies that do not compress, so that the first part of the file has whole lines.
    content = b"".join(event(number, requestObject=os.urandom(5000).hex()) + b"\n" for number in range(40))
    data = codec(content)
    path = tmp_path / "audit.log.x"
    path.write_bytes(data[: len(data) // 2])
    (file,) = ingest(lake, path).files
    assert 0 < file.counts.stored < 40
    assert file.counts.quarantined == 0
    assert f"the {kind} stream breaks off" in file.note
    path.write_bytes(data)
    again = ingest(lake, path)
    assert again.counts == Counts(read=40 - file.counts.stored, stored=40 - file.counts.stored)
    assert ids(lake) == names(*range(40))


def test_bad_lines_are_kept_with_file_line_and_reason(lake: Lake, tmp_path: Path, event: Event) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(
        log(event, 1) + b"\n\nnot json\n" + log(event, 2) + b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{},{}]}\n'
    )
    assert ingest(lake, path).counts == Counts(read=5, stored=2, quarantined=3)
    kept = [(record.raw, record.reason) for record in read_quarantine(lake.path / "quarantine")]
    assert kept[0] == (b"not json", f"{path}:4: no JSON: JSON is malformed: invalid character (byte 4)")
    assert [reason for _, reason in kept[1:]] == [f"{path}:6: no audit event but JSON of no apiVersion: it has no auditID"] * 2


def test_a_document_over_many_lines(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    path = tmp_path / "list.json"
    items = b",\n".join(event(number) for number in range(5))
    path.write_bytes(b'{\n "kind": "EventList",\n "apiVersion": "audit.k8s.io/v1",\n "items": [\n' + items + b"\n ]\n}\n")
    assert ingest(lake, path).counts == Counts(read=5, stored=5)
    assert ingest(lake, path).files[0].known_lines == 5
    assert ids(lake) == names(*range(5))


def test_standard_input(lake: Lake, event: Event, ids: Ids, monkeypatch: pytest.MonkeyPatch) -> None:
    for content, stored in ((log(event, 1, 2), 2), (log(event, 1, 2, 3), 1)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(content))))
        assert ingest(lake, Path("-")).counts.stored == stored
    assert ids(lake) == names(1, 2, 3)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"kind: Pod\n")))
    with pytest.raises(InputError, match=r"-: found text that is not JSON \('kind: Pod'\)"):
        ingest(lake, Path("-"))


def test_credentials_do_not_reach_the_lake(lake: Lake, tmp_path: Path, event: Event, rows: Callable[[Lake], Any]) -> None:
    secret = event(1, objectRef={"resource": "secrets"}, requestURI="/api/v1/secrets", requestObject={"data": "hunter2"})
    (tmp_path / "audit.log").write_bytes(secret + b"\n" + log(event, 2))
    ingest(lake, tmp_path / "audit.log", redactor=Redactor())
    assert [(row["request_object"], row["flags"]) for row in rows(lake)] == [(None, ["redacted"]), ('{"number":2}', [])]
    assert not any(b"hunter2" in path.read_bytes() for path in lake.path.rglob("*") if path.is_file())


def test_progress_counts_bytes_of_input(lake: Lake, tmp_path: Path, event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "UNIT_EVENTS_MAX", 2)
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for number, path in enumerate(paths):
        path.write_bytes(log(event, *range(number * 10, number * 10 + 5)))
    seen: list[tuple[int, int]] = []
    ingest(lake, *paths, progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in paths)
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


class InterruptError(Exception):
    """Stands for Ctrl-C between two units."""


def ingest_forever(lake: Lake, path: Path, progress: Any) -> None:
    while True:
        ingest(lake, path, progress=progress)


@settings(max_examples=25, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 30), min_size=1, max_size=30),
    unit=st.integers(1, 7),
    stops=st.lists(st.integers(1, 4), max_size=4),
)
def test_an_interrupted_ingest_goes_on_without_loss_or_double_counting(
    tmp_path_factory: pytest.TempPathFactory, event: Event, ids: Ids, numbers: list[int], unit: int, stops: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("ingest")
    path = folder / "audit.log"
    # A block as small as a line or two, so that a unit can end anywhere.
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(event(number) + b"\n") for number in numbers))
    lake = Lake.create(folder / "lake")
    stored = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfile, "UNIT_EVENTS_MAX", unit)
        for stop in stops:
            calls = iter(range(1, stop + 1))

            def progress(done: int, total: int, calls: Any = calls, stop: int = stop) -> None:
                if next(calls) == stop:
                    raise InterruptError

            with pytest.raises(InterruptError):
                ingest_forever(lake, path, progress)
            before, stored = stored, len(ids(lake))
            assert stored >= before
        last = ingest(lake, path)
    assert ids(lake) == names(*set(numbers))
    assert last.counts.stored == len(set(numbers)) - stored
    assert last.counts.read + last.files[0].known_lines == len(numbers)
    lake.close()


_KILLED = """
import os, signal, sys
from pathlib import Path
from ingest import durable, lake, manifest
from ingest.sources import files, logfile
logfile.UNIT_EVENTS_MAX = 50
left = int(sys.argv[3])
def dying(function):
    def call(*args, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call
os.fsync = dying(os.fsync)
Path.rename = dying(Path.rename)
manifest.Manifest.commit = dying(manifest.Manifest.commit)
files.ingest_files(lake.Lake.open(sys.argv[1]), [Path(sys.argv[2])], "c", 0.0)
"""


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 9])
def test_a_killed_ingest_is_repeated_without_loss(lake: Lake, tmp_path: Path, event: Event, ids: Ids, step: int) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(event(number, requestObject="x" * 60_000) + b"\n" for number in range(120)) + b"broken\n")
    command = [sys.executable, "-c", _KILLED, str(lake.path), str(path), str(step)]
    assert subprocess.run(command, cwd=PROJECT).returncode == -signal.SIGKILL
    before = len(ids(lake))
    summary = ingest(lake, path)
    assert summary.counts.stored == 120 - before
    assert summary.counts.duplicate == 0
    assert ids(lake) == names(*range(120))
    assert [record.raw for record in read_quarantine(lake.path / "quarantine")] == [b"broken"]
    on_disk = set((lake.path / "events").rglob("dt=*/*"))
    assert on_disk == set(lake.files())


def test_a_disk_that_fills_up_stops_the_ingest_and_it_resumes(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(log(event, 1) + event(2, requestObject=os.urandom(200_000).hex()) + b"\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(LakeError, match="events cannot be written"):
            ingest(lake, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ids(lake) == []
    assert not list((lake.path / "events").rglob("dt=*/*"))
    assert ingest(lake, path).counts == Counts(read=2, stored=2)
    assert ids(lake) == names(1, 2)


def test_a_folder_that_cannot_be_listed_is_told(lake: Lake, tmp_path: Path, event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "logs" / "closed"
    closed.mkdir(parents=True)
    (tmp_path / "logs" / "audit.log").write_bytes(event(1) + b"\n")
    scandir = os.scandir

    def refusing(path: Any) -> Any:  # root may list every folder, so that a mode of 000 would prove nothing
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    notes = {file.path: file.note for file in ingest_files(lake, [tmp_path / "logs"], "c", 0.0).files}
    assert notes[str(closed)] == f"passed over: {closed}: cannot be read: Permission denied"
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        ingest_files(lake, [closed], "c", 0.0)
