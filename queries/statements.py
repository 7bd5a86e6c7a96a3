"""SQL statements in files of a package, one per file. The first line of each file says what one row is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files


def statements_of(package: str) -> Callable[[str], str]:
    """A function from NAME to the text of `NAME.sql` in a package."""

    @cache
    def statement(name: str) -> str:
        return files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")

    return statement
