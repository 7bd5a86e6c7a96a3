"""The authorization stage: which permissions a recorded request needed, and whether other roles and bindings would give them.

`needs_of` reads the permissions from an event, and `meet` asks roles and bindings for one of them. The evaluator of single
questions is `pipeline.authorization`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .needs import Ask, Grant, Met, Need, NeedKind, meet
    from .questions import Identity, identity_of, needs_of, refusal_of

# Loaded on first use: most commands need few of these.
_PUBLIC = {
    "Ask": ".needs",
    "Grant": ".needs",
    "Identity": ".questions",
    "Met": ".needs",
    "Need": ".needs",
    "NeedKind": ".needs",
    "identity_of": ".questions",
    "meet": ".needs",
    "needs_of": ".questions",
    "refusal_of": ".questions",
}

__all__ = ["Ask", "Grant", "Identity", "Met", "Need", "NeedKind", "identity_of", "meet", "needs_of", "refusal_of"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
