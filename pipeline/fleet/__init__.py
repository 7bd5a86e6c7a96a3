"""The same manifests on every cluster of a lake: each cluster is judged alone, and no figure is pooled.

report = judge_fleet(Path("lake"), Question(texts))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fleet import judge_fleet
    from .model import FleetReport
    from .question import Question

# Loaded on first use: the renderers need this room's model, which must not import the lake.
_PUBLIC = {"FleetReport": ".model", "Question": ".question", "judge_fleet": ".fleet"}

__all__ = ["FleetReport", "Question", "judge_fleet"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
