"""A stored object as a file: threads that share one handle do not move each other's position."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyarrow import fs

from queries.store import StoredFile


@pytest.fixture
def stored(tmp_path: Path) -> StoredFile:
    (tmp_path / "object").write_bytes(bytes(range(256)))
    return StoredFile(fs.LocalFileSystem().open_input_file(str(tmp_path / "object")))


def test_every_thread_has_a_position_of_its_own(stored: StoredFile) -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        first.submit(stored.seek, 10).result()
        second.submit(stored.seek, 200).result()
        assert first.submit(stored.read, 2).result() == bytes([10, 11])
        assert second.submit(stored.read, 2).result() == bytes([200, 201])
        assert (first.submit(stored.tell).result(), second.submit(stored.tell).result()) == (12, 202)


def test_positions_are_counted_as_by_any_file(stored: StoredFile) -> None:
    assert stored.seek(-6, io.SEEK_END) == 250
    assert stored.seek(2, io.SEEK_CUR) == 252
    assert stored.read() == bytes(range(252, 256))
    assert stored.read(1) == b""
    assert (stored.size, stored.readable(), stored.seekable()) == (256, True, True)
