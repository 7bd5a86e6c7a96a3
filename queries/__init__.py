"""Ask the lake: DuckDB views over recorded audit events, and thin typed access to them.

reader = open_lake("lake")
reader.violation_rollup(["policy", "namespace"]).show()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dimensions import DIMENSIONS
    from .lake import LakeReader, open_if_there, open_lake, rollup_columns, rows_of, view_names

# Loaded on first use: most commands need few of these.
_PUBLIC = {
    "DIMENSIONS": ".dimensions",
    "LakeReader": ".lake",
    "open_if_there": ".lake",
    "open_lake": ".lake",
    "rollup_columns": ".lake",
    "rows_of": ".lake",
    "view_names": ".lake",
}

__all__ = ["DIMENSIONS", "LakeReader", "open_if_there", "open_lake", "rollup_columns", "rows_of", "view_names"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
