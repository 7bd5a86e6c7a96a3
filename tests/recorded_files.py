"""The recorded files of `shared/data`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard


def rows_of(path: Path) -> Iterator[Any]:
    """The values of a file with one JSON document a line, packed by zstd."""
    decoder = msgspec.json.Decoder()
    with zstandard.open(path, "rb") as file:
        for line in io.BufferedReader(file):
            if line.strip():
                yield decoder.decode(line)
