"""Tar archives and byte order marks cost no event."""

from __future__ import annotations

import codecs
import gzip
import io
import random
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources.encodings import utf8
from ingest.sources.files import IngestSummary, ingest_files
from ingest.store import Counts

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]
ENCODINGS = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


def ingest(lake: Lake, *paths: Path) -> IngestSummary:
    return ingest_files(lake, paths, "c", 0.0)


def log(event: Event, *numbers: int) -> bytes:
    return b"".join(event(number) + b"\n" for number in numbers)


def names(*numbers: int) -> list[str]:
    return sorted(f"id-{number}" for number in numbers)


def tar(files: Mapping[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("logs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_each_event_of_an_archive_is_stored_once(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, compress: Callable[[bytes], bytes], form: int
) -> None:
    long = "logs/" + "n" * 90 + "/audit-2026-07-24T10-11-12.345.log.gz"
    files = {"logs/audit.log": log(event, 1, 2), long: gzip.compress(log(event, 3, 4)), "logs/README": b"no log", "none.log": b""}
    path = tmp_path / "audit_logs.tar.gz"
    path.write_bytes(compress(tar(files, form)))
    first, second = ingest(lake, path), ingest(lake, path)
    assert first.counts == Counts(read=4, stored=4)
    assert [file.path for file in first.files] == [f"{path}/{name}" for name in files if name != "logs/README"]
    assert [file.note for file in first.files] == ["", "", ""]
    assert second.counts == Counts()
    assert ids(lake) == names(1, 2, 3, 4)


def test_an_archive_in_a_folder_is_read_with_the_logs_next_to_it(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "audit.log").write_bytes(log(event, 1))
    (folder / "older.tgz").write_bytes(gzip.compress(tar({"audit.log": log(event, 2)})))
    assert ingest(lake, folder).counts == Counts(read=2, stored=2)
    assert ids(lake) == names(1, 2)


def test_files_of_an_archive_with_one_first_line_are_read_in_full(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"one.log": log(event, 1, 2), "two.log": log(event, 1, 3)}))
    assert ingest(lake, tmp_path / "a.tar").counts == Counts(read=4, stored=3, duplicate=1)
    assert ids(lake) == names(1, 2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(tar({"audit.log": random.Random(1).randbytes(100_000)}))[:-200], "the archive cannot be read to its end"),
        (tar({"audit.log": b"x" * 100_000})[:50_000], "the archive cannot be read to its end"),
        (tar({"README": b"no log"}), "the archive has no audit log; give an archive"),
        (tar({"audit.log": b"no log"}), "a.tar/audit.log: found text that is not JSON"),
    ],
)
def test_an_archive_that_cannot_be_read_is_named_and_stores_nothing(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, content: bytes, message: str
) -> None:
    (tmp_path / "good.log").write_bytes(log(event, 1))
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(InputError, match=message):
        ingest(lake, tmp_path / "good.log", tmp_path / "a.tar")
    assert ids(lake) == []


def twice(*contents: bytes) -> bytes:
    """A tar archive with a file several times, as `tar -r` makes it."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for content in contents:
            entry = tarfile.TarInfo("a.json")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def zipped(*contents: bytes) -> bytes:
    target = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(target, "w") as archive:
        warnings.simplefilter("ignore")  # zipfile warns of a name that is there already
        for content in contents:
            archive.writestr("a.json", content)
    return target.getvalue()


@pytest.mark.parametrize("packed", [twice, zipped])
def test_files_of_one_name_are_sources_of_their_own(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, packed: Callable[..., bytes]
) -> None:
    path = tmp_path / "a.archive"
    path.write_bytes(packed(log(event, 1, 2), log(event, 3), log(event, 4, 5)))
    summary = ingest(lake, path)
    assert [file.path for file in summary.files] == [f"{path}/a.json{number}" for number in ("", "#2", "#3")]
    assert [file.counts.stored for file in summary.files] == [2, 1, 2]
    assert ids(lake) == names(1, 2, 3, 4, 5)


@pytest.mark.parametrize(("mark", "why"), [(b"id-2", "damaged here: Bad CRC-32"), (b"PK\x03\x04", "cannot be unpacked: Bad magic")])
def test_a_damaged_file_in_a_zip_archive_costs_no_other(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, mark: bytes, why: str
) -> None:
    """Its checksum or its own header is wrong; the lake is not."""
    content = bytearray(zipped(log(event, 1), log(event, 2), log(event, 3)))
    content[content.find(mark, content.find(b"id-1") + 1) + 2] ^= 1
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    noted = {file.path.rpartition("/")[2]: file.note for file in ingest(lake, path).files if file.note}
    assert list(noted) == ["a.json#2"]
    assert why in noted["a.json#2"]
    assert ids(lake) == names(1, 3)


def test_a_damaged_archive_in_a_folder_is_noted(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "audit.log").write_bytes(log(event, 1))
    (folder / "b.tar").write_bytes(tar({"audit.log": log(event, *range(2, 90))})[:2_000])
    summary = ingest(lake, folder)
    assert [file.note.split(":")[0] for file in summary.files if file.note] == ["passed over"]
    assert ids(lake) == names(1)


def test_an_archive_from_a_pipe_is_refused_and_not_read_as_lines(
    lake: Lake, event: Event, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO(gzip.compress(tar({"audit.log": log(event, 1, 2)})))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    with pytest.raises(InputError, match="-: found a tar archive, which can be read from a file alone"):
        ingest_files(lake, ["-"], "c", 0.0)
    assert ids(lake) == []


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_byte_order_mark_costs_no_event(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, encoding: str, compress: Callable[[bytes], bytes], is_array: bool
) -> None:
    text = b"[\n" + event(1) + b",\n" + event(2) + b"\n]" if is_array else log(event, 1, 2)
    path = tmp_path / "audit.log"
    path.write_bytes(compress(ENCODINGS[encoding] + text.decode().encode(encoding.removesuffix("-sig"))))
    assert ingest(lake, path).counts == Counts(read=2, stored=2)
    assert ids(lake) == names(1, 2)


def test_text_of_another_encoding_that_breaks_off_is_noted(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    (tmp_path / "audit.log").write_bytes(codecs.BOM_UTF16_LE + log(event, 1, 2).decode().encode("utf-16-le") + b"x")
    (file,) = ingest(lake, tmp_path / "audit.log").files
    assert file.note.startswith("the text is not utf-16-le")
    assert ids(lake) == names(1, 2)


@given(st.text(), st.sampled_from(sorted(ENCODINGS)), st.lists(st.integers(0, 40), max_size=4).map(sorted))
def test_any_text_is_the_same_in_each_encoding(text: str, encoding: str, cuts: list[int]) -> None:
    # These bytes in UTF-16 are also the mark of UTF-32; no log begins with them.
    text = text.lstrip("\0")
    content = ENCODINGS[encoding] + text.encode(encoding.removesuffix("-sig"))
    blocks = [content[low:high] for low, high in zip([0, *cuts], [*cuts, None], strict=True)]
    assert b"".join(utf8(iter(blocks))) == text.encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("half", ["high", "low", "none"])
def test_half_of_a_pair_costs_one_letter_and_text_needs_no_mark(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, encoding: str, half: str
) -> None:
    letter = {"high": chr(0xD800), "low": chr(0xDFFF), "none": ""}[half]
    text = log(event, 1).decode().replace("pod-1", f"pod{letter}") + log(event, 2).decode()
    (tmp_path / "audit.log").write_bytes(text.encode(encoding, "surrogatepass"))
    assert ingest(lake, tmp_path / "audit.log").counts == Counts(read=2, stored=2)
    assert ids(lake) == names(1, 2)
