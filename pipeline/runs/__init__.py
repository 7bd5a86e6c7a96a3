"""The runs of a lake: what each was asked for, whether it is complete, and its files."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kinds import RunKind
    from .store import RunStore, StoredRun
    from .summary import BindingSummary, Defect, RunSummary

# Loaded on first use: most commands need few of these.
_PUBLIC = {
    "BindingSummary": ".summary",
    "Defect": ".summary",
    "RunKind": ".kinds",
    "RunStore": ".store",
    "RunSummary": ".summary",
    "StoredRun": ".store",
}

__all__ = ["BindingSummary", "Defect", "RunKind", "RunStore", "RunSummary", "StoredRun"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
