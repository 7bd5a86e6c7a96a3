"""Many small files are stored together, with the counts and marks of each as if it had been alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources import pool
from ingest.sources.files import ingest_files
from ingest.sources.unique import unique_names
from ingest.store import Counts

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]


def written(folder: Path, files: list[bytes]) -> Path:
    folder.mkdir()
    for number, content in enumerate(files):
        (folder / f"{number:05}.json").write_bytes(content)
    return folder


def test_small_files_make_few_files_of_the_lake(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    folder = written(tmp_path / "logs", [event(number) + b"\n" for number in range(300)])
    summary = ingest_files(lake, [folder], "c", 0.0)
    assert {file.counts.stored for file in summary.files} == {1}
    assert len(ids(lake)) == 300
    assert len(list(lake.files())) < 10
    again = ingest_files(lake, [folder], "c", 0.0)
    assert again.counts == Counts()
    assert {file.known_lines for file in again.files} == {1}


def test_an_odd_event_among_small_files_is_counted_for_its_own_file(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    files = [event(number) + b"\n" for number in range(20)]
    files[3] = event(3) + b"\n" + b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"x"}\n'
    files[7] = event(40) + b"\n" + event(2) + b"\n"  # the second is that of another file
    files[9] = event(8) + b"\n"  # so is the whole file
    summary = ingest_files(lake, [written(tmp_path / "logs", files)], "c", 0.0)
    counts = [(file.counts.stored, file.counts.duplicate, file.counts.quarantined) for file in summary.files]
    assert counts[3] == (1, 0, 1)
    assert counts[7] == (1, 1, 0)
    assert counts[9] == (0, 0, 0)
    assert summary.files[9].known_lines == 1
    assert {each for number, each in enumerate(counts) if number not in (3, 7, 9)} == {(1, 0, 0)}
    assert len(ids(lake)) == 19


def test_what_waits_is_stored_where_a_later_file_cannot_be_read(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "pipe"
    good.write_bytes(event(1) + b"\n")
    bad.write_bytes(b"")
    with pytest.raises(InputError):
        ingest_files(lake, [good, f"{tmp_path}/missing"], "c", 0.0)
    assert ids(lake) == []
    ingest_files(lake, [good, bad], "c", 0.0)
    assert ids(lake) == ["id-1"]


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_files_stored_together_count_as_files_stored_one_by_one(
    event: Event, ids: Ids, tmp_path_factory: pytest.TempPathFactory, numbers: list[list[int]]
) -> None:
    found = []
    for is_pooled in (True, False):
        home = tmp_path_factory.mktemp("home")
        folder = written(home / "logs", [b"".join(event(each) + b"\n" for each in own) for own in numbers])
        lake = Lake.create(home / "lake")
        with pytest.MonkeyPatch.context() as patched:
            if not is_pooled:
                patched.setattr(pool, "_UNITS_MAX", 1)
            summary = ingest_files(lake, [folder], "c", 0.0)
        found.append(([file.counts for file in summary.files], [file.known_lines for file in summary.files], ids(lake)))
        lake.close()
    assert found[0] == found[1]


@given(st.lists(st.sampled_from(["a", "b", "a#2", "a#2#2", ""])))
def test_names_are_unique_and_keep_what_they_can(names: list[str]) -> None:
    found = unique_names(names)
    assert len(found) == len(names) == len(set(found))
    assert all(own == name or own.startswith(f"{name}#") for own, name in zip(found, names, strict=True))
