"""A table of results: rows under columns, as a command prints it. What makes one knows neither formats nor terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names the field in JSON; `heading` the column. `wide` columns show only with `-o wide` and in data formats.

    `prose` is text that may wrap between words and be cut. If the terminal is narrow, columns with a `may_go` are left out, the
    highest first. `styles` gives cells of one text a colour. On a narrow terminal a name of a column with `may_shorten`
    loses its middle before rows become several lines: it stands whole elsewhere in the output, or with `-o wide`.
    """

    key: str
    heading: str = ""
    wide: bool = False
    number: bool = False
    prose: bool = False
    may_go: int = 0
    may_shorten: bool = False
    styles: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The heading, or the key in words."""
        return self.heading or self.key.replace("_", " ").upper()


@dataclass(frozen=True)
class Table:
    """Rows under columns, with the sentences that a reader must not miss (`notes`). `style` is the title's."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    style: str = ""


def listed(name: str, columns: Sequence[Column], records: Sequence[object], title: str, notes: Sequence[str] = ()) -> Table:
    """The records as a table, whose columns are named as their fields."""
    return Table(name, columns, [[getattr(each, column.key) for column in columns] for each in records], title, notes)
