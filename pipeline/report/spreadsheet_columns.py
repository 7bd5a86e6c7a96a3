"""Columns of tables, made safe to open in a spreadsheet.

It stands apart from `cells`, because commands that print a few texts need not load the functions for columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .cells import FORMULA, NUMBER


def spreadsheet_column(column: Any) -> Any:
    """`cells.spreadsheet_text` for a column of an Arrow table; columns that hold no text stay as they are."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    runs = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER))
    return pc.if_else(pc.fill_null(runs, False), pc.binary_join_element_wise("'", column, ""), column)
