"""From the verdicts of a run to a decision: may this policy deny, how sure is that, and who would be hit.

report = readiness("lake", plan, run_replay(plan, "lake"))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ask import outcomes_of, readiness, verdicts_of
    from .judging import Judgement, judge
    from .rules import ReadinessRules
    from .verdict import decide_again

# Loaded on first use: the renderers need this room's model, which must not import the lake.
_PUBLIC = {
    "ReadinessRules": ".rules",
    "Judgement": ".judging",
    "decide_again": ".verdict",
    "judge": ".judging",
    "outcomes_of": ".ask",
    "readiness": ".ask",
    "verdicts_of": ".ask",
}

__all__ = ["Judgement", "ReadinessRules", "decide_again", "judge", "outcomes_of", "readiness", "verdicts_of"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
