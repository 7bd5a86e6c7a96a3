"""Texts from the log, made safe to open: clients choose names and messages, which must not act on terminals or spreadsheets."""

from __future__ import annotations

import re

from markupsafe import Markup

from ingest.acting import ACTING, acting_characters, visible

__all__ = ["FORMULA", "NUMBER", "acting_characters", "spreadsheet_text", "visible", "visible_value"]

# A spreadsheet takes such a cell for a formula (OWASP, CSV Injection); not a number, which has nothing to run.
FORMULA = r"^[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_FORMULA_START = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_IS_NUMBER = re.compile(NUMBER, re.ASCII)


def visible_value(value: object) -> object:
    """The same for a value that a template prints; markup stays markup, and other values are unchanged."""
    if not isinstance(value, str) or not ACTING.search(value):
        return value
    return Markup(visible(value)) if isinstance(value, Markup) else visible(value)  # safe: escapes hold no markup


def spreadsheet_text(text: str) -> str:
    """The text as a CSV cell: an apostrophe stands before text that a spreadsheet would run as a formula. Numbers are unchanged."""
    return f"'{text}" if text[:1] in _FORMULA_START and not _IS_NUMBER.fullmatch(text) else text
