"""CSV and TSV with a header: each row becomes a JSON object of its columns. A column may hold the whole event as JSON.

CloudWatch Logs Insights, Log Analytics, Athena, Splunk and spreadsheets export such tables.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from .compressed import DamagedError
from .unique import unique_names

_DELIMITERS = (",", "\t", ";", "|")
_FIELD_BYTES_MAX = 256 << 20
# A header has two columns, or one that may hold an event; a line of a log has spaces, brackets or a time.
_COLUMN = re.compile(r'"?[@_A-Za-z][\w@.\- \[\]()/]{0,80}"?')
# What Excel and some tools put before the header.
_BEFORE = re.compile(r"sep=.\r?\n|#.*\n|\s*\n")
_BEFORE_MAX = 12
_COLUMNS_MAX = 1000
_HEADER_LENGTH_MAX = 4000
_ROWS = 200
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Shape:
    """The delimiter of a table, and whether its first row is a header."""

    delimiter: str
    has_header: bool = True


def shape_of(probe: bytes) -> Shape | None:
    """The shape of a table; None where the first line is neither a header of columns nor a row with an event."""
    text = _begun(probe.lstrip().decode("utf-8", "replace"))
    first = text.split("\n", 1)[0].rstrip("\r")
    if first and len(first) <= _HEADER_LENGTH_MAX:
        for delimiter in _DELIMITERS:
            columns = first.split(delimiter)
            if len(columns) > 1 and all(_COLUMN.fullmatch(column.strip()) for column in columns):
                return Shape(delimiter)
        if _COLUMN.fullmatch(first) and "\n" in text.strip():
            return Shape(",")
    return next((Shape(delimiter, has_header=False) for delimiter in _DELIMITERS if _is_row(first, delimiter)), None)


def _begun(text: str) -> str:
    while match := _BEFORE.match(text):
        text = text[match.end() :]
    return text


def _is_row(line: str, delimiter: str) -> bool:
    """Whether a line is a row with an object in quotes, and with nothing but columns around it."""
    if '"{""' not in line:
        return False
    csv.field_size_limit(_FIELD_BYTES_MAX)
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return False
    return len(cells) > 1 and any(cell.startswith("{") and cell.endswith("}") for cell in cells)


def delimited_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Each row as a JSON object on one line. Raises DamagedError for a table without an end of a quoted value."""
    text = _Lines(blocks)
    shape = shape_of(text.first.encode()) or Shape(",")
    csv.field_size_limit(_FIELD_BYTES_MAX)
    rows = csv.reader(text, delimiter=shape.delimiter)
    header = unique_names(next(rows, [])) if shape.has_header else [f"column{number}" for number in range(1, _COLUMNS_MAX)]
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
        self._begun = list(islice(self._lines, _BEFORE_MAX))
        while self._begun[1:] and not _begun(self._begun[0]):
            del self._begun[0]
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
