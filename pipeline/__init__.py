"""The API server's admission stages, replayed over recorded requests.

plan = plan_replay(reader, load_policy_set([Path("policies")]))
print(plan)
summary = run_replay(plan, "lake", workers=2)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .policies.model import PolicySet
    from .runs import RunStore, RunSummary
    from .runs.window import Window
    from .stages.validating.compare import compare_with_log
    from .stages.validating.execute import run_replay
    from .stages.validating.load import load_policy_set, parse_policy_set
    from .stages.validating.plan import ReplayPlan
    from .stages.validating.planning import plan_replay
    from .stages.validating.recorded import plan_replay_from_log

# Loaded on first use: the CEL room stands alone and must not import the lake.
_PUBLIC = {
    "PolicySet": ".policies.model",
    "ReplayPlan": ".stages.validating.plan",
    "RunStore": ".runs",
    "RunSummary": ".runs",
    "Window": ".runs.window",
    "compare_with_log": ".stages.validating.compare",
    "load_policy_set": ".stages.validating.load",
    "parse_policy_set": ".stages.validating.load",
    "plan_replay": ".stages.validating.planning",
    "plan_replay_from_log": ".stages.validating.recorded",
    "run_replay": ".stages.validating.execute",
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
