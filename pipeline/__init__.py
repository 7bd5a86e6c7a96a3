"""The API server's admission stages, replayed over recorded requests.

plan = plan_replay(reader, load_policy_set([Path("policies")]))
print(plan)
summary = run_replay(plan, "lake", workers=2)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .admission.policies import PolicySet, load_policy_set, parse_policy_set
    from .replay import ReplayPlan, Window, compare_with_log, plan_replay, plan_replay_from_log, run_replay
    from .runs import RunStore, RunSummary

# Loaded on first use: the CEL room stands alone and must not import the lake.
_PUBLIC = {
    "PolicySet": ".admission.policies",
    "ReplayPlan": ".replay",
    "RunStore": ".runs",
    "RunSummary": ".runs",
    "Window": ".replay",
    "compare_with_log": ".replay",
    "load_policy_set": ".admission.policies",
    "parse_policy_set": ".admission.policies",
    "plan_replay": ".replay",
    "plan_replay_from_log": ".replay",
    "run_replay": ".replay",
}

__all__ = [
    "PolicySet",
    "ReplayPlan",
    "RunStore",
    "RunSummary",
    "Window",
    "compare_with_log",
    "load_policy_set",
    "parse_policy_set",
    "plan_replay",
    "plan_replay_from_log",
    "run_replay",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
