"""CSV and TSV with a header: each row becomes a JSON object of its columns. A column may hold the whole event as JSON.

CloudWatch Logs Insights, Log Analytics, Athena, Splunk and spreadsheets export such tables.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from .compressed import DamagedError

_DELIMITERS = (",", "\t", ";")
_FIELD_BYTES_MAX = 256 << 20
# A header has two columns, or one that may hold an event; a line of a log has spaces, brackets or a time.
_COLUMN = re.compile(r'"?[@_A-Za-z][\w@.\- \[\]()]{0,80}"?')
_ROWS = 200
_encoder = msgspec.json.Encoder()


def delimiter_of(probe: bytes) -> str | None:
    """The delimiter of a table by its header; None where the first line is not a header of columns."""
    first = probe.lstrip().split(b"\n", 1)[0].rstrip(b"\r")
    if not first or len(first) > 4000:
        return None
    text = first.decode("utf-8", "replace")
    for delimiter in _DELIMITERS:
        columns = text.split(delimiter)
        if len(columns) > 1 and all(_COLUMN.fullmatch(column.strip()) for column in columns):
            return delimiter
    return "," if _COLUMN.fullmatch(text) and b"\n" in probe.strip() else None


def delimited_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Each row as a JSON object on one line. Raises DamagedError for a table without an end of a quoted value."""
    text = _Lines(blocks)
    delimiter = delimiter_of(text.first.encode()) or ","
    csv.field_size_limit(_FIELD_BYTES_MAX)
    rows = csv.reader(text, delimiter=delimiter)
    header = next(rows, [])
    found: list[bytes] = []
    try:
        for row in rows:
            if any(row):
                found.append(_encoder.encode(dict(zip(header, row, strict=False))))
            if len(found) == _ROWS:
                yield b"\n".join(found) + b"\n"
                found = []
    except csv.Error as error:
        raise DamagedError(f"row {rows.line_num} of the table cannot be read: {error}") from error
    if found:
        yield b"\n".join(found) + b"\n"


class _Lines:
    """The lines of a text with their newlines, which quoted values may hold. `first` is the first two of them."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._lines = self._split(blocks)
        self._begun = list(islice(self._lines, 2))
        self.first = "".join(self._begun)

    def __iter__(self) -> Iterator[str]:
        yield from self._begun
        yield from self._lines

    def _split(self, blocks: Iterable[bytes]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        for block in blocks:
            *lines, rest = (rest + decoder.decode(block)).split("\n")
            for line in lines:
                yield line + "\n"
        if rest := rest + decoder.decode(b"", final=True):
            yield rest
