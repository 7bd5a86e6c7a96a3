"""The printed result of a command: tables of rows under columns. A command builds them, and does not know formats or terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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


def text(value: Any) -> str:
    """One cell as text for a user: empty for null, times to the second in UTC, lists with commas, ratios with three digits."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text, value))
    return str(value)
