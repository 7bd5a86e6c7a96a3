"""Replay: plan, run, compare."""

from ..runs.processes import default_workers, start_processes
from ..runs.verdict import VERDICTS
from ..runs.window import Window
from .compare import Agreement, Confusion, Outcome, compare_with_log, confusion, disagreements, version_hint
from .difference import ExpressionDifference, RequestDifference, difference, request_difference
from .execute import run_replay
from .plan import ReplayPlan
from .planning import plan_replay
from .recorded import plan_replay_from_log, policies_as_of

__all__ = [
    "VERDICTS",
    "Agreement",
    "Confusion",
    "ExpressionDifference",
    "Outcome",
    "ReplayPlan",
    "RequestDifference",
    "Window",
    "compare_with_log",
    "confusion",
    "default_workers",
    "difference",
    "disagreements",
    "plan_replay",
    "plan_replay_from_log",
    "policies_as_of",
    "request_difference",
    "run_replay",
    "start_processes",
    "version_hint",
]
