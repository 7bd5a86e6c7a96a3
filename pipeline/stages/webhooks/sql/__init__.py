"""The SQL of the stage of webhooks, one statement per file; the first line of each says what one row is."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """The text of `NAME.sql`."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
