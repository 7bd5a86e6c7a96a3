"""The layout of tables on a terminal: names, times and numbers are never broken, at any width.

If a table is too wide, first its prose wraps between words. Then the least important columns are left out. Then long names lose
their middle, in columns that allow it. Then each row becomes several lines. In a pipe a row is one line of natural width, unless
COLUMNS gives a width.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TextIO

from rich.cells import cell_len

from pipeline.report.cells import visible
from pipeline.tables import Column, Table

from .tables import text

_GAP = 3
_GAP_MIN = 2
_INDENT = "  "
# A narrower column of prose would be unreadable.
_PROSE_MIN = 24
# A name keeps at least so many characters when it loses its middle.
_SHORT_MIN = 16
_LINES_MAX = 3
_STYLES = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "1;33", "green": "1;32", "cyan": "1;36"}


@dataclass(frozen=True, slots=True)
class Screen:
    """Where tables are printed. `width` is None where lines may be of any length."""

    width: int | None
    has_colour: bool = False
    is_terminal: bool = False

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Screen:
        """COLUMNS decides the width, else the terminal. NO_COLOR and FORCE_COLOR decide on colour, else the terminal."""
        is_terminal = stream.isatty()
        given = environment.get("COLUMNS", "")
        width = int(given) if given.isdecimal() and int(given) > 0 else None
        if width is None and is_terminal:
            width = shutil.get_terminal_size().columns
        has_colour = bool(environment.get("FORCE_COLOR")) or (is_terminal and environment.get("TERM") != "dumb")
        return cls(width, has_colour and not environment.get("NO_COLOR"), is_terminal)

    def styled(self, shown: str, style: str) -> str:
        """The text in a style (a key of the table of styles); unchanged without colour."""
        return f"\x1b[{_STYLES[style]}m{shown}\x1b[0m" if self.has_colour and style and shown else shown


@dataclass(frozen=True, slots=True)
class _Field:
    """One column that is shown, with its cells as text."""

    column: Column
    cells: Sequence[str]

    @property
    def natural(self) -> int:
        return max((cell_len(line) for cell in (self.column.title, *self.cells) for line in cell.split("\n")), default=0)

    @property
    def least(self) -> int:
        """The width below which a word would be broken."""
        words = (word for cell in (self.column.title, *self.cells) for word in cell.split())
        # A number has one part, also where a unit follows it: 32.9 %.
        parts = (*self.cells, *self.column.title.split()) if self.column.number else words
        longest = max(map(cell_len, parts), default=0)
        return min(self.natural, _PROSE_MIN) if self.column.prose else longest

    @property
    def style(self) -> Mapping[str, str]:
        return self.column.styles


def lines_of(table: Table, screen: Screen, *, wide: bool) -> list[str]:
    """The lines of one table, without line ends. `wide` shows every column and cuts nothing."""
    lines = [screen.styled(line, table.style or "bold") for line in _wrapped(printable(table.title), screen.width)]
    fields = [
        _Field(column, [printable(text(row[index]), one_line=screen.width is None) for row in table.rows])
        for index, column in enumerate(table.columns)
        if wide or not column.wide
    ]
    notes = list(table.notes)
    if not table.rows:
        lines.append("none")
    elif screen.width is None:
        lines += _grid(fields, [field.natural for field in fields], _GAP, screen, lines_max=None)
    else:
        shown, widths, gap = _fitting(fields, screen.width, may_drop=not wide)
        if len(fields) == 1:
            lines += _alone(fields[0], screen)
        elif widths is None:
            lines += _stacked(fields, screen)
        else:
            grid = _grid(shown, widths, gap, screen, lines_max=None if wide else _LINES_MAX)
            lines += grid
            there = [field.column for field in shown]
            missing = [field.column.title for field in fields if field.column not in there]
            if missing:
                notes.append(f"-o wide also shows {', '.join(missing)}")
            if not wide and _ellipses(grid) > sum(_ellipses(field.cells) for field in shown):
                notes.append("… stands for more text: -o wide shows it")
    for note in notes:
        lines += [screen.styled(line, "dim") for line in _wrapped(f"note: {note}", screen.width)]
    return lines


def _ellipses(lines: Iterable[str]) -> int:
    return sum(line.count("…") for line in lines)


def _fitting(fields: Sequence[_Field], width: int, *, may_drop: bool) -> tuple[Sequence[_Field], list[int] | None, int]:
    """The columns that fit with their widths and the gap between them; no widths if they do not fit at all."""
    left = list(fields)
    while True:
        for gap in (_GAP, _GAP_MIN):
            widths = _widths(left, width - gap * (len(left) - 1))
            # With -o wide nothing is cut, so rows become several lines before a long word of prose is broken.
            if widths is not None and (may_drop or all(map(_has_room, left, widths))):
                return left, widths, gap
        going = _least_useful(left) if may_drop else None
        if going is None:
            break
        left.remove(going)
    return _shortened(left, width) if may_drop else (fields, None, _GAP)


def _has_room(field: _Field, width: int) -> bool:
    return all(cell_len(word) <= width for cell in field.cells for word in cell.split())


def _shortened(fields: Sequence[_Field], width: int) -> tuple[Sequence[_Field], list[int] | None, int]:
    """The columns with shorter names, which then fit; no widths if they still do not."""
    able = [field for field in fields if field.column.may_shorten and field.least > _SHORT_MIN]
    others = [field for field in fields if field not in able]
    rest = width - _GAP_MIN * (len(fields) - 1)
    rooms = (rest - sum(field.natural for field in others), rest - sum(field.least for field in others))
    # Other columns stay on one line only where that leaves room for most of a name.
    room = rooms[0] if rooms[0] >= 2 * _SHORT_MIN * len(able) else rooms[1]
    if not able or room < _SHORT_MIN * len(able):
        return fields, None, _GAP
    short = list(fields)
    # A column that needs less than its share leaves the rest to the wider ones.
    for position, field in enumerate(sorted(able, key=lambda field: field.least)):
        most = room // (len(able) - position)
        room -= min(most, field.least)
        short[short.index(field)] = replace(field, cells=[without_middle(cell, most) for cell in field.cells])
    return short, _widths(short, width - _GAP_MIN * (len(short) - 1)), _GAP_MIN


def without_middle(name: str, width: int) -> str:
    """A name of at most `width` columns: its first and last characters, which tell similar names apart."""
    if cell_len(name) <= width:
        return name
    tail = (width - 1) * 2 // 5
    head = name
    while cell_len(head) > width - 1 - tail:
        head = head[:-1]
    end = name
    while cell_len(end) > tail:
        end = end[1:]
    return f"{head}…{end}"


def _least_useful(fields: Sequence[_Field]) -> _Field | None:
    """The column to leave out next: one that repeats the column before it or is empty, then those that may go."""
    for before, field in pairwise(fields):
        if not any(field.cells) or list(before.cells) == list(field.cells):
            return field
    ranked = [field for field in fields if field.column.may_go]
    return max(ranked, key=lambda field: field.column.may_go, default=None)


def _widths(fields: Sequence[_Field], room: int) -> list[int] | None:
    """A width for each column within `room`: columns of prose share the rest after the others; None if a word would be broken."""
    widths = [field.least for field in fields]
    spare = room - sum(widths)
    if spare < 0:
        return None
    # Names that have spaces stay on one line before prose gets more; narrow columns get their width before wide ones.
    order = sorted(range(len(fields)), key=lambda index: (fields[index].column.prose, fields[index].natural - widths[index]))
    for position, index in enumerate(order):
        share = spare if not fields[index].column.prose else spare // (len(order) - position)
        more = min(share, fields[index].natural - widths[index])
        widths[index] += more
        spare -= more
    return widths


def _grid(fields: Sequence[_Field], widths: Sequence[int], gap: int, screen: Screen, lines_max: int | None) -> list[str]:
    """The headings and one block of lines per row."""
    headings = [_folded(field.column.title, width, None) for field, width in zip(fields, widths, strict=True)]
    height = max(map(len, headings))
    raised = [[""] * (height - len(lines)) + lines for lines in headings]
    found = _block(fields, widths, gap, raised, screen, ["bold"] * len(fields))
    for row in zip(*(field.cells for field in fields), strict=True):
        cells = [
            _folded(cell, width, lines_max if field.column.prose else None)
            for field, cell, width in zip(fields, row, widths, strict=True)
        ]
        styles = [field.style.get(cell, "") for field, cell in zip(fields, row, strict=True)]
        found += _block(fields, widths, gap, cells, screen, styles)
    return found


def _block(
    fields: Sequence[_Field], widths: Sequence[int], gap: int, cells: Sequence[list[str]], screen: Screen, styles: Sequence[str]
) -> list[str]:
    """The lines of one row, from the lines of its cells."""
    found = []
    for number in range(max(map(len, cells))):
        parts = []
        for field, width, lines, style in zip(fields, widths, cells, styles, strict=True):
            line = lines[number] if number < len(lines) else ""
            padding = " " * (width - cell_len(line))
            shown = screen.styled(line, style)
            parts.append(padding + shown if field.column.number else shown + padding)
        found.append((" " * gap).join(parts).rstrip())
    return found


def _alone(field: _Field, screen: Screen) -> list[str]:
    """The only column of a table. Further lines of a cell are indented, so that a reader sees where the next one begins."""
    assert screen.width is not None
    lines = [screen.styled(field.column.title, "bold")]
    for cell in field.cells:
        first, *others = _wrapped(cell, screen.width - len(_INDENT)) or [""]
        lines += [screen.styled(line, field.style.get(cell, "")) for line in (first, *(f"{_INDENT}{line}" for line in others))]
    return lines


def _stacked(fields: Sequence[_Field], screen: Screen) -> list[str]:
    """Each row as lines of heading and value; empty values are left out."""
    assert screen.width is not None
    margin = max(cell_len(field.column.title) for field in fields) + _GAP_MIN
    found: list[str] = []
    for row in zip(*(field.cells for field in fields), strict=True):
        if found:
            found.append("")
        for field, cell in zip(fields, row, strict=True):
            if not cell:
                continue
            lines = _wrapped(cell, max(screen.width - margin, _PROSE_MIN))
            heading = field.column.title.ljust(margin)
            found.append(screen.styled(heading, "bold") + screen.styled(lines[0], field.style.get(cell, "")))
            found += [" " * margin + line for line in lines[1:]]
    return found


def _folded(cell: str, width: int, lines_max: int | None) -> list[str]:
    """The lines of a cell, wrapped between words. A longer word, and text beyond the last line, ends in an ellipsis."""
    lines = [_cut(line, width) for line in _wrapped(cell, width)] or [""]
    if lines_max is not None and len(lines) > lines_max:
        lines = lines[:lines_max]
        lines[-1] = _cut(lines[-1] + " …", width) if cell_len(lines[-1]) + 2 <= width else _cut(lines[-1] + "…" * 2, width)
    return lines


def _cut(line: str, width: int) -> str:
    """A line of at most `width` columns, with an ellipsis where something is missing."""
    if cell_len(line) <= width:
        return line
    while line and cell_len(line) > width - 1:
        line = line[:-1]
    return line + "…"


def _wrapped(shown: str, width: int | None) -> list[str]:
    """Lines of whole words; a word that is longer than a line stays whole, so that it can be copied."""
    if width is None:
        return shown.splitlines()
    if shown.isascii() and 0 < len(shown) <= width and shown.isprintable() and not shown.endswith(" "):
        return [shown]  # as most cells
    return [
        line
        for part in shown.splitlines()
        for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False, drop_whitespace=True) or [""]
    ]


def printable(cell: str, *, one_line: bool = False) -> str:
    """A cell without characters that could write elsewhere on a terminal or change direction: clients choose names, and these
    are logged."""
    shown = visible(cell).replace("\t", "\\t")
    return " ".join(shown.split("\n")) if one_line else shown
