"""Hindcast recognizes a compression by content, and reads everything before damage."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.compressed import DamagedError, blocks


def gzipped(parts: list[bytes]) -> bytes:
    return b"".join(map(gzip.compress, parts))


def zstd(parts: list[bytes]) -> bytes:
    return b"".join(map(zstandard.ZstdCompressor().compress, parts))


def zstd_with_headers(parts: list[bytes]) -> bytes:
    """As a spool segment: a skippable frame after each data frame."""
    header = b"\x5d\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    return b"".join(zstd([part]) + header for part in parts)


def plain(parts: list[bytes]) -> bytes:
    return b"".join(parts)


def read(data: bytes) -> tuple[bytes, str]:
    """What was given out, and the damage."""
    out = io.BytesIO()
    try:
        for block in blocks(io.BytesIO(data)):
            out.write(block)
    except DamagedError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


# Text, so that plain content cannot begin like a compressed file.
PARTS = st.lists(st.text(st.characters(max_codepoint=127), min_size=1, max_size=300).map(str.encode), min_size=1, max_size=5)
CODECS = [plain, gzipped, zstd, zstd_with_headers]


@pytest.mark.parametrize("codec", CODECS)
@given(parts=PARTS)
def test_all_members_and_frames_are_read(codec: Callable[[list[bytes]], bytes], parts: list[bytes]) -> None:
    assert read(codec(parts)) == (b"".join(parts), "")


@pytest.mark.parametrize("codec", CODECS[1:])
@given(parts=PARTS, cut=st.floats(0, 1, exclude_max=True))
def test_a_cut_file_gives_its_beginning_and_says_so(codec: Callable[[list[bytes]], bytes], parts: list[bytes], cut: float) -> None:
    data = codec(parts)
    kept = data[: max(5, int(len(data) * cut))]
    content, damage = read(kept)
    assert b"".join(parts).startswith(content)
    # A cut between two frames cannot be seen, and loses nothing of what stands before it.
    whole = {len(codec(parts[:count])) for count in range(len(parts) + 1)}
    ends = whole | ({len(codec(parts[:count])) - 11 for count in range(1, len(parts) + 1)} if codec is zstd_with_headers else set())
    assert bool(damage) == (len(kept) not in ends)


@pytest.mark.parametrize("codec", [gzipped, zstd])
def test_damage_in_the_middle_keeps_the_members_before_it(codec: Callable[[list[bytes]], bytes]) -> None:
    first, second = codec([b"a" * 1000]), bytearray(codec([bytes(range(256)) * 9]))
    second[len(second) // 2 :] = b"\xff" * (len(second) - len(second) // 2)
    content, damage = read(first + bytes(second))
    assert content.startswith(b"a" * 1000)
    assert damage


def test_zeros_may_pad_a_gzip_file() -> None:
    assert read(gzipped([b"a", b"b"]) + bytes(600)) == (b"ab", "")


@pytest.mark.parametrize(("codec", "kind"), [(gzipped, "gzip"), (zstd, "zstd")])
def test_garbage_after_the_end_is_damage(codec: Callable[[list[bytes]], bytes], kind: str) -> None:
    content, damage = read(codec([b"abc"]) + b"no member at all")
    assert content == b"abc"
    assert damage.startswith(f"the {kind} stream is damaged")


def test_a_large_file_comes_in_blocks_of_bounded_size() -> None:
    line = b'{"auditID":"%d"}\n'
    content = b"".join(line % number for number in range(400_000))
    for data in (content, gzip.compress(content), zstandard.ZstdCompressor().compress(content)):
        sizes = [len(block) for block in blocks(io.BytesIO(data))]
        assert sum(sizes) == len(content)
        assert max(sizes) <= 4 << 20


def test_a_wrong_checksum_is_damage() -> None:
    data = bytearray(gzipped([b"abc" * 100]))
    data[-8] ^= 1
    assert "damaged" in read(bytes(data))[1]
