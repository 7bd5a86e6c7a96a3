"""Markdown that no text of the code can break: cells of tables, and anchors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """A text as one cell of a table."""
    plain = " ".join(str(text).split()).replace("|", "\\|")
    return plain.replace("<", "&lt;") if "`" not in plain else plain


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; empty without rows."""
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    if not lines:
        return ""
    head = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    return "\n".join([*head, *lines]) + "\n"


def join(parts: Iterable[str]) -> str:
    """Paragraphs as one page."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
